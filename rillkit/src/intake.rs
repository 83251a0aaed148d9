//! Reads new entries for one worker, as many as it wants, on a connection of its own; gets over
//! every trouble with the server, and loses nothing on the way.
//!
//! A read that is under way is never dropped unless its connection goes too: what it was handed
//! would be pending unseen. After a connection is gone, the own pending list is compared with what
//! is in hand.

mod reads;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::reads::Reads;
use crate::backoff::Backoff;
use crate::demand::Demand;
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::in_hand::Arrival;
use crate::lane::Lane;
use crate::log;
use crate::message::Message;
use crate::post::Post;
use crate::pulse::{BEAT, Part};
use crate::store::{
    Charge, Entry, Fault, FaultClass, Fenced, Group, Reader, Start, Take, Taken, Token,
};
use crate::trouble::Trouble;
use crate::wire;
use crate::worker::Event;

/// Reads under way at a time, while there is a backlog.
const DEPTH: usize = 3;
/// Reads of one entry after a read was lost: its answer may have been too large for the server.
const CAUTIOUS_READS: usize = 20;
/// How often a blocked read is asked to end at a stop, and in which distance.
const INTERRUPTS: usize = 20;
const INTERRUPT_EVERY: Duration = Duration::from_millis(50);

pub(crate) struct Intake {
    post: Arc<Post>,
    lane: Arc<Lane>,
    demand: Arc<Demand>,
    events: mpsc::UnboundedSender<Event>,
    /// Entries that were asked for and arrived, since the start.
    arrived: u64,
    cautious: usize,
    trouble: Trouble,
    /// The next connection is not the consumer's first: something may be pending unseen.
    recovers: bool,
}

impl Intake {
    pub(crate) fn new(
        post: Arc<Post>,
        lane: Arc<Lane>,
        demand: Arc<Demand>,
        events: mpsc::UnboundedSender<Event>,
        recovers: bool,
    ) -> Self {
        Self {
            post,
            lane,
            demand,
            events,
            arrived: 0,
            cautious: 0,
            trouble: Trouble::none(),
            recovers,
        }
    }

    /// Reads until it is stopped; nothing else ends it.
    pub(crate) async fn run(mut self) {
        while !self.demand.is_stopped() {
            let Err(fault) = self.session().await else {
                break;
            };
            self.recovers = true;
            if self.demand.is_stopped() {
                // The connection went with a read on it.
                self.recover_at_stop().await;
                break;
            }
            self.wait_out(&fault).await;
        }
        self.send(Event::IntakeEnded);
    }

    /// One connection's life; Ok when it is stopped.
    async fn session(&mut self) -> Result<(), Fault> {
        let reader = self.post.store.reader(&self.post.consumer).await?;
        if self.recovers {
            self.recover_own().await?;
            self.post.pulse.reconnected();
        }
        while !self.demand.is_stopped() {
            let mut reads = Reads::default();
            self.post.set_reading_since(None);
            let Err(fault) = self.read_on(&reader, &mut reads).await else {
                return Ok(());
            };
            match fault.class {
                FaultClass::EnsureGroup => {
                    // Somebody may delete it again and again.
                    if self.trouble.is_going_on() {
                        self.wait_out(&fault).await;
                    }
                    self.trouble.begin();
                    self.recreate_group().await?;
                }
                FaultClass::Wait => self.wait_out(&fault).await,
                FaultClass::Reconnect | FaultClass::Unreachable => {
                    self.cautious = CAUTIOUS_READS;
                    return Err(fault);
                }
                FaultClass::Config => return Err(fault),
            }
            // The others were sent behind the one that failed, and may have been handed something.
            while let Some(answer) = reads.next().await {
                if let Ok(entries) = answer {
                    self.take_in(entries, reads.last_sent).await;
                }
            }
        }
        Ok(())
    }

