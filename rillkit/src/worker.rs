//! The loop of one subscription: starts handlers as slots become free, decides what becomes of each
//! message, and hands everything back at a stop.
//!
//! It owns the line from delivery to action; reading ([`intake`](crate::intake)), looking for
//! overdue entries ([`takeover`](crate::takeover)) and settling ([`settle`]) report
//! to it and never call back.

mod again;
mod claim;
mod crew;
mod run;
mod stop;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use self::crew::Crew;
use crate::decide::{self, Reason, Verdict};
use crate::entry_id::EntryId;
use crate::extract::States;
use crate::history;
use crate::lane::Lane;
use crate::lease::{Kept, LeaseKeeper};
use crate::log;
use crate::message::Message;
use crate::pace::Pace;
use crate::panic::caught;
use crate::post::Post;
use crate::pulse::{BEAT, Part};
use crate::retries::Retries;
use crate::settle::{self, Settler};
use crate::store::{Fault, Fenced, Return, Row, Take, Taken, Token};
use crate::takeover::OFFERS;
use crate::waiting::Waiting;

/// Handlers started in a row before the loop looks at what else there is.
const CHUNK: usize = 128;
/// How long entries stand ready behind handlers that turned out slow, before they are given back for
/// whoever has a slot.
const STALLED: Duration = Duration::from_secs(1);
/// Bytes of entries held beyond those that start at once.
const AHEAD_BYTES: usize = 8 << 20;
/// Dead letters that cannot be written; with more of them nothing new is read.
const STUCK_LETTERS: usize = 100;

/// Messages that wait for another one with their key; with more of them nothing new is read.
const WAITING: usize = 1000;

/// What ends when a message that waits is not pending any more.
const RETRY: &str = "retry";

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
    /// A touch found that these are another's, or not pending.
    NotOurs(Vec<(EntryId, Fenced)>),
    /// A background step has ended.
    StepEnded,
    /// A dead letter is written, or given up.
    LetterEnded(EntryId),
    /// An ack with commands is done, or given up, after this time.
    CommitEnded(EntryId, Duration),
    /// No more entries will arrive.
    IntakeEnded,
    /// A part has panicked, with this text: the worker has to be started again.
    Broken(Part, String),
}

/// Why a worker has to be started again: which part panicked, and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) part: Part,
    pub(crate) panic: String,
}

pub(crate) struct Worker {
    post: Arc<Post>,
    lane: Arc<Lane>,
    settler: Settler,
    settling: JoinHandle<()>,
    crew: Crew,
    events: mpsc::UnboundedReceiver<Event>,
    sender: mpsc::UnboundedSender<Event>,
    /// Until the end of a stop.
    lease: Option<Kept>,
    pace: Pace,
    ready: VecDeque<Message>,
    retries: Retries,
    /// Of an idempotent handler: what may not run yet.
    waiting: Waiting,
    /// Since when entries have stood ready without a slot for any of them.
    stalled_since: Option<Instant>,
    /// Entries were given back that this worker would have a slot for, should one become free.
    gave_back: bool,
    overdue: VecDeque<Take>,
    /// The last look found as many as it offers at a time.
    more_overdue: bool,
    /// Whether the next free slot goes to an entry that is due again, rather than to a new one.
    claims_turn: bool,
    /// Entries that claims under way ask for.
    claiming: HashSet<EntryId>,
    running: HashMap<EntryId, AbortHandle>,
    free: usize,
    /// Entries that arrived since the start, and the usual bytes of one.
    arrived: u64,
    usual_bytes: usize,
    acked: Vec<EntryId>,
    touches: Vec<Token>,
    /// What is to be kept about deliveries that failed.
    failed: Vec<Row>,
    returns: Vec<Return>,
    /// Background steps under way: claims, touches, hand-backs.
    steps: usize,
    letters: HashSet<EntryId>,
    /// Acks with commands under way. Each holds the slot of its run.
    commits: HashSet<EntryId>,
    /// The message whose run begins, or whose end is decided, at this moment.
    at_work: Option<EntryId>,
    broken: Option<Broken>,
    /// A run has ended in this turn of the loop.
    some_ended: bool,
    stopping: bool,
}

