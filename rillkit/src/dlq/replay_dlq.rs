//! The replay of all queues of a stream in one call.

use std::collections::BTreeSet;
use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;

use super::queue::Queue;
use super::replay::{Replay, ReplayReport};
use crate::error::Error;
use crate::store::Store;

/// Moves dead letters back to their stream when it is awaited; says how many it moved.
///
/// See [`Broker::replay_dlq`](crate::Broker::replay_dlq).
#[must_use = "nothing is replayed until this is awaited"]
pub struct ReplayDlq {
    store: Store,
    stream: String,
    dlqs: BTreeSet<String>,
    count: usize,
    every_group: bool,
}

impl ReplayDlq {
    pub(crate) fn new(store: &Store, stream: &str, dlqs: BTreeSet<String>) -> Self {
        Self {
            store: store.clone(),
            stream: stream.to_owned(),
            dlqs,
            count: 100,
            every_group: false,
        }
    }

    /// Moves up to `count` entries, instead of 100.
    pub fn count(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    /// Moves all that are there now.
    pub fn all(self) -> Self {
        self.count(usize::MAX)
    }

    /// Shows replayed entries to every group of the stream, and not only to the one in which each
    /// failed.
    pub fn to_every_group(mut self) -> Self {
        self.every_group = true;
        self
    }

    async fn run(self) -> Result<usize, Error> {
        // Where one queue is in another slot, nothing is moved from the others either.
        for dlq in &self.dlqs {
            let together = self.store.together(&self.stream, dlq);
            together.map_err(|fault| {
                let what = format!("replaying to `{}` failed", self.stream);
                Error::from_fault(&fault, &what)
            })?;
        }
        let mut report = ReplayReport::default();
        for dlq in &self.dlqs {
            let queue = Queue {
                store: self.store.clone(),
                stream: self.stream.clone(),
                name: dlq.clone(),
                largest: usize::MAX,
            };
            let mut replay = Replay::new(Ok(queue)).count(self.count);
            if self.every_group {
                replay = replay.to_every_group();
            }
            replay.run_into(&mut report).await?;
        }
        Ok(usize::try_from(report.moved).unwrap_or(usize::MAX))
    }
}

impl IntoFuture for ReplayDlq {
    type Output = Result<usize, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for ReplayDlq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayDlq")
            .field("stream", &self.stream)
            .field("dlqs", &self.dlqs)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}
