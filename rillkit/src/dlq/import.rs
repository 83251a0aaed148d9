//! Letters that other programs wrote, in their words: they become letters of ours.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;

use super::filter::Filter;
use super::foreign;
use super::progress::Progress;
use super::queue::Queue;
use super::unfinished::Unfinished;
use super::walk::{PAGE, Walk};
use crate::entry_id::EntryId;
use crate::error::{Error, ErrorKind};
use crate::store::{Fault, Replayed};
use crate::subscription::check_name;

/// Moves entries that another program wrote to its dead-letter stream into the queue when it is
/// awaited, of those that are there now, oldest first.
///
/// See [`Dlq::import`](super::Dlq::import).
#[must_use = "nothing is moved until this is awaited"]
pub struct Import {
    queue: Result<Queue, Error>,
    from: String,
    count: usize,
    dry_run: bool,
    progress: Progress<ImportReport>,
}

/// What an [`Import`] did, or would do.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Entries that are letters of the queue now.
    pub imported: u64,
    /// Entries that were left: without `original_id`, of another stream, or gone meanwhile.
    pub skipped: u64,
    /// The last entry that was looked at.
    pub last: Option<EntryId>,
}

impl Import {
    pub(super) fn new(queue: Result<Queue, Error>, from: &str) -> Self {
        Self {
            queue,
            from: from.to_owned(),
            count: usize::MAX,
            dry_run: false,
            progress: Progress::none(),
        }
    }

    /// At most `count` entries.
    pub fn count(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    /// Only reports what would be moved.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Calls this with the report so far, after each entry.
    pub fn on_progress(mut self, progress: impl FnMut(&ImportReport) + Send + 'static) -> Self {
        self.progress = Progress::to(progress);
        self
    }

    async fn run(mut self) -> Result<ImportReport, Unfinished<ImportReport>> {
        let mut report = ImportReport::default();
        match self.import(&mut report).await {
            Ok(()) => Ok(report),
            Err(error) => Err(Unfinished::new(report, error)),
        }
    }

    async fn import(&mut self, report: &mut ImportReport) -> Result<(), Error> {
        let queue = self.queue.clone()?;
        let from = self.from.clone();
        let input = |text| Error::new(ErrorKind::Input, text);
        check_name(&from)
            .map_err(|why| input(format!("the name of the stream to import from {why}")))?;
        if from == queue.name || from == queue.stream {
            let text =
                format!("`{from}` cannot be imported: it is the stream itself, or its queue");
            return Err(input(text));
        }
        let moved = self.move_all(&queue, report).await;
        moved.map_err(|fault| {
            let what = format!(
                "importing from `{from}` into `{}` failed after {} were moved",
                queue.name, report.imported
            );
            Error::from_fault(&fault, &what)
        })
    }

    async fn move_all(&mut self, queue: &Queue, report: &mut ImportReport) -> Result<(), Fault> {
        queue.store.together(&queue.name, &self.from)?;
        let theirs = Queue {
            name: self.from.clone(),
            ..queue.clone()
        };
        let all = Filter::new();
        let mut walk = Walk::over_present(&theirs, &all, None).await?;
        let most = self.count as u64;
        while report.imported < most
            && let Some(found) = walk.next(PAGE).await?
        {
            report.skipped += found.others;
            for entry in found.letters {
                if report.imported >= most {
                    break;
                }
                let letter = foreign::letter(entry.id(), entry.fields(), &queue.stream);
                let moved = match letter {
                    None => Replayed::Gone,
                    Some(_) if self.dry_run => Replayed::Moved(entry.id()),
                    Some(letter) => {
                        let to = &queue.name;
                        let step = queue.store.replay(&theirs.name, entry.id(), to, &letter);
                        step.await?
                    }
                };
                match moved {
                    Replayed::Moved(_) => report.imported += 1,
                    Replayed::Gone => report.skipped += 1,
                }
                report.last = Some(entry.id());
                self.progress.tell(report);
            }
        }
        Ok(())
    }
}

impl IntoFuture for Import {
    type Output = Result<ImportReport, Unfinished<ImportReport>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Import")
            .field("queue", &self.queue)
            .field("from", &self.from)
            .field("count", &self.count)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}
