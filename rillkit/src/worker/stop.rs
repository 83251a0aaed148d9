//! Ends a worker in order, and gives back what it does not run.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Worker;
use crate::entry_id::EntryId;
use crate::log;
use crate::message::Message;
use crate::settle::LONG_AGO;
use crate::store::{Return, Token};

/// How long the last steps of a stop may take beyond the grace period.
const LAST_STEPS: Duration = Duration::from_secs(2);

/// What a stop waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drained {
    /// Running handlers.
    Handlers,
    /// These, and every step that follows.
    Everything,
}

impl Worker {
    /// Gives back what stands ready behind slow handlers: other workers may have a slot for it.
    pub(super) fn return_ready(&mut self) {
        self.stalled_since = None;
        self.gave_back = true;
        for message in std::mem::take(&mut self.ready) {
            self.return_unstarted(&message);
        }
    }

    /// Without retries nothing is held unstarted: if this process died now, it would be dead unrun.
    /// Claims may have taken the slots for which a read had been sent before.
    pub(super) fn return_what_cannot_start(&mut self) {
        if self.post.policy().max_retries == Some(0) {
            while self.ready.len() > self.free {
                if let Some(message) = self.ready.pop_back() {
                    self.return_unstarted(&message);
                }
            }
        }
    }

    /// Gives back an entry whose delivery counts for nothing.
    pub(super) fn return_unstarted(&mut self, message: &Message) {
        self.return_uncharged(message.id());
    }

    pub(super) fn return_uncharged(&mut self, id: EntryId) {
        if let Some(token) = self.post.hand.token(id) {
            let idle = LONG_AGO.max(self.post.policy().delay(token.deliveries));
            self.returns.push(Return {
                token,
                deliveries: token.deliveries.saturating_sub(1),
                idle,
            });
        }
    }

    /// Ends in order: no new reads, running handlers end within the grace period, the rest is
    /// handed back, and what was decided is settled.
    pub(crate) async fn wind_down(&mut self, grace: Duration) {
        let end = Instant::now() + grace;
        self.stopping = true;
        self.post.pulse.stops();
        self.crew.stop();
        self.overdue.clear();
        for message in std::mem::take(&mut self.ready)
            .into_iter()
            .chain(self.waiting.drain())
        {
            self.return_unstarted(&message);
        }
        if timeout_at(end, self.drain(Drained::Handlers))
            .await
            .is_err()
        {
            for run in self.running.values() {
                run.abort();
            }
        }
        let last = Instant::now() + LAST_STEPS;
        if timeout_at(last, self.drain(Drained::Everything))
            .await
            .is_err()
        {
            self.post.give_up();
            // Steps that wait for the server end now; a handler that blocks its thread does not.
            let _ = timeout_at(last + LAST_STEPS / 4, self.drain(Drained::Everything)).await;
        }
        self.flush();
        self.settler.close();
        if timeout_at(last, &mut self.settling).await.is_err() {
            self.post.give_up();
        }
        self.lease = None;
        let forgotten = self.post.store.forget_worker(&self.post.consumer);
        let _ = timeout_at(last, forgotten).await;
        if !self.post.has_given_name() {
            let removed = self
                .post
                .store
                .remove_consumer(&self.post.consumer, Duration::ZERO);
            let _ = timeout_at(last, removed).await;
        }
        self.crew.halt();
        self.post.give_up();
        log::stopped(&self.post.consumer);
    }

    /// Works off what is under way until nothing of it is left. Dropping it loses nothing.
    async fn drain(&mut self, drained: Drained) {
        loop {
            for (due, token) in self.retries.drain() {
                self.return_waiting(due, token);
            }
            self.flush();
            let done = match drained {
                Drained::Handlers => self.running.is_empty(),
                Drained::Everything => {
                    self.running.is_empty()
                        && self.steps == 0
                        && self.letters.is_empty()
                        && self.commits.is_empty()
                        && self.crew.reads_no_more()
                }
            };
            if done {
                // What was sent before is worked off first.
                match self.events.try_recv() {
                    Ok(event) => self.on(event),
                    Err(_) => return,
                }
                continue;
            }
            // The intake's task ends a moment after its last event.
            if let Ok(Some(event)) =
                tokio::time::timeout(Duration::from_millis(20), self.events.recv()).await
            {
                self.on(event);
            }
        }
    }

    /// Gives back what waits for a retry, so that it is due for others when it was for us.
    fn return_waiting(&mut self, due: Instant, token: Token) {
        let left = due.saturating_duration_since(Instant::now());
        let idle = self
            .post
            .policy()
            .delay(token.deliveries)
            .saturating_sub(left);
        self.returns.push(Return {
            token,
            deliveries: token.deliveries,
            idle,
        });
    }
}
