//! Letters, a page at a time.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;

use super::filter::Filter;
use super::letter::Letter;
use super::queue::Queue;
use super::walk::{Order, PAGE, Walk};
use crate::entry_id::EntryId;
use crate::error::Error;
use crate::store::Fault;

/// Asks for a page of letters when it is awaited: 100, oldest first, when nothing else is said.
///
/// A page that is not filtered costs the same wherever it is and however many letters there are.
/// With a filter, as much of the queue is read as it takes to fill the page.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rillkit::Error> {
/// # let broker = rillkit::Broker::memory().with_handlers([]);
/// let dlq = broker.dlq("jobs");
/// let mut page = dlq.list().newest_first().count(20).await?;
/// while let Some(id) = page.next {
///     page = dlq.list().newest_first().count(20).after(id).await?;
/// }
/// # Ok(()) }
/// ```
#[must_use = "nothing is asked until this is awaited"]
pub struct List {
    queue: Result<Queue, Error>,
    filter: Filter,
    order: Order,
    after: Option<EntryId>,
    count: usize,
}

/// A page of letters.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The letters, in the order that was asked for.
    pub letters: Vec<Letter>,
    /// What to give to [`List::after`] for the next page; `None` at the end.
    pub next: Option<EntryId>,
}

impl List {
    pub(super) fn new(queue: Result<Queue, Error>) -> Self {
        Self {
            queue,
            filter: Filter::new(),
            order: Order::OldestFirst,
            after: None,
            count: 100,
        }
    }

    /// Only letters that this filter means.
    pub fn matching(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Begins with the newest, and goes back from there.
    pub fn newest_first(mut self) -> Self {
        self.order = Order::NewestFirst;
        self
    }

    /// Begins behind this letter, in the order that was asked for.
    pub fn after(mut self, id: EntryId) -> Self {
        self.after = Some(id);
        self
    }

    /// Up to `count` letters, instead of 100.
    pub fn count(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    async fn run(self) -> Result<Page, Error> {
        let queue = self.queue.as_ref().map_err(Error::clone)?;
        let page = self.page(queue).await;
        page.map_err(|fault| queue.cannot_look(&fault))
    }

    async fn page(&self, queue: &Queue) -> Result<Page, Fault> {
        let mut page = Page::default();
        let Some(last) = self.count.checked_sub(1) else {
            return Ok(page);
        };
        // One more than asked for: so it is known whether there is a next page.
        let wanted = self.count.saturating_add(1);
        let look_at = if self.filter.is_span() {
            PAGE.min(wanted)
        } else {
            PAGE
        };
        let mut walk = Walk::over(queue, &self.filter, self.order, self.after).await?;
        while page.letters.len() < wanted
            && let Some(found) = walk.next(look_at).await?
        {
            page.letters.extend(found.letters);
        }
        if page.letters.len() > self.count {
            page.letters.truncate(self.count);
            page.next = page.letters.get(last).map(Letter::id);
        }
        Ok(page)
    }
}

impl IntoFuture for List {
    type Output = Result<Page, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List")
            .field("queue", &self.queue)
            .field("filter", &self.filter)
            .field("order", &self.order)
            .field("after", &self.after)
            .field("count", &self.count)
            .finish()
    }
}
