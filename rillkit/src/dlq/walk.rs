//! The way through a queue, a page at a time: what is kept of it does not grow with the queue.

use std::collections::BTreeSet;

use super::filter::{Filter, Span};
use super::letter::Letter;
use super::queue::Queue;
use crate::entry_id::EntryId;
use crate::store::{Entry, Fault};

/// Entries looked at in one step.
pub(super) const PAGE: usize = 100;

/// Which end comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    OldestFirst,
    NewestFirst,
}

pub(super) struct Walk<'a> {
    queue: &'a Queue,
    filter: &'a Filter,
    order: Order,
    /// What is still to be looked at; `None` at the end.
    left: Option<Span>,
    /// Where single letters were asked for: those.
    ids: Option<BTreeSet<EntryId>>,
}

/// What one step found.
pub(super) struct Found {
    /// The letters that are meant.
    pub(super) letters: Vec<Letter>,
    /// Letters of other streams.
    pub(super) others: u64,
}

impl<'a> Walk<'a> {
    /// Through all that is there, and all that comes meanwhile, behind `after`.
    pub(super) async fn over(
        queue: &'a Queue,
        filter: &'a Filter,
        order: Order,
        after: Option<EntryId>,
    ) -> Result<Self, Fault> {
        let now_ms = if filter.has_age() {
            queue.store.now_ms(&queue.name).await?
        } else {
            0
        };
        let mut walk = Self {
            queue,
            filter,
            order,
            left: filter.span(now_ms),
            ids: filter.selected().cloned(),
        };
        if let Some(after) = after {
            walk.pass(after);
        }
        Ok(walk)
    }

    /// Through what is there now, oldest first, behind `after`: a letter that is moved and fails
    /// again would be met for ever.
    pub(super) async fn over_present(
        queue: &'a Queue,
        filter: &'a Filter,
        after: Option<EntryId>,
    ) -> Result<Self, Fault> {
        let last = queue.store.last_id(&queue.name).await?;
        let mut walk = Self::over(queue, filter, Order::OldestFirst, after).await?;
        walk.left = walk.left.zip(last).and_then(|(left, last)| {
            let to = left.to.min(last);
            (left.from <= to).then_some(Span { to, ..left })
        });
        Ok(walk)
    }

    /// The next letters that are meant, of `look_at` entries; `None` at the end.
    pub(super) async fn next(&mut self, look_at: usize) -> Result<Option<Found>, Fault> {
        let Some(span) = self.left else {
            return Ok(None);
        };
        let entries = match self.chosen(span, look_at) {
            Some(ids) if ids.is_empty() => return Ok(None),
            Some(ids) => self.those(&ids).await?,
            None => {
                let entries = self.range(span, look_at).await?;
                match entries.last() {
                    Some(last) if entries.len() >= look_at => self.pass(last.id),
                    Some(_) | None => self.left = None,
                }
                entries
            }
        };
        Ok(Some(self.sift(entries)))
    }

    fn sift(&self, entries: Vec<Entry>) -> Found {
        let mut found = Found {
            letters: Vec::with_capacity(entries.len()),
            others: 0,
        };
        for letter in entries.into_iter().map(Letter::from) {
            if !self.queue.owns(&letter) {
                found.others += 1;
            } else if self.filter.admits(&letter) {
                found.letters.push(letter);
            }
        }
        found
    }

    /// The next single letters that were asked for, where such were.
    fn chosen(&mut self, span: Span, count: usize) -> Option<Vec<EntryId>> {
        let (ids, order) = (self.ids.as_mut()?, self.order);
        let next = || match order {
            Order::OldestFirst => ids.pop_first(),
            Order::NewestFirst => ids.pop_last(),
        };
        let within = std::iter::from_fn(next).filter(|id| span.contains(*id));
        Some(within.take(count).collect())
    }

    /// Goes on behind this entry.
    fn pass(&mut self, id: EntryId) {
        let next = |span: Span| match self.order {
            Order::OldestFirst => (id < span.to).then(|| Span {
                from: span.from.max(id.after()),
                ..span
            }),
            Order::NewestFirst => (id > span.from).then(|| Span {
                to: span.to.min(id.before()),
                ..span
            }),
        };
        self.left = self.left.and_then(next);
    }

    async fn range(&self, Span { from, to }: Span, count: usize) -> Result<Vec<Entry>, Fault> {
        let Queue { store, name, .. } = self.queue;
        match self.order {
            Order::OldestFirst => store.range(name, from, to, count).await,
            Order::NewestFirst => store.range_back(name, from, to, count).await,
        }
    }

    async fn those(&self, ids: &[EntryId]) -> Result<Vec<Entry>, Fault> {
        let mut entries = Vec::with_capacity(ids.len());
        for id in ids {
            entries.extend(
                self.queue
                    .store
                    .range(&self.queue.name, *id, *id, 1)
                    .await?,
            );
        }
        Ok(entries)
    }
}
