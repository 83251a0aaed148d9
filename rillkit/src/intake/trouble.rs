//! What keeps a worker from reading, and for how long: when to say so, and when to try again.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::log;
use crate::post::Post;
use crate::store::{Fault, FaultClass};

/// What has gone wrong since the last good read: logged once for each change, then at growing
/// intervals.
pub(super) struct Trouble {
    since: Option<Instant>,
    text: String,
    log_next: Duration,
    backoff: Backoff,
}

impl Trouble {
    pub(super) fn none() -> Self {
        Self {
            since: None,
            text: String::new(),
            log_next: Duration::ZERO,
            backoff: Backoff::short(),
        }
    }

    pub(super) fn is_going_on(&self) -> bool {
        self.since.is_some()
    }

    pub(super) fn begin(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// Notes a fault; how long to wait before the next try.
    pub(super) fn note(&mut self, post: &Post, fault: &Fault) -> Duration {
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
            log::trouble(&post.consumer, fault);
        }
        self.backoff.wait()
    }

    /// A read was answered.
    pub(super) fn over(&mut self, post: &Post) {
        if let Some(since) = self.since.take() {
            log::recovered(&post.consumer, since.elapsed());
            post.pulse.can_read();
            self.text.clear();
            self.log_next = Duration::ZERO;
            self.backoff = Backoff::short();
        }
    }
}