    /// Reads until it is stopped with no read under way (Ok), or until a read fails.
    async fn read_on(&mut self, reader: &Reader, reads: &mut Reads) -> Result<(), Fault> {
        // Without a backlog one read waits at the server; with one, several are sent ahead.
        let mut backlog = false;
        // So that the loop shows signs of life also when nothing comes.
        let mut tick = interval(BEAT);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.post.pulse.beat(Part::Reading);
            while !self.demand.is_stopped() && !reads.blocked && reads.waiting.len() < DEPTH {
                if !backlog && !reads.waiting.is_empty() {
                    break;
                }
                let count = self.next_count(reads);
                if count == 0 {
                    break;
                }
                let block = (!backlog).then(|| self.post.policy().block());
                if reads.waiting.is_empty() {
                    self.post.set_reading_since(Some(Instant::now()));
                }
                reads.send(reader, count, block).await;
            }
            self.post.pulse.reads(!reads.waiting.is_empty());
            if reads.waiting.is_empty() {
                if self.demand.is_stopped() {
                    return Ok(());
                }
                tokio::select! {
                    () = self.demand.changed() => {}
                    _ = tick.tick() => {}
                }
                continue;
            }
            tokio::select! {
                biased;
                answer = reads.next() => {
                    let Some(answer) = answer else { continue };
                    let entries = answer?;
                    self.post.pulse.read();
                    if let Some(after) = self.trouble.over() {
                        log::recovered(&self.post.consumer, after);
                        self.post.pulse.can_read();
                    }
                    self.cautious = self.cautious.saturating_sub(1);
                    backlog = reads.last_was_full(entries.len()) && self.cautious == 0;
                    self.take_in(entries, reads.last_sent).await;
                    self.post.set_reading_since(reads.oldest());
                    // The worker starts what came while the next read is on its way.
                }
                () = self.demand.changed() => {
                    if self.demand.is_stopped() && reads.blocked {
                        self.interrupt(reader, reads).await?;
                    }
                }
                _ = tick.tick() => {}
            }
        }
    }

    fn next_count(&self, reads: &Reads) -> usize {
        let count = self
            .demand
            .next_read(self.arrived + reads.asked as u64, reads.waiting.len());
        if self.cautious > 0 {
            count.min(1)
        } else {
            count
        }
    }

    /// Ends the read that waits at the server, so that a stop need not wait for it.
    async fn interrupt(&mut self, reader: &Reader, reads: &mut Reads) -> Result<(), Fault> {
        for _ in 0..INTERRUPTS {
            if reader.interrupt().await.is_err() {
                break;
            }
            // It may have come before the read was blocked, and is then asked again.
            if let Ok(Some(answer)) = tokio::time::timeout(INTERRUPT_EVERY, reads.next()).await {
                if let Ok(entries) = answer {
                    self.take_in(entries, reads.last_sent).await;
                }
                self.post.set_reading_since(reads.oldest());
                return Ok(());
            }
        }
        // What it still may be handed is looked for once the connection is gone.
        Err(Fault::new(
            FaultClass::Reconnect,
            "a blocked read could not be ended",
        ))
    }

    /// Hands what a read brought to the worker; it was sent at `sent`.
    async fn take_in(&mut self, mut entries: Vec<Entry>, sent: Option<Instant>) {
        if entries.is_empty() {
            return;
        }
        let count = entries.len();
        self.arrived += count as u64;
        // Handed out at some time after the read was sent: the answer may have been on its way, or lain
        // unseen by a blocked runtime, for as long.
        if sent.is_some_and(|sent| sent.elapsed() >= self.post.policy().lease() / 2) {
            self.keep_ours(&mut entries).await;
        }
        let messages = self.admit(entries, 1);
        self.send(Event::Arrived {
            count: count as u64,
            messages,
        });
    }

    /// Keeps what nobody has taken over since it was handed out: nothing renewed its lease. What is
    /// left out and ours all the same is found in the pending list.
    async fn keep_ours(&self, entries: &mut Vec<Entry>) {
        let token = |entry: &Entry| Token {
            id: entry.id,
            deliveries: 1,
        };
        let tokens: Vec<_> = entries.iter().map(token).collect();
        let (post, mut backoff) = (&self.post, Backoff::short());
        loop {
            let asked = Instant::now();
            match post.store.touch(&post.consumer, &tokens).await {
                Ok(answers) if asked.elapsed() < post.policy().lease() / 2 => {
                    let mut answers = answers.into_iter();
                    return entries.retain(|_| answers.next() == Some(Fenced::Done));
                }
                // Late again, or counted by a group that is gone.
                Ok(_) => break,
                Err(fault) if fault.class == FaultClass::EnsureGroup => break,
                Err(fault) => {
                    post.failing("looking whose a late answer is", &fault);
                    if post.wait_or_give_up(backoff.wait()).await {
                        break;
                    }
                }
            }
        }
        entries.clear();
    }

    /// Takes entries in hand, and makes messages of those that were not.
    fn admit(&self, entries: Vec<Entry>, deliveries: u64) -> Vec<Message> {
        let tokens = entries.iter().map(|entry| Token {
            id: entry.id,
            deliveries,
        });
        let arrivals = self.post.hand.arrive(tokens, Instant::now());
        let (mut messages, mut unseen) = (Vec::with_capacity(entries.len()), Vec::new());
        for (Entry { id, fields }, arrival) in entries.into_iter().zip(arrivals) {
            if arrival == Arrival::Known {
                continue;
            }
            if arrival == Arrival::Afresh {
                self.send(Event::Afresh(id));
            }
            if self.is_for_another_group(&fields) {
                unseen.push(id);
                continue;
            }
            messages.push(Message::new(id, deliveries, fields, Arc::clone(&self.lane)));
        }
        if !unseen.is_empty() {
            self.send(Event::Unseen(unseen));
        }
        messages
    }

    /// A replayed entry is for the group in which it failed. One that is dead again is on a DLQ, and
    /// for whoever reads that.
    fn is_for_another_group(&self, fields: &Fields) -> bool {
        fields.len() > 1
            && fields.get(wire::dead::ORIGINAL_ID).is_none()
            && fields
                .get(wire::FOR_GROUP)
                .is_some_and(|group| group != self.post.consumer.group.as_bytes())
    }

    /// Takes in what is pending for this consumer and not in hand: the answer of a read was lost.
    /// No delivery is charged, since nothing of it was started. Only while no read is under way,
    /// and only for a name that nobody else can have.
    async fn recover_own(&mut self) -> Result<(), Fault> {
        if self.post.has_given_name() {
            return Ok(());
        }
        let consumer = self.post.consumer.clone();
        let mut from = EntryId::MIN;
        loop {
            let page = self
                .post
                .store
                .pending(consumer.stream, consumer.group, &consumer.name, from, 100)
                .await;
            let page = match page {
                Err(fault) if fault.class == FaultClass::EnsureGroup => {
                    return self.recreate_group().await;
                }
                page => page?,
            };
            let Some(last) = page.last() else {
                return Ok(());
            };
            from = last.token.id.after();
            let missing = page.iter().map(|row| row.token).filter(|Token { id, .. }| {
                !self.post.hand.contains(*id) && !self.post.was_cut_off(*id)
            });
            // One at a time: it may have been the size of the answer that broke the connection.
            for token in missing {
                let owner = Arc::clone(&consumer.name);
                let take = Take {
                    token,
                    owner,
                    min_idle: Duration::ZERO,
                    charge: Charge::Kept,
                };
                match self.post.store.take(&consumer, &[take]).await?.pop() {
                    Some(Taken::Entry(fields)) => {
                        let entry = Entry {
                            id: token.id,
                            fields,
                        };
                        let messages = self.admit(vec![entry], token.deliveries);
                        self.send(Event::Arrived { count: 0, messages });
                    }
                    Some(Taken::Lost) => self.post.entry_lost(token.id),
                    Some(Taken::Gone | Taken::Other) | None => {}
                }
            }
        }
    }

    /// A last look for what the dropped connection was handed. What cannot be found out now, others
    /// find when the lease is over.
    async fn recover_at_stop(&mut self) {
        // The server may notice a moment later that the connection is gone.
        for _ in 0..2 {
            if self.recover_own().await.is_err() {
                return;
            }
            tokio::time::sleep(INTERRUPT_EVERY).await;
        }
    }

    /// Creates the group again, behind what everybody had finished when it was last looked at.
    async fn recreate_group(&mut self) -> Result<(), Fault> {
        let consumer = &self.post.consumer;
        let last = match self.post.store.last_id(consumer.stream).await {
            // Not for us to know: all of it counts as unread.
            Err(fault) if fault.class == FaultClass::Config => None,
            last => last?,
        };
        let after = match (last, self.post.floor()) {
            (Some(last), Some(floor)) if last >= floor => floor,
            // A stream that is new, or older than what was seen: all of it is unread.
            _ => EntryId::MIN,
        };
        let group = self
            .post
            .store
            .ensure_group(consumer.stream, consumer.group, Start::After(after))
            .await?;
        if group == Group::Created {
            log::group_recreated(consumer, after);
            self.post.set_floor(Some(after));
        }
        Ok(())
    }

    async fn wait_out(&mut self, fault: &Fault) {
        self.post.pulse.beat(Part::Reading);
        self.post.pulse.cannot_read(fault);
        let consumer = &self.post.consumer;
        let wait = (self.trouble).note(fault, |fault| log::trouble(consumer, fault));
        let deadline = Instant::now() + wait;
        while !self.demand.is_stopped() {
            // More demand does not end the wait.
            if tokio::time::timeout_at(deadline, self.demand.changed())
                .await
                .is_err()
            {
                break;
            }
        }
    }

    fn send(&self, event: Event) {
        // The worker ends after its intake.
        let _ = self.events.send(event);
    }
}
