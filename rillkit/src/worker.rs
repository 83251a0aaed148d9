//! The loop of one subscription: starts handlers as slots become free, decides what becomes of each
//! message, and hands everything back at a stop.
//!
//! It owns the line from delivery to action; reading ([`intake`](crate::intake)), looking for
//! overdue entries ([`takeover`](crate::takeover)) and settling ([`settle`](crate::settle)) report
//! to it and never call back.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::attempt::Attempt;
use crate::decide::{self, Action, Reason, Verdict};
use crate::demand::Demand;
use crate::extract::States;
use crate::in_hand::Stage;
use crate::intake::Intake;
use crate::lane::Lane;
use crate::lease::{Kept, LeaseKeeper};
use crate::log;
use crate::message::{EntryId, Message};
use crate::pace::Pace;
use crate::policy::AckPolicy;
use crate::post::Post;
use crate::retries::Retries;
use crate::settle::{self, LONG_AGO, Settler};
use crate::store::{Charge, Fault, FaultClass, Return, Take, Taken, Token};
use crate::takeover::{OFFERS, Takeover};

/// Handlers started in a row before the loop looks at what else there is.
const CHUNK: usize = 128;
/// Bytes of entries held beyond those that start at once.
const AHEAD_BYTES: usize = 8 << 20;
/// Dead letters that cannot be written; with more of them nothing new is read.
const STUCK_LETTERS: usize = 100;
/// How long the last steps of a stop may take beyond the grace period.
const LAST_STEPS: Duration = Duration::from_secs(2);

/// What the other parts of a worker report to it.
#[derive(Debug)]
pub(crate) enum Event {
    /// New entries, ready to start. `count` is how many of the granted reads that used.
    Arrived { count: u64, messages: Vec<Message> },
    /// An entry that waited for a retry was handed out afresh: the wait is void.
    Afresh(EntryId),
    /// Entries that are meant for another group.
    Unseen(Vec<EntryId>),
    /// Entries that are due and in nobody's hand.
    Overdue(Vec<Take>),
    /// An entry of ours that was handed out too often to run again.
    Exhausted(Message),
    /// A handler with a task of its own has ended.
    Finished {
        message: Message,
        verdict: Verdict,
        run: Duration,
        longest_poll: Duration,
    },
    /// An answer to a claim.
    Claimed {
        takes: Vec<Take>,
        taken: Result<Vec<Taken>, Fault>,
        at: Instant,
    },
    /// A touch found that these are another's.
    Lost(Vec<EntryId>),
    /// A background step has ended.
    StepEnded,
    /// A dead letter is written, or given up.
    LetterEnded,
    /// No more entries will arrive.
    IntakeEnded,
}

pub(crate) struct Worker {
    post: Arc<Post>,
    lane: Arc<Lane>,
    settler: Settler,
    settling: JoinHandle<()>,
    demand: Arc<Demand>,
    intake: JoinHandle<()>,
    takeover: JoinHandle<()>,
    look_again: Arc<Notify>,
    events: mpsc::UnboundedReceiver<Event>,
    sender: mpsc::UnboundedSender<Event>,
    lease: Kept,
    pace: Pace,
    ready: VecDeque<Message>,
    retries: Retries,
    overdue: VecDeque<Take>,
    /// The last look found as many as it offers at a time.
    more_overdue: bool,
    /// Whether the next free slot goes to an entry that is due again, rather than to a new one.
    claims_turn: bool,
    running: HashMap<EntryId, AbortHandle>,
    free: usize,
    /// Entries that arrived since the start, and the usual bytes of one.
    arrived: u64,
    usual_bytes: usize,
    acked: Vec<EntryId>,
    touches: Vec<Token>,
    returns: Vec<Return>,
    /// Background steps under way: claims, touches, hand-backs.
    steps: usize,
    letters: usize,
    stopping: bool,
}

