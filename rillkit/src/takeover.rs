//! Looks through the group's pending list for entries that are due and that nobody in this process
//! has in hand: of workers that are gone, handed back at a stop, or forgotten by the living.
//!
//! It only looks, and offers what it finds to the worker, which takes an entry when it can start it
//! at once. The whole list is never scanned at a time: a dead consumer's entries are read page by
//! page from that consumer's own index, a living one's spread over one lease.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::decide;
use crate::entry_id::EntryId;
use crate::environment;
use crate::lane::Lane;
use crate::log;
use crate::message::Message;
use crate::policy::{DeleteOnAck, Policy};
use crate::post::{HANDED_BACK, Post};
use crate::pulse::Part;
use crate::roster::Roster;
use crate::store::{Charge, Consumer, Fault, FaultClass, Peer, Pending, Take, Taken};
use crate::worker::Event;

/// Entries that one look offers at most.
pub(crate) const OFFERS: usize = 128;
/// Entries in one page of a pending list.
const PAGE: usize = 100;
/// How often the list is looked at, at most: what a stopped worker hands back is taken up within
/// about two of these. Jitter is subtracted, so that workers do not look together.
const EVERY: Duration = Duration::from_millis(1000);
const LEAST: Duration = Duration::from_millis(50);
/// The group's position is looked at each so many times; see [`Post::floor`].
const FLOOR_EVERY: u32 = 4;
/// How often consumers of workers that are gone are looked for.
const TIDY_EVERY: Duration = Duration::from_secs(600);
/// Looks at the history in one tidying; the next goes on from there.
const HISTORY_LOOKS: usize = 100;
/// How long a consumer of ours must have been idle to count as gone. Older servers do not count an
/// empty read as a sign of life, so that a quiet worker's may be removed: its next read makes it
/// again.
const GONE_AFTER: Duration = Duration::from_secs(60 * 60);

pub(crate) struct Takeover {
    post: Arc<Post>,
    lane: Arc<Lane>,
    events: mpsc::UnboundedSender<Event>,
    again: Arc<Notify>,
    /// How far each consumer's list was read.
    cursors: HashMap<Arc<str>, EntryId>,
    looks: u32,
    tidy_at: Instant,
    roster: Roster,
    /// How far the history was tidied.
    history_from: u64,
}

/// Whether a consumer shows signs of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    HandedBack,
    Dead,
    Living,
}

impl Takeover {
    pub(crate) fn new(
        post: Arc<Post>,
        lane: Arc<Lane>,
        events: mpsc::UnboundedSender<Event>,
        again: Arc<Notify>,
    ) -> Self {
        Self {
            post,
            lane,
            events,
            again,
            cursors: HashMap::new(),
            looks: 0,
            tidy_at: Instant::now(),
            roster: Roster::new(),
            history_from: 0,
        }
    }

    /// Looks for ever; the worker drops it at the stop.
    pub(crate) async fn run(mut self) {
        let every = (self.post.policy().lease() / 2).clamp(LEAST, EVERY);
        loop {
            self.post.pulse.beat(Part::TakingOver);
            if let Err(fault) = self.look().await {
                self.post.failing("looking for what is due", &fault);
            }
            let wait = every.mul_f64(1.0 - fastrand::f64() / 4.0);
            let _ = tokio::time::timeout(wait, self.again.notified()).await;
        }
    }