impl Worker {
    pub(crate) fn start(post: Arc<Post>, states: States, keeper: &Arc<LeaseKeeper>) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let (settler, settling) = Settler::start(Arc::clone(&post), sender.clone());
        let lane = Arc::new(Lane::new(post.consumer.clone(), states, settler.clone()));
        let policy = post.policy();
        log::started(&post.consumer, policy, post.subscription.name());
        post.pulse.begins();
        Self {
            pace: Pace::of(policy),
            free: policy.concurrency as usize,
            lease: Some(LeaseKeeper::keep(keeper, Arc::clone(&post))),
            crew: Crew::start(&post, &lane, &sender, false),
            post,
            lane,
            settler,
            settling,
            events,
            sender,
            ready: VecDeque::new(),
            retries: Retries::default(),
            waiting: Waiting::default(),
            stalled_since: None,
            gave_back: false,
            overdue: VecDeque::new(),
            more_overdue: false,
            claims_turn: false,
            claiming: HashSet::new(),
            running: HashMap::new(),
            arrived: 0,
            usual_bytes: 0,
            acked: Vec::new(),
            touches: Vec::new(),
            failed: Vec::new(),
            returns: Vec::new(),
            steps: 0,
            letters: HashSet::new(),
            commits: HashSet::new(),
            at_work: None,
            broken: None,
            some_ended: false,
            stopping: false,
        }
    }

    pub(crate) fn post(&self) -> &Arc<Post> {
        &self.post
    }

    /// Works until `stop` says so.
    ///
    /// # Errors
    ///
    /// A part that has panicked.
    pub(crate) async fn run(&mut self, stop: &mut watch::Receiver<bool>) -> Result<(), Broken> {
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.grant();
        while !*stop.borrow_and_update() {
            self.post.pulse.beat(Part::Handling);
            let more = self.start_what_can();
            self.flush();
            self.grant();
            if let Some(broken) = self.broken.take() {
                return Err(broken);
            }
            if more {
                // The reads and the acks of this subscription get their turn.
                tokio::task::yield_now().await;
                while let Ok(event) = self.events.try_recv() {
                    self.on(event);
                }
                continue;
            }
            let due = [self.retries.next_due(), self.waiting.next_due()];
            let due = due.into_iter().flatten().min().filter(|_| self.free > 0);
            let stalled = self.stalled_since.map(|since| since + STALLED);
            tokio::select! {
                biased;
                changed = stop.changed() => {
                    if changed.is_err() {
                        break;
                    }
                }
                Some(event) = self.events.recv() => {
                    self.on(event);
                    // One by one, so that a panic in one loses none of the others.
                    for _ in 1..CHUNK {
                        let Ok(event) = self.events.try_recv() else { break };
                        self.on(event);
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                () = sleep_until(stalled.unwrap_or_else(Instant::now)), if stalled.is_some() => {
                    self.return_ready();
                }
                _ = beat.tick() => {}
            }
        }
        Ok(())
    }

    /// Starts what slots are free for; whether more could start at once.
    fn start_what_can(&mut self) -> bool {
        if self.waiting.len() > 0 {
            let now = Instant::now();
            while let Some(message) = self.waiting.pop_due(now) {
                self.ready.push_front(message);
            }
        }
        for _ in 0..CHUNK {
            if self.free == 0 {
                if !self.ready.is_empty() {
                    self.stalled_since.get_or_insert_with(Instant::now);
                }
                return false;
            }
            self.stalled_since = None;
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

    fn on(&mut self, event: Event) {
        match event {
            Event::Arrived { count, messages } => self.arrive(count, messages),
            Event::Afresh(id) => self.retries.remove(id),
            Event::Unseen(ids) => self.settler.pass(ids),
            Event::Overdue(takes) => {
                self.more_overdue = takes.len() >= OFFERS;
                self.overdue = takes
                    .into_iter()
                    .filter(|take| !self.post.hand.contains(take.token.id))
                    .collect();
            }
            Event::Exhausted(message) => {
                // Its runs died with their workers: nothing more is known of the last.
                let error = decide::EXHAUSTED.to_owned();
                self.dead_letter(message, Reason::Exhausted, error, None);
            }
            Event::Finished {
                message,
                verdict,
                run,
                longest_poll,
            } => {
                self.running.remove(&message.id());
                self.frees_slot();
                if verdict.is_a_run() && verdict != Verdict::Interrupted {
                    self.pace.note(run, longest_poll);
                    self.post.pulse.ran(run);
                }
                self.ended(&message, &verdict, run);
                self.post.run_ends();
            }
            Event::Claimed { takes, taken, at } => self.claimed(takes, taken, at),
            Event::NotOurs(entries) => {
                for (id, answer) in entries {
                    // What was settled or handed back in the meantime is nobody's loss.
                    if self.post.hand.contains(id) {
                        self.retries.remove(id);
                        self.post.hand.release([id]);
                        match answer {
                            Fenced::Gone => self.post.not_pending(id, RETRY),
                            Fenced::Done | Fenced::Other => self.post.lease_lost(id),
                        }
                    }
                }
            }
            Event::StepEnded => self.steps -= 1,
            Event::LetterEnded(id) => {
                self.letters.remove(&id);
            }
            Event::CommitEnded(id, took) => {
                self.commits.remove(&id);
                self.pace.note_commit(took);
                self.frees_slot();
            }
            Event::IntakeEnded => {}
            Event::Broken(part, panic) => self.broken = Some(Broken { part, panic }),
        }
    }

    fn frees_slot(&mut self) {
        self.free += 1;
        if std::mem::take(&mut self.gave_back) {
            self.crew.look_again();
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

    /// Sends off what this turn of the loop has gathered.
    fn flush(&mut self) {
        self.post.hand.clear_inline();
        if std::mem::take(&mut self.some_ended) {
            self.post.pulse.handled();
        }
        if !self.acked.is_empty() {
            self.settler.ack(std::mem::take(&mut self.acked));
        }
        if !self.touches.is_empty() {
            let tokens = std::mem::take(&mut self.touches);
            self.step(|post, events| async move {
                let not_ours = settle::touch(&post, &tokens).await;
                if !not_ours.is_empty() {
                    let _ = events.send(Event::NotOurs(not_ours));
                }
            });
        }
        if !self.failed.is_empty() {
            let rows = std::mem::take(&mut self.failed);
            self.step(|post, _| async move { history::keep(&post, &rows).await });
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
            let ended = caught(step).await;
            let _ = events.send(Event::StepEnded);
            if let Err(panic) = ended {
                let _ = events.send(Event::Broken(Part::Settling, panic));
            }
        });
    }

    /// Lets the intake read what can start now or shortly.
    fn grant(&self) {
        let bytes = AHEAD_BYTES
            .checked_div(self.usual_bytes)
            .unwrap_or(usize::MAX);
        let window = self.free + self.pace.ahead().min(bytes);
        let stuck = self.letters.len() > STUCK_LETTERS;
        self.post.pulse.stuck(stuck);
        let full = self.waiting.len() >= WAITING.min(bytes.max(1));
        let room = if stuck || full {
            0
        } else {
            window.saturating_sub(self.ready.len())
        };
        self.crew.demand.grant(self.arrived + room as u64, window);
    }
}
