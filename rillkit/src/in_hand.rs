//! The entries that one consumer of this process has in hand: read and not settled yet.
//!
//! Shared by the worker, which handles them, the lease keeper, which renews them, and the settler,
//! which lets go of them. It is also what tells an entry that comes again from a new one.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::entry_id::EntryId;
use crate::store::Token;

/// Entries by their ids. An id is a time and a counter that the server made, so that a multiplication
/// spreads them well enough, at a tenth of the cost of the default hash.
type ById<T> = HashMap<EntryId, T, BuildHasherDefault<IdHasher>>;

#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write_u64(&mut self, part: u64) {
        self.0 = (self.0.rotate_left(32) ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn finish(&self) -> u64 {
        // The table takes its buckets from the low bits, the product is best in the high ones.
        self.0.rotate_left(26)
    }
}

#[derive(Debug, Default)]
pub(crate) struct InHand {
    held: Mutex<ById<Held>>,
    /// The entry whose handler the worker polls in place at this moment; `0-0` is none. Two plain
    /// stores for each message instead of a lock; a torn read names no entry in hand.
    inline_ms: AtomicU64,
    inline_seq: AtomicU64,
}

/// One entry in hand.
#[derive(Debug, Clone)]
struct Held {
    deliveries: u64,
    /// The last moment at which its idle time was surely zero.
    touched: Instant,
    arrived: Instant,
    stage: Stage,
    /// The renewal found it with another consumer.
    lost: bool,
}

impl Held {
    fn is_due_for_touch(&self, now: Instant, lease: Duration) -> bool {
        let aged = now.duration_since(self.touched) >= lease / 3;
        match self.stage {
            Stage::Ready | Stage::Running { .. } | Stage::Settling => aged,
            Stage::Waiting {
                hold_until: None, ..
            } => false,
            // The last touch is the one from which everybody else counts.
            Stage::Waiting {
                hold_until: Some(until),
                ..
            } => self.touched < until && (aged || until <= now),
        }
    }
}

/// Where an entry in hand stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Read, not started.
    Ready,
    /// Its handler runs.
    Running { started: Instant, warned: Duration },
    /// It failed and waits for its retry, due then; nobody may take it before `hold_until`.
    Waiting {
        due: Instant,
        hold_until: Option<Instant>,
    },
    /// Its handler has ended, and the server has not confirmed what follows.
    Settling,
}

/// What an arrival is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Not in hand before.
    New,
    /// It was waiting for a retry: the group handed it out afresh, and the wait is void.
    Afresh,
    /// It is being handled already.
    Known,
}

/// What there is, at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) count: usize,
    /// How long the oldest that does not wait for a retry has been in hand.
    pub(crate) oldest: Option<Duration>,
    /// The worker polls a handler in place at this moment.
    pub(crate) polls_in_place: bool,
}

/// What is to be acked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settling {
    /// Those that nobody else can have taken.
    pub(crate) plain: Vec<EntryId>,
    /// The rest, with their fences.
    pub(crate) fenced: Vec<Token>,
    /// Those of both that had been handed out before.
    pub(crate) again: Vec<Token>,
}

/// What the keeper has to do for a consumer.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// Leases to renew.
    pub(crate) renew: Vec<Token>,
    /// Runs that have gone on for very long, and for how long.
    pub(crate) long: Vec<(EntryId, Duration)>,
}

