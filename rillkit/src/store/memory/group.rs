//! What a group knows: how far it has read, who holds which entry since when, and its consumers.
//!
//! Only bookkeeping: `mod` holds the lock and says what is to be done with an entry.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::history::History;
use super::{Entries, Entry, Fenced, Peer, Pending, Summary, Take, Taken, Token};
use crate::entry_id::EntryId;
use crate::inspect::PendingInfo;
use crate::store::{Charge, Standing};

pub(super) struct Group {
    last_id: EntryId,
    pending: BTreeMap<EntryId, Held>,
    members: BTreeMap<Arc<str>, Member>,
    history: History,
}

struct Held {
    owner: Arc<str>,
    deliveries: u64,
    idle: Idle,
}

/// An idle time that goes on. A part of it may lie before the clock began, where no instant is.
#[derive(Clone, Copy)]
struct Idle {
    since: Instant,
    before: Duration,
}

/// A consumer, with the ids of what it holds: the same as in `pending`.
struct Member {
    holds: BTreeSet<EntryId>,
    seen: Instant,
}

impl Group {
    pub(super) fn new(last_id: EntryId) -> Self {
        Self {
            last_id,
            pending: BTreeMap::new(),
            members: BTreeMap::new(),
            history: History::default(),
        }
    }

    pub(super) fn last_id(&self) -> EntryId {
        self.last_id
    }

    pub(super) fn is_pending(&self, id: EntryId) -> bool {
        self.pending.contains_key(&id)
    }

    pub(super) fn history(&mut self) -> &mut History {
        &mut self.history
    }

    /// Forgets what is kept about entries that are not pending.
    pub(super) fn tidy_history(&mut self) {
        self.history.retain(|id| self.pending.contains_key(&id));
    }

    /// Whether an operation on this delivery would be `Done`.
    pub(super) fn fence(&self, owner: &str, token: Token) -> Fenced {
        match self.pending.get(&token.id) {
            None => Fenced::Gone,
            Some(held) if *held.owner == *owner && held.deliveries == token.deliveries => {
                Fenced::Done
            }
            Some(_) => Fenced::Other,
        }
    }

    /// Hands out up to `count` entries that nobody was handed before. The consumer counts as seen
    /// also when there are none, and exists from then on.
    pub(super) fn hand_out(
        &mut self,
        entries: &Entries,
        to: &Arc<str>,
        count: usize,
        now: Instant,
    ) -> Vec<Entry> {
        let new = entries
            .range((Excluded(self.last_id), Unbounded))
            .take(count);
        let handed: Vec<Entry> = new
            .map(|(id, fields)| Entry {
                id: *id,
                fields: fields.clone(),
            })
            .collect();
        let member = see(&mut self.members, to, now);
        for Entry { id, .. } in &handed {
            let idle = Idle {
                since: now,
                before: Duration::ZERO,
            };
            self.pending.insert(
                *id,
                Held {
                    owner: Arc::clone(to),
                    deliveries: 1,
                    idle,
                },
            );
            member.holds.insert(*id);
        }
        if let Some(last) = handed.last() {
            self.last_id = last.id;
        }
        handed
    }

    /// Makes the entry pending for `owner`, with this count and idle time.
    pub(super) fn hold(&mut self, token: Token, owner: &Arc<str>, idle: Duration, now: Instant) {
        let idle = Idle {
            since: now,
            before: idle,
        };
        let held = Held {
            owner: Arc::clone(owner),
            deliveries: token.deliveries,
            idle,
        };
        let former = self.pending.insert(token.id, held);
        if let Some(member) = former.and_then(|former| self.members.get_mut(&former.owner)) {
            member.holds.remove(&token.id);
        }
        see(&mut self.members, owner, now).holds.insert(token.id);
    }

    /// Ends that the entry is pending, whoever holds it.
    pub(super) fn settle(&mut self, id: EntryId) {
        if let Some(member) = self
            .pending
            .remove(&id)
            .and_then(|held| self.members.get_mut(&held.owner))
        {
            member.holds.remove(&id);
        }
    }