    async fn look(&mut self) -> Result<(), Fault> {
        let consumer = self.post.consumer.clone();
        if self.looks.is_multiple_of(FLOOR_EVERY) {
            unless_forbidden(update_floor(&self.post).await)?;
        }
        self.looks = self.looks.wrapping_add(1);
        self.roster.note(&self.post).await;
        if self.tidy_at <= Instant::now() {
            self.tidy_at = Instant::now() + TIDY_EVERY.mul_f64(0.5 + fastrand::f64() / 2.0);
            unless_forbidden(self.tidy().await)?;
            // What stays is found the next time.
            let _ = self.tidy_history().await;
        }
        let summary = self
            .post
            .store
            .summary(consumer.stream, consumer.group)
            .await?;
        let mine = summary
            .consumers
            .iter()
            .find(|(name, _)| *name == consumer.name)
            .map_or(0, |(_, count)| *count);
        let nothing_of_others = summary.pending == mine;
        if nothing_of_others && mine as usize <= self.post.hand.len() {
            self.cursors.clear();
            return Ok(());
        }
        let mut peers = self.peers(&summary.consumers).await?;
        peers.retain(|(peer, _)| peer.pending > 0);
        peers.sort_by_key(|(_, life)| match life {
            Life::HandedBack => 0,
            Life::Dead => 1,
            Life::Living => 2,
        });
        self.cursors
            .retain(|name, _| peers.iter().any(|(peer, _)| peer.name == *name));
        let (mut offers, mut exhausted) = (Vec::new(), Vec::new());
        for (peer, life) in peers {
            self.look_at(&peer, life, &mut offers, &mut exhausted)
                .await?;
        }
        if !offers.is_empty() {
            let _ = self.events.send(Event::Overdue(offers));
        }
        self.bury(exhausted).await
    }

    /// Removes consumers that workers left behind which died: of ours, with nothing pending, and idle
    /// for long. At a stop a worker removes its own.
    async fn tidy(&self) -> Result<(), Fault> {
        let Consumer {
            stream,
            group,
            name,
            ..
        } = &self.post.consumer;
        let mut removed = 0;
        for peer in self.post.store.peers(stream, group).await? {
            let is_gone = peer.pending == 0
                && peer.idle >= GONE_AFTER
                && peer.name != *name
                && environment::is_consumer_name(&peer.name);
            if is_gone {
                let gone = Consumer {
                    name: peer.name,
                    ..self.post.consumer.clone()
                };
                // It may have come back to life in between: the server looks again.
                let done = self.post.store.remove_consumer(&gone, GONE_AFTER).await?;
                if done {
                    // A login that may not write there has left nothing there either.
                    let _ = self.post.store.forget_worker(&gone).await;
                }
                removed += usize::from(done);
            }
        }
        if removed > 0 {
            log::consumers_removed(&self.post.consumer, removed);
        }
        Ok(())
    }

