//! The tools for dead letters: look at them, move them back, work them off in place, delete them.
//!
//! [`Broker::dlq`](crate::Broker::dlq) gives the handle, [`Dlq`]; what each tool does is said at its
//! method. How a message becomes a dead letter is decided in `decide` and done in `settle`.

mod filter;
mod letter;
mod list;
mod moving;
mod pace;
mod progress;
mod purge;
mod queue;
mod replay;
mod replay_dlq;
mod stats;
mod tally;
mod unfinished;
mod walk;
mod watch;

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

pub use self::filter::Filter;
pub use self::letter::Letter;
pub use self::list::{List, Page};
pub use self::purge::{Purge, PurgeReport};
pub use self::replay::{Replay, ReplayReport, Stopped};
pub use self::replay_dlq::ReplayDlq;
pub use self::stats::{DlqStats, Stats};
pub use self::unfinished::Unfinished;

pub(crate) use self::letter::letter;
use self::queue::Queue;
use crate::entry_id::EntryId;
use crate::error::{Error, ErrorKind};
use crate::store::Store;
use crate::subscription::check_name;

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
/// # let broker = rillkit::Broker::memory();
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
    bodies: PhantomData<fn() -> S>,
}

impl<S> Dlq<S> {
    pub(crate) fn new(store: &Store, stream: &str, names: BTreeSet<String>) -> Self {
        Self {
            store: store.clone(),
            stream: stream.to_owned(),
            names,
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
        Self::new(&self.store, &self.stream, BTreeSet::from([name.to_owned()]))
    }

    /// The letters that a [replay](Replay::at_most_replays) has put aside: the queue
    /// `<dlq>-parked`, with the same tools.
    #[must_use]
    pub fn parked(&self) -> Self {
        let parked = |name: &String| format!("{name}{PARKED}");
        let names = self.names.iter().map(parked).collect();
        Self::new(&self.store, &self.stream, names)
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
        })
    }
}

impl<S> Clone for Dlq<S> {
    fn clone(&self) -> Self {
        Self::new(&self.store, &self.stream, self.names.clone())
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
