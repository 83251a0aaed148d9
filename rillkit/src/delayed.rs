//! Messages that wait for their time: their names, and what a look at them finds.

use std::fmt;
use std::future::IntoFuture;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::time::SystemTime;

use crate::error::Error;
use crate::fields::Fields;
use crate::store::{Store, Waiting};

/// Names a message that was delayed: by it the message is found and cancelled. It is the
/// [`id`](crate::Publish::id) that was given, or else one made up.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DelayedId(String);

impl DelayedId {
    pub(crate) fn given(id: &str) -> Self {
        Self(id.to_owned())
    }

    /// One that nobody else makes up: 128 bits of chance.
    pub(crate) fn made_up() -> Self {
        let chance = || RandomState::new().build_hasher().finish();
        Self(format!("{:016x}{:016x}", chance(), chance()))
    }

    /// As it is written in Redis.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for DelayedId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DelayedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<DelayedId> for String {
    fn from(id: DelayedId) -> Self {
        id.0
    }
}

/// A message that waits for its time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DelayedMessage {
    /// Its name, for [`Broker::cancel_delayed`](crate::Broker::cancel_delayed).
    pub id: DelayedId,
    /// When it is added to its stream, by the server's clock.
    pub due: SystemTime,
    /// What it holds: the body in `data`, headers, and its id in `rk-id` where one was given.
    pub fields: Fields,
}

/// Some of the messages that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DelayedPage {
    /// How many wait for the stream in all.
    pub total: u64,
    /// These, the soonest first.
    pub messages: Vec<DelayedMessage>,
}

/// A look at the messages that wait for a stream; awaiting it asks.
///
/// See [`Broker::delayed`](crate::Broker::delayed).
#[derive(Debug)]
#[must_use = "nothing is asked until this is awaited"]
pub struct ListDelayed {
    store: Store,
    stream: String,
    count: usize,
    after: Option<(SystemTime, DelayedId)>,
}

/// Messages in a page, when nothing else is said.
const COUNT: usize = 100;

impl ListDelayed {
    pub(crate) fn new(store: &Store, stream: &str) -> Self {
        Self {
            store: store.clone(),
            stream: stream.to_owned(),
            count: COUNT,
            after: None,
        }
    }

    /// How many messages it gives back, at most; 100 when nothing is said.
    pub fn count(mut self, count: usize) -> Self {
        self.count = count.max(1);
        self
    }

    /// Goes on behind this message, the last one of the page before. When that one waits no more,
    /// some of the same millisecond may come again; none is passed over.
    pub fn after(mut self, last: &DelayedMessage) -> Self {
        self.after = Some((last.due, last.id.clone()));
        self
    }

    async fn ask(self) -> Result<DelayedPage, Error> {
        let after = self.after.as_ref().map(|(due, id)| (*due, id.as_str()));
        let waiting = self.store.delayed(&self.stream, after, self.count).await;
        let (total, waiting) = waiting.map_err(|fault| {
            let what = format!(
                "asking for the delayed messages of `{}` failed",
                self.stream
            );
            Error::from_fault(&fault, &what)
        })?;
        let message = |Waiting { id, due, fields }| DelayedMessage {
            id: DelayedId(id),
            due,
            fields,
        };
        Ok(DelayedPage {
            total,
            messages: waiting.into_iter().map(message).collect(),
        })
    }
}

impl IntoFuture for ListDelayed {
    type Output = Result<DelayedPage, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.ask())
    }
}
