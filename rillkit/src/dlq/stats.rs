//! A queue in numbers.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;

use super::filter::Filter;
use super::letter::Letter;
use super::queue::Queue;
use super::tally::Tally;
use super::walk::{Order, PAGE, Walk};
use crate::entry_id::EntryId;
use crate::error::Error;
use crate::store::Fault;

/// Counts letters when it is awaited.
///
/// See [`Dlq::stats`](super::Dlq::stats).
#[must_use = "nothing is counted until this is awaited"]
pub struct Stats {
    queue: Result<Queue, Error>,
    filter: Filter,
    top: usize,
}

/// Dead letters in numbers. Each list has the most frequent first; what a letter does not say is the
/// empty text.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DlqStats {
    /// Letters of the stream, those that the filter means.
    pub count: u64,
    /// Letters of other streams that are in the same queue.
    pub others: u64,
    /// The oldest letter's id; its milliseconds say since when it has been there.
    pub oldest: Option<EntryId>,
    /// The newest letter's id.
    pub newest: Option<EntryId>,
    /// Letters by [`reason`](Letter::reason).
    pub by_reason: Vec<(String, u64)>,
    /// Letters by the text of their error, with `#` for each number in it: `order 17 is locked` and
    /// `order 18 is locked` are one.
    pub by_error: Vec<(String, u64)>,
    /// Letters whose error is not in [`by_error`](Self::by_error), which has the most frequent ones.
    pub other_errors: u64,
    /// Letters by [`handler`](Letter::handler).
    pub by_handler: Vec<(String, u64)>,
    /// Letters by [`group`](Letter::group).
    pub by_group: Vec<(String, u64)>,
    /// Letters that were replayed before and failed again.
    pub replayed: u64,
}

impl Stats {
    pub(super) fn new(queue: Result<Queue, Error>) -> Self {
        Self {
            queue,
            filter: Filter::new(),
            top: 10,
        }
    }

    /// Only letters that this filter means.
    pub fn matching(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// How many different errors are listed, instead of 10. A thousand are told apart.
    pub fn top(mut self, count: usize) -> Self {
        self.top = count;
        self
    }

    async fn run(self) -> Result<DlqStats, Error> {
        let queue = self.queue.as_ref().map_err(Error::clone)?;
        let stats = self.count(queue).await;
        stats.map_err(|fault| queue.cannot_look(&fault))
    }

    async fn count(&self, queue: &Queue) -> Result<DlqStats, Fault> {
        let mut counts = Counts::default();
        let mut walk = Walk::over(queue, &self.filter, Order::OldestFirst, None).await?;
        while let Some(found) = walk.next(PAGE).await? {
            counts.stats.others += found.others;
            for letter in &found.letters {
                counts.add(letter);
            }
        }
        Ok(counts.summed_up(self.top))
    }
}

#[derive(Default)]
struct Counts {
    stats: DlqStats,
    reasons: Tally,
    errors: Tally,
    handlers: Tally,
    groups: Tally,
}

impl Counts {
    fn add(&mut self, letter: &Letter) {
        let stats = &mut self.stats;
        stats.count += 1;
        stats.oldest = stats.oldest.or(Some(letter.id()));
        stats.newest = Some(letter.id());
        stats.replayed += u64::from(letter.replays() > 0);
        self.reasons.add(letter.reason().unwrap_or_default());
        self.errors.add(&alike(letter.error().unwrap_or_default()));
        self.handlers.add(letter.handler().unwrap_or_default());
        self.groups.add(letter.group().unwrap_or_default());
    }

    fn summed_up(self, top: usize) -> DlqStats {
        let (by_error, other_errors) = self.errors.top(top);
        DlqStats {
            by_reason: self.reasons.top(usize::MAX).0,
            by_error,
            other_errors,
            by_handler: self.handlers.top(usize::MAX).0,
            by_group: self.groups.top(usize::MAX).0,
            ..self.stats
        }
    }
}

/// An error's text without what differs from one occurrence to the next: its numbers.
fn alike(error: &str) -> String {
    let mut text = String::with_capacity(error.len());
    for c in error.chars() {
        if !c.is_ascii_digit() {
            text.push(c);
        } else if !text.ends_with('#') {
            text.push('#');
        }
    }
    text
}

impl IntoFuture for Stats {
    type Output = Result<DlqStats, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stats")
            .field("queue", &self.queue)
            .field("filter", &self.filter)
            .field("top", &self.top)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_are_alike() {
        for (error, text) in [
            ("order 17 is locked", "order # is locked"),
            ("10.0.0.1:6379 refused", "#.#.#.#:# refused"),
            ("plain", "plain"),
            ("", ""),
        ] {
            assert_eq!(alike(error), text);
        }
    }
}
