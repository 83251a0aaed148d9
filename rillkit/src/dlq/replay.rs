//! What a replay is told, and what it tells. How it is done is in `moving`.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use super::filter::Filter;
use super::moving::Moving;
use super::progress::Progress;
use super::queue::Queue;
use super::unfinished::Unfinished;
use crate::entry_id::EntryId;
use crate::error::Error;

/// Moves letters back to their stream when it is awaited, of those that are there now, oldest first:
/// all that a filter means, or 100 when there is no filter, unless [`count`](Self::count) or
/// [`all`](Self::all) says otherwise.
///
/// Each move is one step on the server: nothing is lost or doubled when it breaks off half way, is
/// dropped, or runs twice at once. A replayed message has a new id and fresh retries, and the field
/// `rk-replays` says how often it was replayed.
///
/// ```
/// use rillkit::dlq::Filter;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rillkit::Error> {
/// # let broker = rillkit::Broker::memory().with_handlers([]);
/// let dlq = broker.dlq("jobs");
/// let refused = Filter::new().error_contains("connection refused");
/// let would_be = dlq.replay().matching(refused.clone()).dry_run().await?;
/// println!("{} would be moved", would_be.moved);
/// let report = dlq
///     .replay()
///     .matching(refused)
///     .rate(20.0)
///     .at_most_replays(3)
///     .on_progress(|so_far| println!("{} moved", so_far.moved))
///     .await?;
/// println!("{} moved, {} put aside", report.moved, report.parked);
/// # Ok(()) }
/// ```
#[must_use = "nothing is replayed until this is awaited"]
pub struct Replay {
    queue: Result<Queue, Error>,
    plan: Plan,
    progress: Progress<ReplayReport>,
}

/// What a replay was told.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) filter: Filter,
    pub(super) count: Option<usize>,
    pub(super) after: Option<EntryId>,
    pub(super) dry_run: bool,
    pub(super) rate: Option<f64>,
    pub(super) most_replays: Option<u64>,
    pub(super) failing: Option<f64>,
    pub(super) patience: Option<Duration>,
    pub(super) every_group: bool,
}

/// What a [`Replay`] did, or would do.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Letters that are messages of the stream again.
    pub moved: u64,
    /// Letters that were put aside, as [`Replay::at_most_replays`] says.
    pub parked: u64,
    /// Letters that were meant and not moved: they have no fields of their own, or somebody else
    /// moved or deleted them meanwhile.
    pub skipped: u64,
    /// The last letter that was looked at; [`Replay::after`] goes on behind it.
    pub last: Option<EntryId>,
    /// With [`Replay::stop_when_failing`]: moved messages whose end was seen.
    pub ended: u64,
    /// Those of them that are in this queue again.
    pub failed_again: u64,
    /// Why it stopped before it had moved all.
    pub stopped: Option<Stopped>,
}

/// Why a [`Replay`] stopped by itself.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Too many of the replayed messages failed again.
    Failing,
    /// No message has ended for a long time: perhaps no handler runs.
    NothingEnds,
}

impl Replay {
    pub(super) fn new(queue: Result<Queue, Error>) -> Self {
        Self {
            queue,
            plan: Plan::default(),
            progress: Progress::none(),
        }
    }

    /// Only letters that this filter means.
    pub fn matching(mut self, filter: Filter) -> Self {
        self.plan.filter = filter;
        self
    }

    /// Only the letters with these ids.
    pub fn ids(mut self, ids: impl IntoIterator<Item = EntryId>) -> Self {
        self.plan.filter = self.plan.filter.ids(ids);
        self
    }

    /// Moves (or puts aside) at most `count` letters.
    pub fn count(mut self, count: usize) -> Self {
        self.plan.count = Some(count);
        self
    }

    /// Moves all that are meant.
    pub fn all(self) -> Self {
        self.count(usize::MAX)
    }

    /// Begins behind this letter: where an earlier replay ended, with what it left behind.
    pub fn after(mut self, id: EntryId) -> Self {
        self.plan.after = Some(id);
        self
    }

    /// Only reports what would be done.
    pub fn dry_run(mut self) -> Self {
        self.plan.dry_run = true;
        self
    }

    /// Moves at most this many letters in a second.
    pub fn rate(mut self, per_second: f64) -> Self {
        self.plan.rate = Some(per_second);
        self
    }

    /// Puts letters aside that were replayed this often already, instead of moving them once more:
    /// unchanged and in one step, into the queue [`parked`](super::Dlq::parked).
    pub fn at_most_replays(mut self, replays: u64) -> Self {
        self.plan.most_replays = Some(replays);
        self
    }

    /// Stops when more than this share (0.2 is a fifth) of the replayed messages fail again, so that
    /// a fault that is not mended costs no more than a few. At least ten have to have ended before it
    /// is looked at.
    ///
    /// The handlers must be running, here or elsewhere: no more than a hundred messages are under way
    /// at once, and the replay waits for them to end before it moves more. One that fails ends when
    /// it is in the dead-letter queue again, after all its retries. When nothing ends for
    /// [`patience`](Self::patience), the replay stops too.
    pub fn stop_when_failing(mut self, share: f64) -> Self {
        self.plan.failing = Some(share);
        self
    }

    /// How long [`stop_when_failing`](Self::stop_when_failing) waits for the next message to end,
    /// instead of ten minutes. It should be longer than a message takes to fail for good.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.plan.patience = Some(patience);
        self
    }

    /// Shows replayed messages to every group of the stream, and not only to the one in which each
    /// failed.
    pub fn to_every_group(mut self) -> Self {
        self.plan.every_group = true;
        self
    }

    /// Calls this with the report so far, after each letter.
    pub fn on_progress(mut self, progress: impl FnMut(&ReplayReport) + Send + 'static) -> Self {
        self.progress = Progress::to(progress);
        self
    }

    async fn run(self) -> Result<ReplayReport, Unfinished<ReplayReport>> {
        let mut report = ReplayReport::default();
        match self.run_into(&mut report).await {
            Ok(()) => Ok(report),
            Err(error) => Err(Unfinished::new(report, error)),
        }
    }

    /// Adds to a report; what it has counts against the limit.
    pub(super) async fn run_into(self, report: &mut ReplayReport) -> Result<(), Error> {
        let Self {
            queue,
            plan,
            mut progress,
        } = self;
        let queue = queue?;
        let mut moving = Moving::new(&queue, &plan)?;
        let moved = moving.run(report, &mut progress).await;
        moved.map_err(|fault| {
            let what = format!(
                "replaying to `{}` failed after {} were moved",
                queue.stream, report.moved
            );
            Error::from_fault(&fault, &what)
        })
    }
}

impl IntoFuture for Replay {
    type Output = Result<ReplayReport, Unfinished<ReplayReport>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("queue", &self.queue)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}
