//! Messages that wait for their time: kept beside their stream, and added to it when they are due.

use std::time::{Duration, SystemTime};

use super::{Fault, Store};
use crate::fields::Fields;
use crate::trim::Trim;

/// When a message is due, by the server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    In(Duration),
    At(SystemTime),
}

/// What a message is kept with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Later {
    pub(crate) id: String,
    pub(crate) due: Due,
    /// How long its id is known after it was added; nothing where nobody could repeat it.
    pub(crate) remembered: Option<Duration>,
    /// What goes from the stream when it is added.
    pub(crate) trim: Option<Trim>,
}

/// One message that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) id: String,
    pub(crate) due: SystemTime,
    pub(crate) fields: Fields,
}

/// What a promotion did, and what it saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Promotion {
    /// How many messages were added.
    pub(crate) added: u64,
    /// The ids of messages that are lost: somebody deleted what they hold.
    pub(crate) lost: Vec<String>,
    /// What is due soon, and in how long, the soonest first.
    pub(crate) upcoming: Vec<(String, Duration)>,
}

/// How far ahead a promotion looks.
pub(crate) const HORIZON: Duration = Duration::from_secs(3);
/// How many messages it names, at most.
pub(crate) const UPCOMING: usize = 25;

impl Store {
    /// Keeps a message until it is due. One of that id that waits already, or was added within the
    /// time that this is known, stays as it is. Answers in how long it is due, or nothing when it
    /// was added before.
    pub(crate) async fn publish_later(
        &self,
        stream: &str,
        fields: &Fields,
        later: &Later,
    ) -> Result<Option<Duration>, Fault> {
        match self {
            Self::Redis(it) => it.publish_later(stream, fields, later).await,
            Self::Memory(it) => it.publish_later(stream, fields, later).await,
        }
    }

    /// Adds those of these messages that are due and were not added under their id before; in one
    /// step they leave what waits. Then it looks [`HORIZON`] ahead.
    pub(crate) async fn promote(&self, stream: &str, ids: &[String]) -> Result<Promotion, Fault> {
        match self {
            Self::Redis(it) => it.promote(stream, ids).await,
            Self::Memory(it) => it.promote(stream, ids).await,
        }
    }

    /// Whether a message waits for this stream.
    pub(crate) async fn has_delayed(&self, stream: &str) -> Result<bool, Fault> {
        match self {
            Self::Redis(it) => it.has_delayed(stream).await,
            Self::Memory(it) => it.has_delayed(stream).await,
        }
    }

    /// Takes a message away before it is added; whether it waited.
    pub(crate) async fn cancel_delayed(&self, stream: &str, id: &str) -> Result<bool, Fault> {
        match self {
            Self::Redis(it) => it.cancel_delayed(stream, id).await,
            Self::Memory(it) => it.cancel_delayed(stream, id).await,
        }
    }

    /// How many messages wait, and up to `count` of them by the time when they are due, behind the
    /// one that was due then and has this id. When that one waits no more, some that are due with
    /// it may come again; none is passed over.
    pub(crate) async fn delayed(
        &self,
        stream: &str,
        after: Option<(SystemTime, &str)>,
        count: usize,
    ) -> Result<(u64, Vec<Waiting>), Fault> {
        match self {
            Self::Redis(it) => it.delayed(stream, after, count).await,
            Self::Memory(it) => it.delayed(stream, after, count).await,
        }
    }
}
