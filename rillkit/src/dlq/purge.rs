//! Letters that nobody needs any more.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;

use super::filter::Filter;
use super::letter::Letter;
use super::progress::Progress;
use super::queue::Queue;
use super::unfinished::Unfinished;
use super::walk::{PAGE, Walk};
use crate::entry_id::EntryId;
use crate::error::{Error, ErrorKind};
use crate::store::Fault;

/// Deletes letters when it is awaited, of those that are there now, oldest first. It needs a filter,
/// or an explicit [`all`](Self::all).
///
/// ```
/// use std::time::Duration;
/// use rillkit::dlq::Filter;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rillkit::Error> {
/// # let broker = rillkit::Broker::memory().with_handlers([]);
/// let month = Filter::new().older_than(Duration::from_secs(30 * 24 * 3600));
/// let would_be = broker.dlq("jobs").purge().matching(month.clone()).dry_run().await?;
/// println!("{} are older than a month", would_be.deleted);
/// broker.dlq("jobs").purge().matching(month).await?;
/// # Ok(()) }
/// ```
#[must_use = "nothing is deleted until this is awaited"]
pub struct Purge {
    queue: Result<Queue, Error>,
    filter: Filter,
    all: bool,
    count: usize,
    dry_run: bool,
    progress: Progress<PurgeReport>,
}

/// What a [`Purge`] did, or would do.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PurgeReport {
    /// Letters that were deleted.
    pub deleted: u64,
    /// The last of them.
    pub last: Option<EntryId>,
}

impl Purge {
    pub(super) fn new(queue: Result<Queue, Error>) -> Self {
        Self {
            queue,
            filter: Filter::new(),
            all: false,
            count: usize::MAX,
            dry_run: false,
            progress: Progress::none(),
        }
    }

    /// Only letters that this filter means.
    pub fn matching(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Only the letters with these ids.
    pub fn ids(mut self, ids: impl IntoIterator<Item = EntryId>) -> Self {
        self.filter = self.filter.ids(ids);
        self
    }

    /// All letters, where no filter is given.
    pub fn all(mut self) -> Self {
        self.all = true;
        self
    }

    /// At most `count` letters.
    pub fn count(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    /// Only reports what would be deleted.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Calls this with the report so far, after each page.
    pub fn on_progress(mut self, progress: impl FnMut(&PurgeReport) + Send + 'static) -> Self {
        self.progress = Progress::to(progress);
        self
    }

    async fn run(mut self) -> Result<PurgeReport, Unfinished<PurgeReport>> {
        let mut report = PurgeReport::default();
        match self.delete(&mut report).await {
            Ok(()) => Ok(report),
            Err(error) => Err(Unfinished::new(report, error)),
        }
    }

    async fn delete(&mut self, report: &mut PurgeReport) -> Result<(), Error> {
        let queue = self.queue.clone()?;
        if self.filter.is_empty() && !self.all {
            return Err(Error::new(
                ErrorKind::Input,
                format!(
                    "a purge of `{}` without a filter would delete everything: give it a filter, or say `.all()`",
                    queue.name
                ),
            ));
        }
        let deleted = self.delete_pages(&queue, report).await;
        deleted.map_err(|fault| {
            let what = format!(
                "deleting dead letters of `{}` failed after {} were deleted",
                queue.name, report.deleted
            );
            Error::from_fault(&fault, &what)
        })
    }

    async fn delete_pages(&mut self, queue: &Queue, report: &mut PurgeReport) -> Result<(), Fault> {
        let mut walk = Walk::over_present(queue, &self.filter, None).await?;
        let mut left = self.count;
        while left > 0
            && let Some(mut found) = walk.next(PAGE).await?
        {
            found.letters.truncate(left);
            left -= found.letters.len();
            let ids: Vec<_> = found.letters.iter().map(Letter::id).collect();
            report.deleted += if self.dry_run {
                ids.len() as u64
            } else {
                queue.store.delete(&queue.name, &ids).await?
            };
            report.last = ids.last().copied().or(report.last);
            self.progress.tell(report);
        }
        Ok(())
    }
}

impl IntoFuture for Purge {
    type Output = Result<PurgeReport, Unfinished<PurgeReport>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for Purge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Purge")
            .field("queue", &self.queue)
            .field("filter", &self.filter)
            .field("count", &self.count)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}