impl Worker {
    pub(crate) fn start(post: Post, states: States, keeper: &LeaseKeeper) -> Self {
        let post = Arc::new(post);
        let (sender, events) = mpsc::unbounded_channel();
        let (settler, settling) = Settler::start(Arc::clone(&post));
        let lane = Arc::new(Lane::new(post.consumer.clone(), states, settler.clone()));
        let (demand, look_again) = (Arc::new(Demand::new()), Arc::new(Notify::new()));
        let intake = Intake::new(
            Arc::clone(&post),
            Arc::clone(&lane),
            Arc::clone(&demand),
            sender.clone(),
        );
        let takeover = Takeover::new(
            Arc::clone(&post),
            Arc::clone(&lane),
            sender.clone(),
            Arc::clone(&look_again),
        );
        let policy = post.policy();
        // Without retries an entry that was read and not started would be taken for one whose
        // worker died in its only run.
        let reads_ahead = policy.max_retries != Some(0);
        log::started(&post.consumer, policy, post.subscription.name());
        Self {
            pace: Pace::new(policy.concurrency as usize, reads_ahead),
            free: policy.concurrency as usize,
            lease: keeper.keep(Arc::clone(&post)),
            intake: tokio::spawn(intake.run()),
            takeover: tokio::spawn(takeover.run()),
            post,
            lane,
            settler,
            settling,
            demand,
            look_again,
            events,
            sender,
            ready: VecDeque::new(),
            retries: Retries::default(),
            overdue: VecDeque::new(),
            more_overdue: false,
            claims_turn: false,
            running: HashMap::new(),
            arrived: 0,
            usual_bytes: 0,
            acked: Vec::new(),
            touches: Vec::new(),
            returns: Vec::new(),
            steps: 0,
            letters: 0,
            stopping: false,
        }
    }

    /// Works until `stop` says so, then lets running handlers end within `grace` and hands back the
    /// rest.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>, grace: Duration) {
        let mut events = Vec::new();
        self.grant();
        while !*stop.borrow_and_update() {
            let more = self.start_what_can();
            self.flush();
            self.grant();
            if more {
                // The reads and the acks of this subscription get their turn.
                tokio::task::yield_now().await;
                while let Ok(event) = self.events.try_recv() {
                    self.on(event);
                }
                continue;
            }
            let due = self.retries.next_due().filter(|_| self.free > 0);
            tokio::select! {
                biased;
                changed = stop.changed() => {
                    if changed.is_err() {
                        break;
                    }
                }
                _ = self.events.recv_many(&mut events, CHUNK) => {
                    for event in events.drain(..) {
                        self.on(event);
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
        self.wind_down(grace).await;
    }

    /// Starts what slots are free for; whether more could start at once.
    fn start_what_can(&mut self) -> bool {
        for _ in 0..CHUNK {
            if self.free == 0 {
                return false;
            }
            if (self.claims_turn || self.ready.is_empty()) && self.claim() {
                self.claims_turn = false;
                continue;
            }
            let Some(message) = self.ready.pop_front() else {
                return false;
            };
            let before = self.free;
            self.start_message(message);
            // One that took a slot is followed by a claim; quick ones are, once for each chunk.
            self.claims_turn = self.free < before;
        }
        self.claims_turn = true;
        true
    }

    /// Takes due entries for free slots: half of the slots while new entries wait as well.
    fn claim(&mut self) -> bool {
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
                self.look_again.notify_one();
            }
        }
        if takes.is_empty() {
            return false;
        }
        self.free -= takes.len();
        self.step(|post, events| async move {
            let at = Instant::now();
            let taken = post.store.take(&post.consumer, &takes).await;
            let _ = events.send(Event::Claimed { takes, taken, at });
        });
        true
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Arrived { count, messages } => self.arrive(count, messages),
            Event::Afresh(id) => self.retries.remove(id),
            Event::Unseen(ids) => self.acked.extend(ids),
            Event::Overdue(takes) => {
                self.more_overdue = takes.len() >= OFFERS;
                self.overdue = takes
                    .into_iter()
                    .filter(|take| !self.post.hand.contains(take.token.id))
                    .collect();
            }
            Event::Exhausted(message) => {
                self.dead_letter(message, Reason::Exhausted, decide::EXHAUSTED.to_owned());
            }
            Event::Finished {
                message,
                verdict,
                run,
                longest_poll,
            } => {
                self.running.remove(&message.id());
                self.free += 1;
                if verdict != Verdict::Interrupted {
                    self.pace.note(run, longest_poll);
                }
                self.ended(&message, &verdict);
            }
            Event::Claimed { takes, taken, at } => self.claimed(takes, taken, at),
            Event::Lost(ids) => {
                for id in ids {
                    // What was settled or handed back in the meantime is nobody's loss.
                    if self.post.hand.contains(id) {
                        self.retries.remove(id);
                        self.post.hand.release([id]);
                        log::lease_lost(&self.post.consumer, id);
                    }
                }
            }
            Event::StepEnded => self.steps -= 1,
            Event::LetterEnded => self.letters -= 1,
            Event::IntakeEnded => {}
        }
    }

