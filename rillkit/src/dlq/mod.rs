//! The tools for dead letters: look at them, move them back, work them off in place, delete them.
//!
//! [`Broker::dlq`](crate::Broker::dlq) gives the handle, [`Dlq`]; what each tool does is said at its
//! method. How a message becomes a dead letter is decided in `decide` and done in `settle`.

mod edit;
mod filter;
mod foreign;
mod import;
mod letter;
mod list;
mod moving;
mod pace;
mod progress;
mod purge;
mod queue;
mod replay;
mod replay_dlq;
mod reprocess;
mod stats;
mod tally;
mod unfinished;
mod walk;
mod watch;

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;

pub use self::filter::Filter;
pub use self::import::{Import, ImportReport};
pub use self::letter::Letter;
pub use self::list::{List, Page};
pub use self::purge::{Purge, PurgeReport};
pub use self::replay::{Replay, ReplayReport, Stopped};
pub use self::replay_dlq::ReplayDlq;
pub use self::reprocess::{Reprocess, ReprocessReport};
pub use self::stats::{DlqStats, Stats};
pub use self::unfinished::Unfinished;

pub(crate) use self::letter::letter;
use self::queue::Queue;
use crate::entry_id::EntryId;
use crate::error::{Error, ErrorKind};
use crate::fields::Fields;
use crate::outcome::BoxError;
use crate::publish;
use crate::store::Store;
use crate::stream::Target;
use crate::subscription::check_name;
use crate::wire;

/// What stands behind the name of a dead-letter queue whose letters were put aside.
const PARKED: &str = "-parked";

/// The dead letters of one stream.
///
/// A queue may be shared by several streams: the tools look only at the letters of this one
/// (`x-stream` names it, or is missing).
///
/// ```
/// use std::time::Duration;
/// use rillkit::dlq::Filter;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> anyhow::Result<()> {
/// # let broker = rillkit::Broker::memory().with_handlers([]);
/// let dlq = broker.dlq("jobs");
/// println!("{:?}", dlq.stats().await?);
///
/// let slow = Filter::new().reason("timeout").younger_than(Duration::from_secs(3600));
/// for letter in dlq.list().matching(slow.clone()).count(20).await?.letters {
///     println!("{} {}", letter.id(), letter.error().unwrap_or("?"));
/// }
/// let report = dlq.replay().matching(slow).rate(50.0).await?;
/// println!("{} were moved back", report.moved);
/// # Ok(()) }
/// ```
///
/// `S` is the [`Stream`](crate::Stream) constant that it was made from, so that an edited body is
/// checked against the type of its bodies; from a name, any body goes.
pub struct Dlq<S = &'static str> {
    store: Store,
    stream: String,
    names: BTreeSet<String>,
    largest: usize,
    bodies: PhantomData<fn() -> S>,
}

impl<S> Dlq<S> {
    pub(crate) fn new(
        store: &Store,
        largest: usize,
        stream: &str,
        names: BTreeSet<String>,
    ) -> Self {
        Self {
            store: store.clone(),
            stream: stream.to_owned(),
            names,
            largest,
            bodies: PhantomData,
        }
    }

    /// The names of the stream's dead-letter queues: one, unless its handlers name several. With
    /// several, [`queue`](Self::queue) says which one is meant; until then every tool refuses.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The letters of this stream in the queue of this name.
    #[must_use]
    pub fn queue(&self, name: &str) -> Self {
        self.with(BTreeSet::from([name.to_owned()]))
    }

    /// The letters that a [replay](Replay::at_most_replays) has put aside: the queue
    /// `<dlq>-parked`, with the same tools.
    #[must_use]
    pub fn parked(&self) -> Self {
        let parked = |name: &String| format!("{name}{PARKED}");
        let names = self.names.iter().map(parked).collect();
        self.with(names)
    }

    /// How many letters the queue holds, those of other streams too. Costs next to nothing, however
    /// many there are.
    ///
    /// # Errors
    ///
    /// As for every tool: several queues to choose from, or the server's.
    pub async fn len(&self) -> Result<u64, Error> {
        let queue = self.chosen()?;
        let len = self.store.len(&queue.name).await;
        len.map_err(|fault| queue.cannot_look(&fault))
    }

    /// Whether the queue holds nothing at all.
    ///
    /// # Errors
    ///
    /// As for [`len`](Self::len).
    pub async fn is_empty(&self) -> Result<bool, Error> {
        self.len().await.map(|len| len == 0)
    }

    /// Counts the letters: how many, the oldest and the newest, by reason, error, handler and group.
    /// It reads the whole queue, a page at a time.
    pub fn stats(&self) -> Stats {
        Stats::new(self.chosen())
    }

    /// A page of letters.
    pub fn list(&self) -> List {
        List::new(self.chosen())
    }

    /// One letter, `None` where the queue has none of this id.
    ///
    /// # Errors
    ///
    /// As for [`len`](Self::len).
    pub async fn get(&self, id: EntryId) -> Result<Option<Letter>, Error> {
        let page = self.list().matching(Filter::new().id(id)).await?;
        Ok(page.letters.into_iter().next())
    }

    /// Moves letters back to their stream, oldest first.
    pub fn replay(&self) -> Replay {
        Replay::new(self.chosen())
    }

    /// Deletes letters.
    pub fn purge(&self) -> Purge {
        Purge::new(self.chosen())
    }

