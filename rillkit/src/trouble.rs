//! What keeps a loop from its work, and for how long: when to say so, and when to try again.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::store::{Fault, FaultClass};

/// What has gone wrong since all was well: logged once for each change, then at growing intervals.
#[derive(Debug)]
pub(crate) struct Trouble {
    since: Option<Instant>,
    text: String,
    log_next: Duration,
    backoff: Backoff,
}

impl Trouble {
    pub(crate) fn none() -> Self {
        Self {
            since: None,
            text: String::new(),
            log_next: Duration::ZERO,
            backoff: Backoff::short(),
        }
    }

    pub(crate) fn is_going_on(&self) -> bool {
        self.since.is_some()
    }

    pub(crate) fn begin(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// Notes a fault, and logs it when it is time to; how long to wait before the next try.
    pub(crate) fn note(&mut self, fault: &Fault, log: impl FnOnce(&Fault)) -> Duration {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        let lasting = now.duration_since(since);
        if self.text != fault.text || lasting >= self.log_next {
            if self.text != fault.text {
                self.backoff = if fault.class == FaultClass::Config {
                    Backoff::slow()
                } else {
                    Backoff::short()
                };
                self.text.clone_from(&fault.text);
            }
            self.log_next = (lasting * 2).max(Duration::from_secs(10));
            log(fault);
        }
        self.backoff.wait()
    }

    /// All is well again; after how long, if it was not.
    pub(crate) fn over(&mut self) -> Option<Duration> {
        let since = self.since.take()?;
        *self = Self::none();
        Some(since.elapsed())
    }
}
