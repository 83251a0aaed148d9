//! Letters that are worked off where they are: a function of the caller's does what the handler could
//! not, and what it did is deleted.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;

use tokio::task::{self, JoinError, JoinSet};

use super::filter::Filter;
use super::letter::Letter;
use super::progress::Progress;
use super::queue::Queue;
use super::unfinished::Unfinished;
use super::walk::{PAGE, Walk};
use crate::entry_id::EntryId;
use crate::error::Error;
use crate::error_text::capped;
use crate::log;
use crate::outcome::BoxError;
use crate::panic;
use crate::store::Fault;

/// Errors that a report has the text of.
const ERRORS: usize = 100;

/// Calls a function for each letter when it is awaited, of those that are there now, oldest first.
///
/// See [`Dlq::reprocess`](super::Dlq::reprocess).
#[must_use = "nothing is done until this is awaited"]
pub struct Reprocess {
    queue: Result<Queue, Error>,
    function: Function,
    filter: Filter,
    count: usize,
    after: Option<EntryId>,
    concurrency: usize,
    progress: Progress<ReprocessReport>,
}

type Function = Arc<dyn Fn(Letter) -> Running + Send + Sync>;
type Running = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// What a [`Reprocess`] did.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReprocessReport {
    /// Letters for which the function was fine: they are deleted.
    pub done: u64,
    /// Letters for which it failed or panicked: they are as they were.
    pub failed: u64,
    /// Letters for which it was fine, and that somebody else had moved or deleted by then.
    pub gone: u64,
    /// The texts of the first hundred errors.
    pub errors: Vec<(EntryId, String)>,
    /// The last letter of which nothing is left to do, nor of those before it;
    /// [`Reprocess::after`] goes on behind it.
    pub last: Option<EntryId>,
}

impl Reprocess {
    pub(super) fn new<F, Fut, E>(queue: Result<Queue, Error>, function: F) -> Self
    where
        F: Fn(Letter) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let function = move |letter| -> Running {
            let run = function(letter);
            Box::pin(async move { run.await.map_err(|error| capped(&error.into().to_string())) })
        };
        Self {
            queue,
            function: Arc::new(function),
            filter: Filter::new(),
            count: usize::MAX,
            after: None,
            concurrency: 1,
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

    /// At most `count` letters.
    pub fn count(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    /// Begins behind this letter: where an earlier call ended, with what it left behind.
    pub fn after(mut self, id: EntryId) -> Self {
        self.after = Some(id);
        self
    }

    /// Letters that the function is called for at once, instead of one after the other.
    pub fn concurrency(mut self, letters: usize) -> Self {
        self.concurrency = letters.max(1);
        self
    }

    /// Calls this with the report so far, after each letter.
    pub fn on_progress(mut self, progress: impl FnMut(&ReprocessReport) + Send + 'static) -> Self {
        self.progress = Progress::to(progress);
        self
    }

    async fn run(mut self) -> Result<ReprocessReport, Unfinished<ReprocessReport>> {
        let mut report = ReprocessReport::default();
        let queue = match self.queue.clone() {
            Ok(queue) => queue,
            Err(error) => return Err(Unfinished::new(report, error)),
        };
        match self.work_off(&queue, &mut report).await {
            Ok(()) => Ok(report),
            Err(fault) => {
                let what = format!(
                    "reprocessing dead letters of `{}` failed after {} were done",
                    queue.name, report.done
                );
                Err(Unfinished::new(report, Error::from_fault(&fault, &what)))
            }
        }
    }

    async fn work_off(&mut self, queue: &Queue, report: &mut ReprocessReport) -> Result<(), Fault> {
        let mut walk = Walk::over_present(queue, &self.filter, self.after).await?;
        let (mut runs, mut left) = (Runs::default(), self.count);
        while left > 0
            && let Some(mut found) = walk.next(PAGE).await?
        {
            found.letters.truncate(left);
            left -= found.letters.len();
            for letter in found.letters {
                if runs.tasks.len() >= self.concurrency {
                    runs.end_one(queue, report).await?;
                    self.progress.tell(report);
                }
                runs.begin(&self.function, letter);
            }
        }
        while !runs.tasks.is_empty() {
            runs.end_one(queue, report).await?;
            self.progress.tell(report);
        }
        Ok(())
    }
}

/// The function's runs. Each is a task: a panic ends that one alone.
#[derive(Default)]
struct Runs {
    tasks: JoinSet<Result<(), String>>,
    letters: HashMap<task::Id, EntryId>,
    /// In the order of the queue, and whether it has ended.
    ended: BTreeMap<EntryId, bool>,
}

impl Runs {
    fn begin(&mut self, function: &Function, letter: Letter) {
        let (id, function) = (letter.id(), Arc::clone(function));
        // The call is in the task too: it may panic before it gives a future.
        let run = self.tasks.spawn(async move { function(letter).await });
        self.letters.insert(run.id(), id);
        self.ended.insert(id, false);
    }

    async fn end_one(&mut self, queue: &Queue, report: &mut ReprocessReport) -> Result<(), Fault> {
        let (task, result) = match self.tasks.join_next_with_id().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) => (error.id(), Err(why_it_broke(error))),
            None => return Ok(()),
        };
        let Some(id) = self.letters.remove(&task) else {
            return Ok(());
        };
        match result {
            Ok(()) => match queue.store.delete(&queue.name, &[id]).await? {
                0 => report.gone += 1,
                _ => report.done += 1,
            },
            Err(error) => {
                log::not_reprocessed(&queue.name, id, &error);
                report.failed += 1;
                if report.errors.len() < ERRORS {
                    report.errors.push((id, error));
                }
            }
        }
        self.ended.insert(id, true);
        while let Some(first) = self.ended.first_entry()
            && *first.get()
        {
            report.last = Some(*first.key());
            first.remove();
        }
        Ok(())
    }
}

fn why_it_broke(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => capped(&format!("panicked: {}", panic::text(panic))),
        Err(_) => "the runtime has ended".to_owned(),
    }
}

impl IntoFuture for Reprocess {
    type Output = Result<ReprocessReport, Unfinished<ReprocessReport>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for Reprocess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reprocess")
            .field("queue", &self.queue)
            .field("filter", &self.filter)
            .field("count", &self.count)
            .field("after", &self.after)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}