    fn arrive(&mut self, count: u64, messages: Vec<Message>) {
        self.arrived += count;
        if messages.is_empty() {
            return;
        }
        let bytes: usize = messages
            .iter()
            .map(|message| message.fields().bytes())
            .sum();
        self.usual_bytes = bytes / messages.len();
        if self.stopping {
            for message in messages {
                self.return_unstarted(&message);
            }
        } else {
            self.ready.extend(messages);
            self.return_what_cannot_start();
        }
    }

    /// Without retries nothing is held unstarted: if this process died now, it would be dead unrun.
    /// Claims may have taken the slots for which a read had been sent before.
    fn return_what_cannot_start(&mut self) {
        if self.post.policy().max_retries == Some(0) {
            while self.ready.len() > self.free {
                if let Some(message) = self.ready.pop_back() {
                    self.return_unstarted(&message);
                }
            }
        }
    }

    fn claimed(&mut self, takes: Vec<Take>, taken: Result<Vec<Taken>, Fault>, at: Instant) {
        self.free += takes.len();
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
                    log::lost(&self.post.consumer, id);
                    self.post.hand.release([id]);
                    continue;
                }
                Taken::Gone | Taken::Other => {
                    if take.owner == self.post.consumer.name {
                        self.post.hand.release([id]);
                    }
                    continue;
                }
            };
            let deliveries = take.token.deliveries + u64::from(take.charge == Charge::Counted);
            let arrival = self.post.hand.arrive([Token { id, deliveries }], at);
            if arrival == [crate::in_hand::Arrival::Known] {
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
        if fault.class == FaultClass::Config && self.post.may_complain() {
            log::trouble(&self.post.consumer, fault);
        }
        let again = Instant::now() + Duration::from_millis(100 + fastrand::u64(0..400));
        for take in takes {
            let mine = take.owner == self.post.consumer.name;
            if mine && take.charge == Charge::Counted && self.post.hand.contains(take.token.id) {
                self.retries.insert(again, take.token);
            }
        }
    }

    fn start_message(&mut self, message: Message) {
        let started = Instant::now();
        let mut attempt = match Attempt::begin(self.post.subscription.call, &message) {
            Ok(attempt) => attempt,
            Err(verdict) => return self.ended(&message, &verdict),
        };
        if self.post.policy().ack_policy == AckPolicy::AckFirst || !self.pace.polls_in_place() {
            return self.spawn(message, attempt, started, Duration::ZERO);
        }
        self.post.hand.set_inline(message.id());
        let poll = Pin::new(&mut attempt).poll(&mut Context::from_waker(Waker::noop()));
        let took = started.elapsed();
        match poll {
            Poll::Ready(verdict) => {
                self.pace.note(took, took);
                self.ended(&message, &verdict);
            }
            Poll::Pending => self.spawn(message, attempt, started, took),
        }
    }

    /// Gives a run a task of its own.
    fn spawn(
        &mut self,
        message: Message,
        attempt: Attempt,
        started: Instant,
        first_poll: Duration,
    ) {
        self.free = self.free.saturating_sub(1);
        let id = message.id();
        self.post.hand.set_stage(
            id,
            Stage::Running {
                started,
                warned: Duration::ZERO,
            },
        );
        let policy = self.post.policy();
        let (timeout, ack_first) = (policy.timeout(), policy.ack_policy == AckPolicy::AckFirst);
        let post = Arc::clone(&self.post);
        let mut report = Report {
            message: Some(message.clone()),
            events: self.sender.clone(),
        };
        let run = async move {
            // Not acked is not run: the report says so when it is dropped.
            if ack_first && !settle::ack_before_run(&post, &message).await {
                return;
            }
            drop(message);
            let (verdict, longest_poll) = attempt.finish(timeout).await;
            report.send(verdict, started.elapsed(), longest_poll.max(first_poll));
        };
        self.running.insert(id, tokio::spawn(run).abort_handle());
    }

    /// A delivery has ended: logs it, decides, and sets going what follows.
    fn ended(&mut self, message: &Message, verdict: &Verdict) {
        let (id, delivery) = (message.id(), message.deliveries());
        let mark = message.mark();
        let settled = message.is_settled();
        match verdict {
            Verdict::Done | Verdict::Interrupted => {
                if mark == Some(crate::message::Mark::Nack) && !settled {
                    log::handler_failed(&self.post.consumer, id, delivery, verdict);
                }
            }
            Verdict::Malformed(error) => {
                log::undecodable(&self.post.consumer, id, &self.post.dlq, error)
            }
            _ => log::handler_failed(&self.post.consumer, id, delivery, verdict),
        }
        if settled && mark.is_some() {
            log::marks_ignored(&self.post.consumer, id);
        }
        let random = if self.post.policy().has_jitter() {
            fastrand::f64()
        } else {
            0.0
        };
        match decide::decide(
            delivery,
            verdict,
            mark.as_ref(),
            settled,
            self.post.policy(),
            random,
        ) {
            Action::Ack => self.acked.push(id),
            Action::Retry(delay) | Action::Leave(delay) => self.wait(id, delivery, delay),
            Action::DeadLetter(reason, error) => self.dead_letter(message.clone(), reason, error),
            Action::HandBack => self.return_unstarted(message),
            Action::Nothing => self.post.hand.release([id]),
        }
    }

    /// Lets a failed message wait for its next delivery.
    fn wait(&mut self, id: EntryId, delivery: u64, delay: Duration) {
        let now = Instant::now();
        // Everybody else goes by the formula; what is due later is held until that fits.
        let formula = self.post.policy().delay(delivery);
        let hold_until = delay
            .checked_sub(formula)
            .filter(|more| !more.is_zero())
            .map(|more| later(now, more));
        let untouched = self.post.hand.untouched(id, now);
        if !self.post.hand.set_stage(id, Stage::Waiting { hold_until }) {
            return;
        }
        let Some(token) = self.post.hand.token(id) else {
            return;
        };
        self.retries.insert(later(now, delay), token);
        let short = (formula / 100).max(Duration::from_millis(10));
        // At a stop it is handed back with its idle time.
        if !self.stopping && untouched.is_none_or(|idle| idle > short) {
            self.touches.push(token);
        }
    }

    fn dead_letter(&mut self, message: Message, reason: Reason, error: String) {
        self.letters += 1;
        let (post, events) = (Arc::clone(&self.post), self.sender.clone());
        tokio::spawn(async move {
            settle::dead_letter(post, message, reason, error).await;
            let _ = events.send(Event::LetterEnded);
        });
    }

    /// Gives back an entry whose delivery counts for nothing.
    fn return_unstarted(&mut self, message: &Message) {
        if let Some(token) = self.post.hand.token(message.id()) {
            let idle = LONG_AGO.max(self.post.policy().delay(token.deliveries));
            self.returns.push(Return {
                token,
                deliveries: token.deliveries.saturating_sub(1),
                idle,
            });
        }
    }

    /// Sends off what this turn of the loop has gathered.
    fn flush(&mut self) {
        self.post.hand.clear_inline();
        if !self.acked.is_empty() {
            self.settler.ack(std::mem::take(&mut self.acked));
        }
        if !self.touches.is_empty() {
            let tokens = std::mem::take(&mut self.touches);
            self.step(|post, events| async move {
                let lost = settle::touch(&post, &tokens).await;
                if !lost.is_empty() {
                    let _ = events.send(Event::Lost(lost));
                }
            });
        }
        if !self.returns.is_empty() {
            let returns = std::mem::take(&mut self.returns);
            self.step(|post, _| async move { settle::hand_back(&post, &returns).await });
        }
    }

    /// Runs a step in the background.
    fn step<F>(&mut self, step: impl FnOnce(Arc<Post>, mpsc::UnboundedSender<Event>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.steps += 1;
        let events = self.sender.clone();
        let step = step(Arc::clone(&self.post), self.sender.clone());
        tokio::spawn(async move {
            step.await;
            let _ = events.send(Event::StepEnded);
        });
    }

    /// Lets the intake read what can start now or shortly.
    fn grant(&self) {
        let bytes = AHEAD_BYTES
            .checked_div(self.usual_bytes)
            .unwrap_or(usize::MAX);
        let window = self.free + self.pace.ahead().min(bytes);
        let room = if self.letters > STUCK_LETTERS {
            0
        } else {
            window.saturating_sub(self.ready.len())
        };
        self.demand.grant(self.arrived + room as u64, window);
    }

    /// Ends in order: no new reads, running handlers end within the grace period, the rest is
    /// handed back, and what was decided is settled.
    async fn wind_down(mut self, grace: Duration) {
        let end = Instant::now() + grace;
        self.stopping = true;
        self.demand.stop();
        self.takeover.abort();
        self.overdue.clear();
        for message in std::mem::take(&mut self.ready) {
            self.return_unstarted(&message);
        }
        if timeout_at(end, self.drain(Drained::Handlers))
            .await
            .is_err()
        {
            for run in self.running.values() {
                run.abort();
            }
        }
        let last = Instant::now() + LAST_STEPS;
        if timeout_at(last, self.drain(Drained::Everything))
            .await
            .is_err()
        {
            self.post.give_up();
            // Steps that wait for the server end now; a handler that blocks its thread does not.
            let _ = timeout_at(last + LAST_STEPS / 4, self.drain(Drained::Everything)).await;
        }
        self.flush();
        self.settler.close();
        if timeout_at(last, &mut self.settling).await.is_err() {
            self.post.give_up();
        }
        drop(self.lease);
        if !self.post.has_given_name() {
            let removed = self.post.store.remove_consumer(&self.post.consumer);
            let _ = timeout_at(last, removed).await;
        }
        self.intake.abort();
        log::stopped(&self.post.consumer);
    }

    /// Works off what is under way until nothing of it is left. Dropping it loses nothing.
    async fn drain(&mut self, drained: Drained) {
        loop {
            for (due, token) in self.retries.drain() {
                self.return_waiting(due, token);
            }
            self.flush();
            let done = match drained {
                Drained::Handlers => self.running.is_empty(),
                Drained::Everything => {
                    self.running.is_empty()
                        && self.steps == 0
                        && self.letters == 0
                        && self.intake.is_finished()
                }
            };
            if done {
                // What was sent before is worked off first.
                match self.events.try_recv() {
                    Ok(event) => self.on(event),
                    Err(_) => return,
                }
                continue;
            }
            // The intake's task ends a moment after its last event.
            if let Ok(Some(event)) =
                tokio::time::timeout(Duration::from_millis(20), self.events.recv()).await
            {
                self.on(event);
            }
        }
    }

    /// Gives back what waits for a retry, so that it is due for others when it was for us.
    fn return_waiting(&mut self, due: Instant, token: Token) {
        let left = due.saturating_duration_since(Instant::now());
        let idle = self
            .post
            .policy()
            .delay(token.deliveries)
            .saturating_sub(left);
        self.returns.push(Return {
            token,
            deliveries: token.deliveries,
            idle,
        });
    }
}

/// What a stop waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drained {
    /// Running handlers.
    Handlers,
    /// These, and every step that follows.
    Everything,
}

/// A moment that may be farther away than the clock can tell.
fn later(now: Instant, delay: Duration) -> Instant {
    now.checked_add(delay)
        .unwrap_or_else(|| now + Duration::from_secs(100 * 365 * 24 * 60 * 60))
}

/// Reports the end of a run, also when its task is dropped.
struct Report {
    message: Option<Message>,
    events: mpsc::UnboundedSender<Event>,
}

impl Report {
    fn send(&mut self, verdict: Verdict, run: Duration, longest_poll: Duration) {
        if let Some(message) = self.message.take() {
            let _ = self.events.send(Event::Finished {
                message,
                verdict,
                run,
                longest_poll,
            });
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.send(Verdict::Interrupted, Duration::ZERO, Duration::ZERO);
    }
}
