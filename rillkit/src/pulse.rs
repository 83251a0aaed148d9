//! The signs of life of one worker: its loops note them as they go, and whoever asks for its
//! [`health`](crate::health) reads them. Noting one is a few plain stores; nothing waits here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error_text;
use crate::log;
use crate::store::{Fault, FaultClass};

/// How often a loop that has nothing to do says that it is there.
pub(crate) const BEAT: Duration = Duration::from_secs(1);

/// The loops of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Reading,
    Handling,
    Settling,
    TakingOver,
    Leases,
}

impl Part {
    pub(crate) const ALL: [Self; 5] = [
        Self::Reading,
        Self::Handling,
        Self::Settling,
        Self::TakingOver,
        Self::Leases,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Handling => "handling",
            Self::Settling => "settling",
            Self::TakingOver => "taking over",
            Self::Leases => "keeping leases",
        }
    }
}

/// What stands between a worker and its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// There is no connection.
    Unreachable,
    /// The server is there, and refuses for now.
    Refusing,
    /// The server refuses, and no waiting cures it.
    Mistake,
}

impl Trouble {
    fn of(class: FaultClass) -> Self {
        match class {
            FaultClass::Reconnect | FaultClass::Unreachable => Self::Unreachable,
            FaultClass::Wait | FaultClass::EnsureGroup => Self::Refusing,
            FaultClass::Config => Self::Mistake,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Pulse {
    origin: Instant,
    /// When each loop last went round; see [`Moment`].
    beats: [Moment; Part::ALL.len()],
    last_read: Moment,
    last_handled: Moment,
    /// Since when reads have been under way; never while nothing more is wanted.
    reading: Moment,
    lost_leases: AtomicU64,
    duplicates: AtomicU64,
    /// Milliseconds of the runs that had a task of their own: the usual, and the longest since it
    /// was last asked for; both plus one, zero for none.
    usual_run: AtomicU64,
    longest_run: AtomicU64,
    lost_entries: AtomicU64,
    not_pending: AtomicU64,
    restarts: AtomicU64,
    stopping: AtomicBool,
    /// Nothing new is read, for the dead letters that cannot be written.
    stuck: AtomicBool,
    /// A part has panicked, and the worker is not started again yet.
    broken: AtomicBool,
    notes: Mutex<Notes>,
    #[cfg(test)]
    pub(crate) trap: trap::Trap,
}

/// How long runs take, of those that had to wait for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) usual: Option<Duration>,
    /// Since it was last asked for.
    pub(crate) longest: Option<Duration>,
}

/// A moment in milliseconds since the pulse began, plus one; zero is never.
#[derive(Debug, Default)]
struct Moment(AtomicU64);

#[derive(Debug)]
struct Notes {
    /// What stops the reads, and since when.
    reads: Option<(Trouble, Instant)>,
    /// What stops the acks, and since when.
    acks: Option<(Trouble, Instant)>,
    last_error: Option<(String, Instant)>,
}

/// What a pulse tells at one moment; everything as long ago as it is.
#[derive(Debug, Clone)]
pub(crate) struct Signs {
    pub(crate) beats: [Duration; Part::ALL.len()],
    pub(crate) last_read: Option<Duration>,
    pub(crate) last_handled: Option<Duration>,
    pub(crate) reading: Option<Duration>,
    pub(crate) lost_leases: u64,
    pub(crate) duplicates: u64,
    pub(crate) lost_entries: u64,
    pub(crate) not_pending: u64,
    pub(crate) restarts: u64,
    pub(crate) stopping: bool,
    pub(crate) stuck: bool,
    pub(crate) broken: bool,
    pub(crate) reads: Option<(Trouble, Duration)>,
    pub(crate) acks: Option<(Trouble, Duration)>,
    pub(crate) last_error: Option<(String, Duration)>,
}

impl Pulse {
    /// Of a worker that waits for its server.
    pub(crate) fn new() -> Self {
        let origin = Instant::now();
        Self {
            origin,
            beats: Default::default(),
            last_read: Moment::default(),
            last_handled: Moment::default(),
            reading: Moment::default(),
            lost_leases: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            usual_run: AtomicU64::new(0),
            longest_run: AtomicU64::new(0),
            lost_entries: AtomicU64::new(0),
            not_pending: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            notes: Mutex::new(Notes {
                reads: Some((Trouble::Refusing, origin)),
                acks: None,
                last_error: None,
            }),
            #[cfg(test)]
            trap: trap::Trap::default(),
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group is there, and the loops begin.
    pub(crate) fn begins(&self) {
        self.notes().reads = None;
        self.broken.store(false, Ordering::Relaxed);
        for part in Part::ALL {
            self.beat(part);
        }
    }

    /// The loop is there.
    pub(crate) fn beat(&self, part: Part) {
        #[cfg(test)]
        self.trap.spring(part);
        self.beats[part as usize].set(self.origin);
    }

    /// A read was answered.
    pub(crate) fn read(&self) {
        self.last_read.set(self.origin);
    }

    /// Whether reads are under way.
    pub(crate) fn reads(&self, under_way: bool) {
        if !under_way {
            self.reading.clear();
        } else if self.reading.ago(self.origin).is_none() {
            self.reading.set(self.origin);
        }
    }

    /// A handler has ended.
    pub(crate) fn handled(&self) {
        self.last_handled.set(self.origin);
    }

    /// A run with a task of its own has ended. Only its worker's loop says so.
    pub(crate) fn ran(&self, run: Duration) {
        let ms = u64::try_from(run.as_millis()).unwrap_or(u64::MAX - 1);
        let usual = match self.usual_run.load(Ordering::Relaxed) {
            0 => ms,
            // The newest run counts an eighth.
            usual => (usual - 1) - (usual - 1) / 8 + ms / 8,
        };
        self.usual_run
            .store(usual.saturating_add(1), Ordering::Relaxed);
        self.longest_run
            .fetch_max(ms.saturating_add(1), Ordering::Relaxed);
    }

    /// How long runs take; the longest is that since the last call.
    pub(crate) fn take_runs(&self) -> Runs {
        let some = |ms: u64| ms.checked_sub(1).map(Duration::from_millis);
        Runs {
            usual: some(self.usual_run.load(Ordering::Relaxed)),
            longest: some(self.longest_run.swap(0, Ordering::Relaxed)),
        }
    }

    pub(crate) fn lost_lease(&self) {
        self.lost_leases.fetch_add(1, Ordering::Relaxed);
    }

    /// A message was acked without a run.
    pub(crate) fn duplicate(&self) {
        self.duplicates.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn lost_entry(&self) {
        self.lost_entries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn not_pending(&self) {
        self.not_pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether too many dead letters wait for their DLQ.
    pub(crate) fn stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    pub(crate) fn stops(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Something could not be done, which says nothing about reads and acks.
    pub(crate) fn error(&self, fault: &Fault) {
        self.note_error(&fault.text);
    }

    fn note_error(&self, text: &str) {
        let text = error_text::capped(&log::one_line(text));
        self.notes().last_error = Some((text, Instant::now()));
    }

    /// A loop has panicked, and goes on by itself.
    pub(crate) fn panicked(&self, part: Part, panic: &str) {
        self.note_error(&format!("{} panicked: {panic}", part.name()));
    }

    /// A loop has panicked, and all of them stand still until they begin again.
    pub(crate) fn breaks(&self, part: Part, panic: &str) {
        self.panicked(part, panic);
        self.restarts.fetch_add(1, Ordering::Relaxed);
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Reading failed.
    pub(crate) fn cannot_read(&self, fault: &Fault) {
        self.error(fault);
        note(&mut self.notes().reads, Trouble::of(fault.class));
    }

    /// There is a connection again. Whether the server answers reads shows with the next one.
    pub(crate) fn reconnected(&self) {
        let mut notes = self.notes();
        if matches!(notes.reads, Some((Trouble::Unreachable, _))) {
            notes.reads = None;
        }
    }

    /// What stopped the reads is over.
    pub(crate) fn can_read(&self) {
        self.notes().reads = None;
    }

    /// An ack failed.
    pub(crate) fn cannot_ack(&self, fault: &Fault) {
        self.error(fault);
        note(&mut self.notes().acks, Trouble::of(fault.class));
    }

    /// What stopped the acks is over.
    pub(crate) fn can_ack(&self) {
        self.notes().acks = None;
    }

    pub(crate) fn signs(&self) -> Signs {
        let ago = |moment: &Moment| moment.ago(self.origin);
        let now = Instant::now();
        let since = |trouble: Option<(Trouble, Instant)>| {
            trouble.map(|(trouble, since)| (trouble, now.saturating_duration_since(since)))
        };
        let notes = self.notes();
        Signs {
            beats: self
                .beats
                .each_ref()
                .map(|beat| ago(beat).unwrap_or_default()),
            last_read: ago(&self.last_read),
            last_handled: ago(&self.last_handled),
            reading: ago(&self.reading),
            lost_leases: self.lost_leases.load(Ordering::Relaxed),
            duplicates: self.duplicates.load(Ordering::Relaxed),
            lost_entries: self.lost_entries.load(Ordering::Relaxed),
            not_pending: self.not_pending.load(Ordering::Relaxed),
            restarts: self.restarts.load(Ordering::Relaxed),
            stopping: self.stopping.load(Ordering::Relaxed),
            stuck: self.stuck.load(Ordering::Relaxed),
            broken: self.broken.load(Ordering::Relaxed),
            reads: since(notes.reads),
            acks: since(notes.acks),
            last_error: notes
                .last_error
                .as_ref()
                .map(|(text, at)| (text.clone(), now.saturating_duration_since(*at))),
        }
    }
}

/// Trouble of one kind goes on since it began; trouble of another begins now.
fn note(noted: &mut Option<(Trouble, Instant)>, trouble: Trouble) {
    match noted {
        Some((before, _)) if *before == trouble => {}
        _ => *noted = Some((trouble, Instant::now())),
    }
}

impl Moment {
    fn set(&self, origin: Instant) {
        let ms = u64::try_from(origin.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.0.store(ms + 1, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn ago(&self, origin: Instant) -> Option<Duration> {
        let ms = self.0.load(Ordering::Relaxed).checked_sub(1)?;
        Some(origin.elapsed().saturating_sub(Duration::from_millis(ms)))
    }
}

/// A panic in one of the loops, for tests of what follows.
#[cfg(test)]
pub(crate) mod trap {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Part;

    #[derive(Debug, Default)]
    pub(crate) struct Trap(AtomicU8);

    impl Trap {
        /// Lets this loop panic when it next goes round.
        pub(crate) fn set(&self, part: Part) {
            self.0.fetch_or(1 << part as u8, Ordering::SeqCst);
        }

        pub(super) fn spring(&self, part: Part) {
            let bit = 1 << part as u8;
            assert!(
                self.0.fetch_and(!bit, Ordering::SeqCst) & bit == 0,
                "the trap of {part:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(class: FaultClass) -> Fault {
        Fault::new(class, "a\nfault".repeat(1000))
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_of_one_kind_goes_on_since_it_began() {
        let pulse = Pulse::new();
        pulse.begins();
        assert_eq!(pulse.signs().reads, None);
        pulse.cannot_read(&fault(FaultClass::Unreachable));
        tokio::time::sleep(BEAT).await;
        pulse.cannot_read(&fault(FaultClass::Reconnect));
        assert_eq!(pulse.signs().reads, Some((Trouble::Unreachable, BEAT)));
        pulse.cannot_read(&fault(FaultClass::Config));
        pulse.reconnected();
        let signs = pulse.signs();
        assert_eq!(signs.reads, Some((Trouble::Mistake, Duration::ZERO)));
        let (text, _) = signs.last_error.unwrap();
        assert!(
            text.chars().count() == 1000 && !text.contains('\n'),
            "{text}"
        );
    }

    #[tokio::test]
    async fn runs_are_told_as_the_usual_and_the_longest() {
        let pulse = Pulse::new();
        let ms = Duration::from_millis;
        let told = |usual: Option<u64>, longest: Option<u64>| Runs {
            usual: usual.map(ms),
            longest: longest.map(ms),
        };
        assert_eq!(pulse.take_runs(), told(None, None));
        pulse.ran(ms(80));
        pulse.ran(ms(160));
        assert_eq!(pulse.take_runs(), told(Some(90), Some(160)));
        assert_eq!(pulse.take_runs(), told(Some(90), None));
    }

    #[tokio::test(start_paused = true)]
    async fn moments_are_as_long_ago_as_they_are() {
        let pulse = Pulse::new();
        assert_eq!(pulse.signs().last_read, None);
        pulse.read();
        pulse.reads(true);
        tokio::time::sleep(BEAT).await;
        pulse.reads(true);
        let signs = pulse.signs();
        assert_eq!((signs.last_read, signs.reading), (Some(BEAT), Some(BEAT)));
        pulse.reads(false);
        assert_eq!(pulse.signs().reading, None);
    }
}