    pub(super) fn take(
        &mut self,
        entries: &Entries,
        take: &Take,
        taker: &Arc<str>,
        now: Instant,
    ) -> Taken {
        match self.fence(&take.owner, take.token) {
            Fenced::Gone => return Taken::Gone,
            Fenced::Other => return Taken::Other,
            Fenced::Done => {}
        }
        let id = take.token.id;
        if self
            .pending
            .get(&id)
            .is_some_and(|held| held.idle.at(now) < take.min_idle)
        {
            return Taken::Other;
        }
        let Some(fields) = entries.get(&id) else {
            self.settle(id);
            return Taken::Lost;
        };
        let deliveries = match take.charge {
            Charge::Counted => take.token.deliveries.saturating_add(1),
            Charge::Kept => take.token.deliveries,
        };
        self.hold(Token { id, deliveries }, taker, Duration::ZERO, now);
        Taken::Entry(fields.clone())
    }

    pub(super) fn summary(&self) -> Summary {
        let consumers = self
            .members
            .iter()
            .map(|(name, member)| (Arc::clone(name), member.holds.len() as u64));
        Summary {
            pending: self.pending.len() as u64,
            lowest: self.pending.keys().next().copied(),
            consumers: consumers.filter(|(_, pending)| *pending > 0).collect(),
        }
    }

    pub(super) fn standing(&self, name: &str, entries: &Entries) -> Standing {
        let unread = entries.range((Excluded(self.last_id), Unbounded)).count() as u64;
        Standing {
            group: name.to_owned(),
            last: self.last_id,
            pending: self.pending.len() as u64,
            lowest: self.pending.keys().next().copied(),
            has_unread: unread > 0,
            unread: Some(unread),
        }
    }

    pub(super) fn peers(&self, now: Instant) -> Vec<Peer> {
        let peer = |(name, member): (&Arc<str>, &Member)| Peer {
            name: Arc::clone(name),
            pending: member.holds.len() as u64,
            idle: now.saturating_duration_since(member.seen),
        };
        self.members.iter().map(peer).collect()
    }

    pub(super) fn pending(
        &self,
        consumer: &str,
        from: EntryId,
        count: usize,
        now: Instant,
    ) -> Vec<Pending> {
        let holds = self
            .members
            .get(consumer)
            .map(|member| member.holds.range(from..));
        let held = holds
            .into_iter()
            .flatten()
            .take(count)
            .filter_map(|id| self.pending.get_key_value(id));
        let row = |(id, held): (&EntryId, &Held)| Pending {
            token: Token {
                id: *id,
                deliveries: held.deliveries,
            },
            idle: held.idle.at(now),
        };
        held.map(row).collect()
    }

    pub(super) fn held(
        &self,
        consumer: Option<&str>,
        from: EntryId,
        count: usize,
        now: Instant,
    ) -> Vec<PendingInfo> {
        let held = self.pending.range(from..);
        let held = held.filter(|(_, held)| consumer.is_none_or(|name| *held.owner == *name));
        let row = |(id, held): (&EntryId, &Held)| PendingInfo {
            id: *id,
            consumer: held.owner.to_string(),
            idle: held.idle.at(now),
            deliveries: held.deliveries,
        };
        held.take(count).map(row).collect()
    }

    pub(super) fn remove_if_empty(
        &mut self,
        consumer: &str,
        min_idle: Duration,
        now: Instant,
    ) -> bool {
        let empty = self.members.get(consumer).is_some_and(|member| {
            member.holds.is_empty() && now.saturating_duration_since(member.seen) >= min_idle
        });
        if empty {
            self.members.remove(consumer);
        }
        empty
    }
}

impl Idle {
    fn at(self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
            .saturating_add(self.before)
    }
}

/// The consumer, made where it is missing, and seen now.
fn see<'a>(
    members: &'a mut BTreeMap<Arc<str>, Member>,
    name: &Arc<str>,
    now: Instant,
) -> &'a mut Member {
    let new = || Member {
        holds: BTreeSet::new(),
        seen: now,
    };
    let member = members.entry(Arc::clone(name)).or_insert_with(new);
    member.seen = now;
    member
}