    /// Forgets what is kept about messages that somebody else acked or that were trimmed: who does not
    /// know of it, leaves it behind.
    async fn tidy_history(&mut self) -> Result<(), Fault> {
        for _ in 0..HISTORY_LOOKS {
            let Post {
                store, consumer, ..
            } = &*self.post;
            self.history_from = store.tidy_history(consumer, self.history_from).await?;
            if self.history_from == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Who has entries pending, and whether they live. Where the server does not say how long they
    /// have been idle, everybody counts as dead: each entry's own idle time decides all the same.
    async fn peers(&self, pending: &[(Arc<str>, u64)]) -> Result<Vec<(Peer, Life)>, Fault> {
        let consumer = &self.post.consumer;
        let lease = self.post.policy().lease();
        let peers = match self.post.store.peers(consumer.stream, consumer.group).await {
            Err(fault) if fault.class == FaultClass::Config => {
                let unknown = |(name, pending): &(Arc<str>, u64)| Peer {
                    name: Arc::clone(name),
                    pending: *pending,
                    idle: Duration::MAX,
                };
                pending.iter().map(unknown).collect()
            }
            peers => peers?,
        };
        let life = |peer: &Peer| match peer {
            Peer { name, .. } if **name == *HANDED_BACK => Life::HandedBack,
            Peer { name, .. } if *name == consumer.name => Life::Living,
            Peer { idle, .. } if *idle >= lease => Life::Dead,
            _ => Life::Living,
        };
        Ok(peers
            .into_iter()
            .map(|peer| {
                let life = life(&peer);
                (peer, life)
            })
            .collect())
    }

    /// Reads on in one consumer's list, and sorts out what is due.
    async fn look_at(
        &mut self,
        peer: &Peer,
        life: Life,
        offers: &mut Vec<Take>,
        exhausted: &mut Vec<Take>,
    ) -> Result<(), Fault> {
        let mut left = self.share(peer, life);
        let start = self
            .cursors
            .get(&peer.name)
            .copied()
            .unwrap_or(EntryId::MIN);
        let (mut from, mut wrapped) = (start, start == EntryId::MIN);
        while left > 0 && offers.len() < OFFERS && exhausted.len() < OFFERS {
            let count = left.min(PAGE);
            let Post {
                store, consumer, ..
            } = &*self.post;
            let page = store
                .pending(consumer.stream, consumer.group, &peer.name, from, count)
                .await?;
            left -= count;
            for row in &page {
                if offers.len() >= OFFERS || exhausted.len() >= OFFERS {
                    break;
                }
                from = row.token.id.after();
                if let Some(take) = self.offer(&peer.name, row) {
                    match decide::admit(row.token.deliveries, self.post.policy()) {
                        Some(_) if take.charge == Charge::Counted => exhausted.push(take),
                        _ => offers.push(take),
                    }
                }
            }
            if page.len() < count {
                if wrapped {
                    from = EntryId::MIN;
                    break;
                }
                (from, wrapped) = (EntryId::MIN, true);
            }
        }
        self.cursors.insert(Arc::clone(&peer.name), from);
        Ok(())
    }

    /// How many rows of a consumer's list are read in this look.
    fn share(&self, peer: &Peer, life: Life) -> usize {
        let pending = usize::try_from(peer.pending).unwrap_or(usize::MAX);
        match life {
            Life::HandedBack | Life::Dead => pending.min(10 * PAGE),
            // A living consumer's whole list is seen within one lease.
            Life::Living => {
                let looks =
                    (self.post.policy().lease().as_secs_f64() / EVERY.as_secs_f64()).max(1.0);
                ((pending as f64 / looks).ceil() as usize).clamp(1, 10 * PAGE)
            }
        }
    }

    /// What to take over, if this entry is due.
    fn offer(&self, owner: &Arc<str>, row: &Pending) -> Option<Take> {
        let policy: &Policy = self.post.policy();
        let mine = *owner == self.post.consumer.name;
        if mine && self.post.hand.contains(row.token.id) {
            return None;
        }
        let min_idle = policy.delay(row.token.deliveries);
        if row.idle < min_idle || mine && self.post.may_be_arriving(row.idle) {
            return None;
        }
        // Its own name, and not in hand: it was handed out and never arrived.
        let was_cut_off = || self.post.was_cut_off(row.token.id);
        let charge = if mine && !self.post.has_given_name() && !was_cut_off() {
            Charge::Kept
        } else {
            Charge::Counted
        };
        Some(Take {
            token: row.token,
            owner: Arc::clone(owner),
            min_idle,
            charge,
        })
    }

    /// Takes entries whose workers died in every run, to dead-letter them unrun.
    async fn bury(&mut self, exhausted: Vec<Take>) -> Result<(), Fault> {
        if exhausted.is_empty() {
            return Ok(());
        }
        let takes: Vec<_> = exhausted
            .into_iter()
            .map(|take| Take {
                charge: Charge::Kept,
                ..take
            })
            .collect();
        let taken = self.post.store.take(&self.post.consumer, &takes).await?;
        for (take, taken) in takes.into_iter().zip(taken) {
            match taken {
                Taken::Entry(fields) => {
                    self.post.hand.arrive([take.token], Instant::now());
                    let message = Message::new(
                        take.token.id,
                        take.token.deliveries,
                        fields,
                        Arc::clone(&self.lane),
                    );
                    let _ = self.events.send(Event::Exhausted(message));
                }
                Taken::Lost => self.post.entry_lost(take.token.id),
                Taken::Gone | Taken::Other => {}
            }
        }
        Ok(())
    }
}

/// What this login may not look at is done without.
fn unless_forbidden(looked: Result<(), Fault>) -> Result<(), Fault> {
    match looked {
        Err(fault) if fault.class == FaultClass::Config => Ok(()),
        looked => looked,
    }
}

/// Notes how far everybody is: the lowest pending entry, or the last that was handed out when
/// nothing is pending. The position is asked for first, so that what is handed out in between is
/// behind it.
pub(crate) async fn update_floor(post: &Post) -> Result<(), Fault> {
    let consumer = &post.consumer;
    let groups = post.store.groups(consumer.stream).await?;
    if post.policy().delete_on_ack == DeleteOnAck::Alone && groups.len() > 1 {
        post.endangers(&groups);
    }
    let Some((_, delivered)) = groups.into_iter().find(|(name, _)| name == consumer.group) else {
        return Ok(());
    };
    let summary = post.store.summary(consumer.stream, consumer.group).await?;
    post.set_floor(Some(
        summary
            .lowest
            .map_or(delivered, |lowest| lowest.before().min(delivered)),
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Undecodable;
    use crate::broker::Broker;
    use crate::outcome::Outcome;
    use crate::store::memory::MemoryStore;
    use crate::store::{Acked, Start, Store};
    use crate::subscription::{HandlerFuture, Subscription};

    fn at_once(_: &Message) -> Result<HandlerFuture, Undecodable> {
        Ok(Box::pin(async { Outcome::Done }))
    }

    /// A lease of a day: what is pending stays where it is.
    static HANDLER: Subscription =
        Subscription::new("quick", "app", file!(), line!(), "s", "g", at_once)
            .claim_idle_ms(24 * 60 * 60 * 1000)
            .check();

    /// A consumer of this name that was handed one entry, and acked it or not.
    async fn leave_behind(store: &Store, name: &str, acked: bool) {
        let consumer = Consumer {
            stream: "s",
            group: "g",
            name: Arc::from(name),
            acked: Acked::Stays,
        };
        let body = [(b"data".to_vec(), b"1".to_vec())].into_iter().collect();
        store.publish("s", &[body], None).await.unwrap();
        let reader = store.reader(&consumer).await.unwrap();
        let id = reader.read(1, None).await.unwrap()[0].id;
        if acked {
            store.ack(&consumer, &[id]).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn empty_consumers_of_workers_that_died_are_removed_and_nobody_else() {
        let store = Store::Memory(MemoryStore::new());
        let (began, start) = (Instant::now(), Start::After(EntryId::MIN));
        store.ensure_group("s", "g", start).await.unwrap();
        leave_behind(&store, "a-1-rk00000001", true).await;
        leave_behind(&store, "a-2-rk00000002", false).await;
        leave_behind(&store, "somebody else", true).await;
        leave_behind(&store, HANDED_BACK, true).await;
        for name in ["a-1-rk00000001", "a-2-rk00000002"] {
            let died = Consumer {
                stream: "s",
                group: "g",
                name: Arc::from(name),
                acked: Acked::Stays,
            };
            store.note_worker(&died, name).await.unwrap();
        }
        let broker = Broker::on(store.clone()).with_handlers([&HANDLER]);
        let running = broker.start().await.unwrap();
        let left = async || {
            let peers = store.peers("s", "g").await.unwrap();
            let names = peers.iter().map(|peer| peer.name.to_string());
            let mut names: Vec<_> = names
                .filter(|name| !name.contains("-rk") || name.starts_with("a-"))
                .collect();
            names.sort();
            names
        };
        tokio::time::sleep(GONE_AFTER - Duration::from_secs(1)).await;
        assert_eq!(left().await.len(), 4);
        while left().await.len() > 3 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(began.elapsed() <= GONE_AFTER + TIDY_EVERY + EVERY);
        let rest = ["a-2-rk00000002", HANDED_BACK, "somebody else"];
        assert_eq!(left().await, rest);
        tokio::time::sleep(GONE_AFTER).await;
        assert_eq!(left().await, rest);
        let me = store.peers("s", "g").await.unwrap();
        assert_eq!(me.len(), 4, "its own is there: {me:?}");
        running.stop().await;
        assert_eq!(left().await, rest);
        // What a consumer said goes with it.
        let said = store.workers("s").await.unwrap();
        assert_eq!(said, [b"a-2-rk00000002".to_vec()]);
    }
}
