//! How many entries may be read: granted by the worker, used by the intake.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Credit as a running total, so that a grant and an arrival that cross each other cannot count
/// one place twice.
#[derive(Debug)]
pub(crate) struct Demand {
    /// Entries that may be read since the start, all told.
    limit: AtomicU64,
    /// How many are worth a read of their own while others are under way.
    step: AtomicUsize,
    stopped: AtomicBool,
    changed: Notify,
}

/// The largest read. From a few hundred on the cost of a read is spread thin enough.
pub(crate) const LARGEST_READ: usize = 500;

impl Demand {
    pub(crate) fn new() -> Self {
        Self {
            limit: AtomicU64::new(0),
            step: AtomicUsize::new(1),
            stopped: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// Lets `limit` entries be read since the start; `window` is the most that is held at a time.
    pub(crate) fn grant(&self, limit: u64, window: usize) {
        self.step
            .store((window / 3).clamp(1, LARGEST_READ), Ordering::Relaxed);
        if limit > self.limit.swap(limit, Ordering::AcqRel) {
            self.changed.notify_one();
        }
    }

    /// No more is read.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// How many to ask for now, when `asked` were asked for since the start and `waiting` reads are
    /// under way; zero when it is not worth a read.
    pub(crate) fn next_read(&self, asked: u64, waiting: usize) -> usize {
        let credit = self.limit.load(Ordering::Acquire).saturating_sub(asked);
        let credit = usize::try_from(credit).unwrap_or(usize::MAX);
        let least = if waiting == 0 {
            1
        } else {
            self.step.load(Ordering::Relaxed)
        };
        if credit < least {
            0
        } else {
            credit.min(LARGEST_READ)
        }
    }

    /// Waits until more is granted, or no more is read.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_use_the_credit_and_no_more() {
        let demand = Demand::new();
        assert_eq!(demand.next_read(0, 0), 0);
        demand.grant(1, 1);
        assert_eq!(demand.next_read(0, 0), 1);
        assert_eq!(demand.next_read(1, 0), 0);
        demand.grant(1501, 1501);
        assert_eq!(demand.next_read(1, 0), LARGEST_READ);
        assert_eq!(demand.next_read(1001, 2), LARGEST_READ);
        assert_eq!(demand.next_read(1400, 2), 0);
        assert_eq!(demand.next_read(1400, 0), 101);
    }
}
