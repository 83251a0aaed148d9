//! Markers: for each idempotency key of a group, whether its run is in progress or done. They stand
//! beside the stream and go by themselves: an early end of one means at most that a key runs again.
//!
//! A marker in progress names the delivery that runs, and lasts as long as a lease; whoever has that
//! entry in hand keeps it. A marker that is done is written together with the ack. What is done about
//! a marker is decided in [`once`](crate::once).

use std::sync::Arc;
use std::time::Duration;

use super::{Consumer, Fault, Fenced, Store, Token};
use crate::entry_id::EntryId;

/// A delivery, and the key of its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keyed {
    pub(crate) token: Token,
    pub(crate) key: Arc<str>,
}

/// A key that is done with an ack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) key: Arc<str>,
    /// How long that is known.
    pub(crate) lifetime: Duration,
}

/// What became of marking a key as in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It is marked for this delivery, and the entry touched.
    Marked,
    /// It is in progress for another entry; nothing was changed.
    InProgress(EntryId),
    /// It is done, by a run of this entry; nothing was changed.
    Done(EntryId),
    /// The entry is not pending (any more).
    Gone,
    /// The entry is pending for another consumer, or was handed out again.
    Other,
}

impl Store {
    /// Marks the key as in progress for this delivery, and touches its entry. A marker of an earlier
    /// delivery of the same entry is taken over.
    pub(crate) async fn begin(
        &self,
        consumer: &Consumer,
        keyed: &Keyed,
        lease: Duration,
    ) -> Result<Begun, Fault> {
        match self {
            Self::Redis(it) => it.begin(consumer, keyed, lease).await,
            Self::Memory(it) => it.begin(consumer, keyed, lease),
        }
    }

    /// Touches entries that are still this consumer's, and has their markers last another lease. A
    /// marker that is another entry's by now is left alone. One answer for each.
    pub(crate) async fn keep(
        &self,
        consumer: &Consumer,
        keyed: &[Keyed],
        lease: Duration,
    ) -> Result<Vec<Fenced>, Fault> {
        match self {
            Self::Redis(it) => it.keep(consumer, keyed, lease).await,
            Self::Memory(it) => it.keep(consumer, keyed, lease),
        }
    }

    /// Marks the keys of what is still this consumer's as done for `lifetime`, and acks it, both or
    /// neither. One answer for each.
    pub(crate) async fn finish(
        &self,
        consumer: &Consumer,
        keyed: &[Keyed],
        lifetime: Duration,
    ) -> Result<Vec<Fenced>, Fault> {
        match self {
            Self::Redis(it) => it.finish(consumer, keyed, lifetime).await,
            Self::Memory(it) => it.finish(consumer, keyed, lifetime),
        }
    }

    /// Removes the marker, if it says that this very delivery is in progress.
    pub(crate) async fn abandon(&self, consumer: &Consumer, keyed: &Keyed) -> Result<(), Fault> {
        match self {
            Self::Redis(it) => it.abandon(consumer, keyed).await,
            Self::Memory(it) => it.abandon(consumer, keyed),
        }
    }
}