impl InHand {
    fn lock(&self) -> MutexGuard<'_, ById<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn census(&self) -> Census {
        let held = self.lock();
        let at_work = held
            .values()
            .filter(|held| !matches!(held.stage, Stage::Waiting { .. }));
        Census {
            count: held.len(),
            oldest: at_work.map(|held| held.arrived.elapsed()).max(),
            polls_in_place: self.inline() != EntryId::MIN,
        }
    }

    /// All entries, and where they stand.
    pub(crate) fn all(&self) -> Vec<(EntryId, Stage)> {
        let held = self.lock();
        held.iter().map(|(id, held)| (*id, held.stage)).collect()
    }

    pub(crate) fn contains(&self, id: EntryId) -> bool {
        self.lock().contains_key(&id)
    }

    /// Takes in what was just handed out; one answer for each.
    pub(crate) fn arrive(
        &self,
        tokens: impl IntoIterator<Item = Token>,
        touched: Instant,
    ) -> Vec<Arrival> {
        let mut held = self.lock();
        let fresh = |deliveries| Held {
            deliveries,
            touched,
            arrived: touched,
            stage: Stage::Ready,
            lost: false,
        };
        tokens
            .into_iter()
            .map(|Token { id, deliveries }| match held.entry(id) {
                Slot::Vacant(slot) => {
                    slot.insert(fresh(deliveries));
                    Arrival::New
                }
                Slot::Occupied(mut slot) if matches!(slot.get().stage, Stage::Waiting { .. }) => {
                    slot.insert(fresh(deliveries));
                    Arrival::Afresh
                }
                Slot::Occupied(mut slot) => {
                    // The group counts anew: what settles it must name the new count.
                    let known = slot.get_mut();
                    known.deliveries = deliveries;
                    known.touched = touched;
                    known.lost = false;
                    Arrival::Known
                }
            })
            .collect()
    }

    /// Moves an entry to another stage.
    pub(crate) fn set_stage(&self, id: EntryId, stage: Stage) {
        if let Some(held) = self.lock().get_mut(&id) {
            held.stage = stage;
        }
    }

    /// The fence of an entry in hand, as the group counts it now; `None` for one that was lost.
    pub(crate) fn token(&self, id: EntryId) -> Option<Token> {
        let held = self.lock();
        let held = held.get(&id).filter(|held| !held.lost);
        held.map(|held| Token {
            id,
            deliveries: held.deliveries,
        })
    }

    /// How long an entry in hand may have been idle.
    pub(crate) fn untouched(&self, id: EntryId, now: Instant) -> Option<Duration> {
        self.lock()
            .get(&id)
            .map(|held| now.duration_since(held.touched))
    }

    /// How long an entry has been in hand.
    pub(crate) fn age(&self, id: EntryId, now: Instant) -> Option<Duration> {
        self.lock()
            .get(&id)
            .map(|held| now.saturating_duration_since(held.arrived))
    }

    /// Lets entries go.
    pub(crate) fn release(&self, ids: impl IntoIterator<Item = EntryId>) {
        let mut held = self.lock();
        for id in ids {
            held.remove(&id);
        }
    }

    /// Marks entries as settling and sorts them: those that nobody else can have taken, since they
    /// were touched within `fresh`, and the rest with their fences. What was lost is in neither.
    pub(crate) fn settling(&self, ids: &[EntryId], fresh: Duration, now: Instant) -> Settling {
        let mut held = self.lock();
        let mut settling = Settling {
            plain: Vec::with_capacity(ids.len()),
            ..Settling::default()
        };
        for id in ids {
            let Some(held) = held.get_mut(id).filter(|held| !held.lost) else {
                continue;
            };
            held.stage = Stage::Settling;
            let token = Token {
                id: *id,
                deliveries: held.deliveries,
            };
            if now.duration_since(held.touched) < fresh {
                settling.plain.push(*id);
            } else {
                settling.fenced.push(token);
            }
            if token.deliveries > 1 {
                settling.again.push(token);
            }
        }
        settling
    }

    /// Notes which handler is polled in place from now on.
    pub(crate) fn set_inline(&self, id: EntryId) {
        self.inline_ms.store(id.ms, Ordering::Relaxed);
        self.inline_seq.store(id.seq, Ordering::Relaxed);
    }

    /// Notes that none is.
    pub(crate) fn clear_inline(&self) {
        self.set_inline(EntryId::MIN);
    }

    fn inline(&self) -> EntryId {
        EntryId {
            ms: self.inline_ms.load(Ordering::Relaxed),
            seq: self.inline_seq.load(Ordering::Relaxed),
        }
    }

    /// The keeper's work at this moment. `before` is the handler that was polled in place when it
    /// last asked, and when that was: one that still is has been running since.
    pub(crate) fn rounds(
        &self,
        now: Instant,
        lease: Duration,
        timeout: Option<Duration>,
        before: &mut (EntryId, Instant),
    ) -> Rounds {
        let inline = self.inline();
        let mut held = self.lock();
        if inline == before.0 {
            if let Some(held) = held
                .get_mut(&inline)
                .filter(|held| held.stage == Stage::Ready)
            {
                held.stage = Stage::Running {
                    started: before.1,
                    warned: Duration::ZERO,
                };
            }
        } else {
            *before = (inline, now);
        }
        let mut rounds = Rounds::default();
        for (id, held) in held.iter_mut() {
            if held.lost {
                continue;
            }
            if let Stage::Running { started, warned } = &mut held.stage {
                let running = now.duration_since(*started);
                if timeout.is_some_and(|timeout| running > timeout) {
                    continue;
                }
                if timeout.is_none() && running >= lease * 10 && running >= *warned * 2 {
                    *warned = running;
                    rounds.long.push((*id, running));
                }
            }
            if held.is_due_for_touch(now, lease) {
                rounds.renew.push(Token {
                    id: *id,
                    deliveries: held.deliveries,
                });
            }
        }
        rounds
    }

    /// Notes a renewal that was sent at `at`.
    pub(crate) fn renewed(&self, token: Token, at: Instant) {
        if let Some(held) = self
            .lock()
            .get_mut(&token.id)
            .filter(|held| held.deliveries == token.deliveries)
        {
            held.touched = held.touched.max(at);
        }
    }

    /// Notes that an entry is another's; whether that is news about something that is still wanted.
    pub(crate) fn lose(&self, token: Token) -> bool {
        match self.lock().get_mut(&token.id) {
            Some(held) if held.deliveries == token.deliveries && held.stage != Stage::Settling => {
                !std::mem::replace(&mut held.lost, true)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_millis(300);

    fn token(ms: u64, deliveries: u64) -> Token {
        Token {
            id: EntryId { ms, seq: 0 },
            deliveries,
        }
    }

    fn waiting(now: Instant) -> Stage {
        Stage::Waiting {
            due: now + LEASE,
            hold_until: None,
        }
    }

    fn rounds(hand: &InHand, now: Instant) -> Rounds {
        hand.rounds(now, LEASE, None, &mut (EntryId::MIN, now))
    }

    #[test]
    fn what_is_in_hand_is_known_when_it_comes_again() {
        let (hand, now) = (InHand::default(), Instant::now());
        assert_eq!(
            hand.arrive([token(1, 3), token(2, 1)], now),
            [Arrival::New, Arrival::New]
        );
        hand.set_stage(token(2, 1).id, waiting(now));
        assert_eq!(
            hand.arrive([token(1, 1), token(2, 1)], now),
            [Arrival::Known, Arrival::Afresh]
        );
        assert_eq!(hand.token(token(1, 0).id), Some(token(1, 1)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_a_retry_does_not_count_as_old() {
        let (hand, now) = (InHand::default(), Instant::now());
        hand.arrive([token(1, 1)], now);
        tokio::time::sleep(LEASE).await;
        hand.arrive([token(2, 1)], Instant::now());
        assert_eq!(hand.census().oldest, Some(LEASE));
        hand.set_stage(token(1, 1).id, waiting(now));
        hand.set_inline(token(2, 1).id);
        let census = Census {
            count: 2,
            oldest: Some(Duration::ZERO),
            polls_in_place: true,
        };
        assert_eq!(hand.census(), census);
    }

    #[test]
    fn leases_are_renewed_at_a_third() {
        let (hand, now) = (InHand::default(), Instant::now());
        hand.arrive([token(1, 1)], now);
        assert!(rounds(&hand, now + LEASE / 4).renew.is_empty());
        assert_eq!(rounds(&hand, now + LEASE / 3).renew, [token(1, 1)]);
        hand.renewed(token(1, 1), now + LEASE / 3);
        assert!(rounds(&hand, now + LEASE / 2).renew.is_empty());
    }

    #[test]
    fn an_ordinary_wait_needs_no_lease_and_a_longer_one_does() {
        let (hand, now) = (InHand::default(), Instant::now());
        hand.arrive([token(1, 1), token(2, 1)], now);
        hand.set_stage(token(1, 1).id, waiting(now));
        hand.set_stage(
            token(2, 1).id,
            Stage::Waiting {
                due: now + LEASE * 2,
                hold_until: Some(now + LEASE),
            },
        );
        assert_eq!(rounds(&hand, now + LEASE / 2).renew, [token(2, 1)]);
        assert_eq!(
            rounds(&hand, now + LEASE).renew,
            [token(2, 1)],
            "the last touch"
        );
        hand.renewed(token(2, 1), now + LEASE);
        assert!(rounds(&hand, now + LEASE * 2).renew.is_empty());
    }

    #[test]
    fn a_run_past_its_limit_is_not_renewed() {
        let (hand, now) = (InHand::default(), Instant::now());
        hand.arrive([token(1, 1)], now);
        hand.set_stage(
            token(1, 1).id,
            Stage::Running {
                started: now,
                warned: Duration::ZERO,
            },
        );
        let limit = Some(Duration::from_millis(200));
        assert_eq!(
            hand.rounds(now + LEASE / 2, LEASE, limit, &mut (EntryId::MIN, now))
                .renew,
            [token(1, 1)]
        );
        assert!(
            hand.rounds(now + LEASE, LEASE, limit, &mut (EntryId::MIN, now))
                .renew
                .is_empty()
        );
    }

    #[test]
    fn long_runs_are_named_at_growing_intervals_also_those_that_block() {
        let (hand, now) = (InHand::default(), Instant::now());
        hand.arrive([token(1, 1)], now);
        hand.set_inline(token(1, 1).id);
        let mut before = (EntryId::MIN, now);
        let mut named = Vec::new();
        for leases in 0..100 {
            let rounds = hand.rounds(now + LEASE * leases, LEASE, None, &mut before);
            named.extend(rounds.long.iter().map(|_| leases));
        }
        assert_eq!(named, [10, 20, 40, 80]);
    }

    #[test]
    fn only_what_was_touched_lately_is_acked_without_a_fence() {
        let (hand, now) = (InHand::default(), Instant::now());
        hand.arrive([token(1, 1)], now);
        hand.arrive([token(2, 4), token(3, 1)], now + LEASE);
        assert!(hand.lose(token(3, 1)));
        assert!(!hand.lose(token(3, 1)));
        let ids = [
            token(1, 1).id,
            token(2, 1).id,
            token(3, 1).id,
            token(9, 1).id,
        ];
        let settling = hand.settling(&ids, LEASE / 2, now + LEASE);
        assert_eq!(settling.plain, [token(2, 1).id]);
        assert_eq!(settling.fenced, [token(1, 1)]);
        assert_eq!(settling.again, [token(2, 4)]);
    }
}
