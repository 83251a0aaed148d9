//! Takes entries that are due again, its own and other workers', for slots that are free.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Event, RETRY, Worker};
use crate::backoff::Backoff;
use crate::in_hand::Arrival;
use crate::message::Message;
use crate::post::Post;
use crate::store::{Charge, Fault, FaultClass, Take, Taken, Token};

impl Worker {
    /// Takes due entries for free slots: half of the slots while new entries wait as well.
    pub(super) fn claim(&mut self) -> bool {
        if self.retries.next_due().is_none() && self.overdue.is_empty() {
            return false;
        }
        let now = Instant::now();
        let slots = if self.ready.is_empty() {
            self.free
        } else {
            self.free.div_ceil(2)
        };
        let own = self.retries.pop_due(now, slots);
        let owner = &self.post.consumer.name;
        let own = own.into_iter().map(|token| Take {
            token,
            owner: Arc::clone(owner),
            min_idle: Duration::ZERO,
            charge: Charge::Counted,
        });
        let mut takes: Vec<_> = own.collect();
        while takes.len() < slots {
            let Some(take) = self.overdue.pop_front() else {
                break;
            };
            takes.push(take);
            if self.overdue.is_empty() && self.more_overdue {
                self.crew.look_again();
            }
        }
        if takes.is_empty() {
            return false;
        }
        self.free -= takes.len();
        self.claiming.extend(takes.iter().map(|take| take.token.id));
        self.step(|post, events| async move {
            let mut claim = Claim { takes, events };
            let mut at = Instant::now();
            let mut taken = post.store.take(&post.consumer, &claim.takes).await;
            if matches!(&taken, Err(fault) if fault.class == FaultClass::Reconnect) {
                (taken, at) = take_again(&post, &claim.takes).await;
            }
            claim.report(taken, at);
        });
        true
    }

    pub(super) fn claimed(
        &mut self,
        takes: Vec<Take>,
        taken: Result<Vec<Taken>, Fault>,
        at: Instant,
    ) {
        self.free += takes.len();
        for take in &takes {
            self.claiming.remove(&take.token.id);
        }
        let taken = match taken {
            Ok(taken) => taken,
            Err(fault) => return self.claim_failed(takes, &fault),
        };
        // Nothing renewed what was taken until now. What is ours all the same is found in the pending
        // list, and not counted again.
        let late = at.elapsed() >= self.post.policy().lease() / 2;
        for (take, taken) in takes.into_iter().zip(taken) {
            let id = take.token.id;
            let fields = match taken {
                Taken::Entry(_) if late => {
                    self.post.hand.release([id]);
                    continue;
                }
                Taken::Entry(fields) => fields,
                Taken::Lost => {
                    self.post.entry_lost(id);
                    self.post.hand.release([id]);
                    continue;
                }
                Taken::Gone | Taken::Other => {
                    if take.owner == self.post.consumer.name {
                        if taken == Taken::Gone && self.post.hand.contains(id) {
                            self.post.not_pending(id, RETRY);
                        }
                        self.post.hand.release([id]);
                    }
                    continue;
                }
            };
            let deliveries = take.token.deliveries + u64::from(take.charge == Charge::Counted);
            let arrival = self.post.hand.arrive([Token { id, deliveries }], at);
            if arrival == [Arrival::Known] {
                continue;
            }
            let message = Message::new(id, deliveries, fields, Arc::clone(&self.lane));
            if self.stopping {
                self.return_unstarted(&message);
            } else {
                self.start_message(message);
            }
        }
    }

    /// The server did not answer a claim: what waits here goes on waiting, what is another's is
    /// found again by the next look.
    fn claim_failed(&mut self, takes: Vec<Take>, fault: &Fault) {
        self.post.failing("taking what is due", fault);
        let again = Instant::now() + Duration::from_millis(100 + fastrand::u64(0..400));
        for take in takes {
            let mine = take.owner == self.post.consumer.name;
            if mine && take.charge == Charge::Counted && self.post.hand.contains(take.token.id) {
                self.retries.insert(again, take.token);
            }
        }
    }
}

/// Reports the end of a claim, also when its task panics: its slots are free again.
struct Claim {
    takes: Vec<Take>,
    events: mpsc::UnboundedSender<Event>,
}

impl Claim {
    fn report(&mut self, taken: Result<Vec<Taken>, Fault>, at: Instant) {
        let takes = std::mem::take(&mut self.takes);
        let _ = self.events.send(Event::Claimed { takes, taken, at });
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.takes.is_empty() {
            let fault = Fault::new(FaultClass::Wait, "a claim broke off");
            self.report(Err(fault), Instant::now());
        }
    }
}

/// Takes what may have been taken before, by a claim whose answer was lost. What it made this consumer's has
/// not run: it is taken as it is, and not counted again. Were it left to the next look, others could be first,
/// and find it handed out too often.
async fn take_again(post: &Post, takes: &[Take]) -> (Result<Vec<Taken>, Fault>, Instant) {
    let mut backoff = Backoff::short();
    loop {
        let at = Instant::now();
        match take_done_or_not(post, takes).await {
            Err(fault)
                if matches!(
                    fault.class,
                    FaultClass::Reconnect | FaultClass::Unreachable | FaultClass::Wait
                ) =>
            {
                if post.wait_or_give_up(backoff.wait()).await {
                    return (Err(fault), at);
                }
            }
            taken => return (taken, at),
        }
    }
}

async fn take_done_or_not(post: &Post, takes: &[Take]) -> Result<Vec<Taken>, Fault> {
    let store = &post.store;
    // Under a given name it may be a twin that has it.
    if post.has_given_name() {
        return store.take(&post.consumer, takes).await;
    }
    let done: Vec<_> = takes
        .iter()
        .map(|take| Take {
            token: Token {
                id: take.token.id,
                deliveries: take.token.deliveries + u64::from(take.charge == Charge::Counted),
            },
            owner: Arc::clone(&post.consumer.name),
            min_idle: Duration::ZERO,
            charge: Charge::Kept,
        })
        .collect();
    let mut taken = store.take(&post.consumer, &done).await?;
    let is_open = |taken: &Taken| matches!(taken, Taken::Gone | Taken::Other);
    let places: Vec<_> = (0..taken.len())
        .filter(|place| is_open(&taken[*place]))
        .collect();
    if !places.is_empty() {
        let open: Vec<_> = places.iter().map(|place| takes[*place].clone()).collect();
        for (place, answer) in places
            .into_iter()
            .zip(store.take(&post.consumer, &open).await?)
        {
            taken[place] = answer;
        }
    }
    Ok(taken)
}