    /// Calls a function for each letter, oldest first, and deletes those for which it was fine. The
    /// others stay exactly as they were. An error or a panic of the function is that letter's alone.
    ///
    /// A letter is deleted after the function has done its work: when the process ends in between, or
    /// two programs do this at once, the function is called for it again.
    ///
    /// ```
    /// use rillkit::dlq::Letter;
    ///
    /// async fn mend(letter: Letter) -> anyhow::Result<()> {
    ///     let body: String = letter.body()?;
    ///     std::fs::write("mended.txt", body)?;
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// # let broker = rillkit::Broker::memory().with_handlers([]);
    /// let report = broker.dlq("jobs").reprocess(mend).concurrency(4).await?;
    /// println!("{} are done, {} are left", report.done, report.failed);
    /// # Ok(()) }
    /// ```
    pub fn reprocess<F, Fut, E>(&self, function: F) -> Reprocess
    where
        F: Fn(Letter) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Reprocess::new(self.chosen(), function)
    }

    /// Replays one letter with another body, in one step; gives back the new message's id, or `None`
    /// where the queue has no such letter (any more). Its other fields stay, and it counts as
    /// replayed.
    ///
    /// ```
    /// use rillkit::Stream;
    ///
    /// const JOBS: Stream<u32> = Stream::new("jobs");
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// # let broker = rillkit::Broker::memory().with_handlers([]);
    /// let dlq = broker.dlq(JOBS);
    /// for letter in dlq.list().await?.letters {
    ///     if letter.body::<u32>()? > 100 {
    ///         dlq.edit(letter.id(), &100).await?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Broker::publish`](crate::Broker::publish), and as for [`len`](Self::len).
    pub async fn edit<B>(&self, id: EntryId, body: &B) -> Result<Option<EntryId>, Error>
    where
        S: Target<B>,
        B: Serialize + ?Sized,
    {
        let queue = self.chosen()?;
        let fields = publish::fields(body)?;
        let data = fields.get(wire::DATA).unwrap_or_default();
        queue.replay_as(id, |letter| letter.with_body(data)).await
    }

    /// Replays one letter with exactly these fields in place of its own, in one step: for messages
    /// that have more than a body. Otherwise as [`edit`](Self::edit).
    ///
    /// # Errors
    ///
    /// As for [`edit`](Self::edit); no fields at all are refused.
    pub async fn edit_fields<N: Into<Vec<u8>>, V: Into<Vec<u8>>>(
        &self,
        id: EntryId,
        fields: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Option<EntryId>, Error> {
        let queue = self.chosen()?;
        let fields = fields.into_iter();
        let fields = fields.map(|(name, value)| (name.into(), value.into()));
        let own: Fields = fields.collect();
        queue.replay_as(id, |letter| letter.with_own(&own)).await
    }

    /// Moves letters that other programs wrote to a stream of their own into this queue, each in one
    /// step, so that all the tools can be used for them. An entry is a letter when it says where it was:
    /// with `original_id`. What is known by name becomes what RillKit calls it, and everything else
    /// stays as the message's own:
    ///
    /// | theirs, the first that is there | ours |
    /// | --- | --- |
    /// | `original_id`, `original_message_id` | `x-original-id` |
    /// | `original_stream`, `source_stream`; else this stream | `x-stream` |
    /// | `original_group`, `consumer_group`, `group` | `x-group` |
    /// | `error`, `error_message`, `last_error`, `exception`, `reason` | `x-error` |
    /// | `deliveries`, `delivery_count`, `times_delivered`, `attempts`, `retry_count` | `x-deliveries` |
    /// | `original_consumer`, `consumer` | `x-consumer` |
    /// | `failed_at`, `dead_at`, `moved_at`, in seconds or milliseconds; else when it was written | `x-failed-at` |
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// # let broker = rillkit::Broker::memory().with_handlers([]);
    /// # let theirs = [("original_id", "17-0"), ("error", "bad input"), ("data", "1")];
    /// # broker.publish_fields("jobs:dlq", theirs).await?;
    /// let report = broker.dlq("jobs").import("jobs:dlq").await?;
    /// println!("{} were imported", report.imported);
    /// # assert_eq!(report.imported, 1);
    /// # Ok(()) }
    /// ```
    pub fn import(&self, from: &str) -> Import {
        Import::new(self.chosen(), from)
    }

    fn with(&self, names: BTreeSet<String>) -> Self {
        Self::new(&self.store, self.largest, &self.stream, names)
    }

    fn chosen(&self) -> Result<Queue, Error> {
        let input = |text| Error::new(ErrorKind::Input, text);
        check_name(&self.stream).map_err(|why| input(format!("the name of the stream {why}")))?;
        let mut names = self.names.iter();
        let (Some(name), None) = (names.next(), names.next()) else {
            let names: Vec<_> = self.names.iter().map(|name| format!("`{name}`")).collect();
            return Err(input(format!(
                "`{}` has {} dead-letter queues ({}): say which one with `.queue(\"..\")`",
                self.stream,
                names.len(),
                names.join(", ")
            )));
        };
        check_name(name)
            .map_err(|why| input(format!("the name of the dead-letter queue {why}")))?;
        if *name == self.stream {
            return Err(input(format!(
                "`{name}` is the stream itself: its dead-letter queue has another name"
            )));
        }
        Ok(Queue {
            store: self.store.clone(),
            stream: self.stream.clone(),
            name: name.clone(),
            largest: self.largest,
        })
    }
}

impl<S> Clone for Dlq<S> {
    fn clone(&self) -> Self {
        self.with(self.names.clone())
    }
}

impl<S> fmt::Debug for Dlq<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dlq")
            .field("stream", &self.stream)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}
