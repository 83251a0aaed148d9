//! Reads of new entries for one consumer: their order, how they wait, and how they are ended early.
//!
//! What they are handed is decided in `group`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::MemoryStore;
use crate::store::{Consumer, Entry, Fault};

/// The reads of one consumer. As on a connection of its own, they are answered one after another,
/// and the block time of each begins when the one before it has been answered.
#[derive(Debug)]
pub(crate) struct MemoryReader {
    store: MemoryStore,
    consumer: Consumer,
    line: Arc<Line>,
}

/// Where the reads of one reader stand in line.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Fair: who comes first goes first.
    turns: tokio::sync::Mutex<()>,
    /// Keeps one wake-up for a read that is about to wait; only the read whose turn it is waits.
    woken: Notify,
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    /// Reads that were issued and are not done.
    open: usize,
    /// One of the open reads is to end where it would wait.
    interrupted: bool,
}

/// An open read: from the call of `read` until its future is done or dropped.
struct Call(Arc<Line>);

impl MemoryReader {
    pub(super) fn new(store: MemoryStore, consumer: Consumer, line: Arc<Line>) -> Self {
        Self {
            store,
            consumer,
            line,
        }
    }

    /// A future that is dropped while it waits was handed nothing.
    pub(crate) fn read(
        &self,
        count: usize,
        block: Option<Duration>,
    ) -> impl Future<Output = Result<Vec<Entry>, Fault>> + Send + 'static {
        let call = Call::new(&self.line);
        let store = self.store.clone();
        let consumer = self.consumer.clone();
        async move {
            let line = &call.0;
            // Without the budget of the task: a read whose first poll comes when that is used up
            // would not get in line, and one polled after it would overtake it.
            let _turn = tokio::task::unconstrained(line.turns.lock()).await;
            let started = Instant::now();
            loop {
                let entries = store.hand_out(&consumer, count)?;
                let Some(block) = block.filter(|_| entries.is_empty()) else {
                    return Ok(entries);
                };
                let left = block.saturating_sub(started.elapsed());
                if line.take_interrupt() || timeout(left, line.woken.notified()).await.is_err() {
                    return Ok(entries);
                }
            }
        }
    }

    /// Ends one read: the one that waits, or else the first that would wait of those that are
    /// open. Where none is open it does nothing, and a read that is issued when all of them are
    /// done is not affected.
    pub(crate) async fn interrupt(&self) -> Result<(), Fault> {
        let mut calls = self.line.calls();
        if calls.open > 0 {
            calls.interrupted = true;
            self.line.wake();
        }
        Ok(())
    }
}

impl Line {
    /// Has the read that waits, or the next that would, look again.
    pub(super) fn wake(&self) {
        self.woken.notify_one();
    }

    fn take_interrupt(&self) -> bool {
        std::mem::take(&mut self.calls().interrupted)
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    fn new(line: &Arc<Line>) -> Self {
        line.calls().open += 1;
        Self(Arc::clone(line))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut calls = self.0.calls();
        calls.open -= 1;
        if calls.open == 0 {
            calls.interrupted = false;
        }
    }
}
