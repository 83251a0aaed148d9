//! What the parts of one worker share: its place, its settings, its store, and what it has in hand.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::entry_id::EntryId;
use crate::history::History;
use crate::in_hand::InHand;
use crate::log;
use crate::once::KeysInHand;
use crate::policy::Policy;
use crate::pulse::Pulse;
use crate::store::{Consumer, Fault, FaultClass, Store};
use crate::subscription::Subscription;

/// The consumer that entries are handed to at a stop. Every worker's sweep looks at it first.
pub(crate) const HANDED_BACK: &str = "rillkit:handed-back";

/// How often the same complaint is logged, at most.
const COMPLAINT_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) subscription: &'static Subscription,
    pub(crate) dlq: Arc<str>,
    pub(crate) consumer: Consumer,
    pub(crate) store: Store,
    pub(crate) hand: InHand,
    /// What is known of keys, where the handler is idempotent.
    pub(crate) keys: Option<KeysInHand>,
    pub(crate) pulse: Pulse,
    /// Bytes that may be sent at once.
    pub(crate) largest: usize,
    pub(crate) history: History,
    /// Every entry up to this id has been handed out and acked: a group that is created again
    /// starts behind it.
    floor: Mutex<Option<EntryId>>,
    /// When the oldest read under way was sent.
    reading_since: Mutex<Option<Instant>>,
    complained: Mutex<Option<Instant>>,
    given_up: watch::Sender<bool>,
    /// Runs that have a task of their own. One that has acked is no longer pending or in hand.
    runs: AtomicUsize,
    /// What the worker had under its hands when it panicked: handed out like what a dead process had,
    /// counted, when it is due. An id is not used twice, and stays here.
    cut_off: Mutex<HashSet<EntryId>>,
    /// It was said that other groups lose what this one acks.
    said_endangered: AtomicBool,
}

impl Post {
    pub(crate) fn new(
        subscription: &'static Subscription,
        consumer: Consumer,
        store: Store,
        largest: usize,
    ) -> Self {
        Self {
            subscription,
            dlq: subscription.dlq_name().into(),
            consumer,
            store,
            hand: InHand::default(),
            keys: subscription.idempotent_for().map(KeysInHand::new),
            pulse: Pulse::new(),
            largest,
            history: History::default(),
            floor: Mutex::default(),
            reading_since: Mutex::default(),
            complained: Mutex::default(),
            given_up: watch::Sender::new(false),
            runs: AtomicUsize::new(0),
            cut_off: Mutex::default(),
            said_endangered: AtomicBool::new(false),
        }
    }

    pub(crate) fn run_begins(&self) {
        self.runs.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn run_ends(&self) {
        self.runs.fetch_sub(1, Ordering::SeqCst);
    }

    /// These many run, and no more: the worker has counted anew.
    pub(crate) fn set_runs(&self, runs: usize) {
        self.runs.store(runs, Ordering::SeqCst);
    }

    /// Leaves an entry to the look for what is due: its run may have been what broke the worker.
    pub(crate) fn cut_off(&self, id: EntryId) {
        self.lock_cut_off().insert(id);
        self.hand.release([id]);
    }

    pub(crate) fn was_cut_off(&self, id: EntryId) -> bool {
        self.lock_cut_off().contains(&id)
    }

    fn lock_cut_off(&self) -> MutexGuard<'_, HashSet<EntryId>> {
        self.cut_off.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a handler runs in a task of its own.
    pub(crate) fn is_running(&self) -> bool {
        self.runs.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.subscription.policy
    }

    /// Whether the consumer's name is from the attribute, so that a twin may have it too.
    pub(crate) fn has_given_name(&self) -> bool {
        self.subscription.given_consumer().is_some()
    }

    /// The id that a group which is gone can be created again behind, without losing anything.
    pub(crate) fn floor(&self) -> Option<EntryId> {
        *self.floor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_floor(&self, floor: Option<EntryId>) {
        *self.floor.lock().unwrap_or_else(PoisonError::into_inner) = floor;
    }

    /// Notes when the oldest read under way was sent.
    pub(crate) fn set_reading_since(&self, since: Option<Instant>) {
        *self
            .reading_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Whether a read under way may bring what was handed out to us `idle` ago.
    pub(crate) fn may_be_arriving(&self, idle: Duration) -> bool {
        self.reading_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some_and(|since| idle <= since.elapsed())
    }

    /// Notes that a message in hand is another consumer's now.
    pub(crate) fn lease_lost(&self, id: EntryId) {
        self.pulse.lost_lease();
        log::lease_lost(&self.consumer, id);
    }

    /// Notes that a pending message is lost: the stream no longer holds it.
    pub(crate) fn entry_lost(&self, id: EntryId) {
        self.pulse.lost_entry();
        log::lost(&self.consumer, id);
    }

    /// Notes that a message in hand is not pending any more, and what that ends.
    pub(crate) fn not_pending(&self, id: EntryId, ends: &'static str) {
        self.pulse.not_pending();
        log::not_pending(&self.consumer, id, ends);
    }

    /// Notes that something beside the reads failed, and is done again soon. A server in trouble is
    /// the intake's to report; what no waiting cures is said here.
    pub(crate) fn failing(&self, what: &'static str, fault: &Fault) {
        self.pulse.error(fault);
        if fault.class == FaultClass::Config && self.may_complain() {
            log::failing(&self.consumer, what, fault);
        }
    }

    /// Says once that groups which came after the start lose what is acked here.
    pub(crate) fn endangers(&self, groups: &[(String, EntryId)]) {
        if !self.said_endangered.swap(true, Ordering::Relaxed) {
            let names = groups.iter().map(|(name, _)| &**name);
            let others = names.filter(|name| *name != self.consumer.group);
            log::deletes_for_others(&self.subscription.deletes_for_others(others));
        }
    }

    /// Whether it is time to complain again.
    pub(crate) fn may_complain(&self) -> bool {
        let mut complained = self
            .complained
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if complained.is_some_and(|last| now.duration_since(last) < COMPLAINT_EVERY) {
            return false;
        }
        *complained = Some(now);
        true
    }

    /// Ends every attempt to reach the server that would go on otherwise: the stop is over.
    pub(crate) fn give_up(&self) {
        self.given_up.send_replace(true);
    }

    /// Whether the stop is over.
    pub(crate) fn is_over(&self) -> bool {
        *self.given_up.borrow()
    }

    /// Waits, unless the stop is over before; whether it is.
    pub(crate) async fn wait_or_give_up(&self, wait: Duration) -> bool {
        let mut given_up = self.given_up.subscribe();
        let over = async { given_up.wait_for(|over| *over).await.is_ok() };
        tokio::time::timeout(wait, over).await.unwrap_or(false)
    }
}
