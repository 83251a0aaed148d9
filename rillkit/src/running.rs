//! The handlers that a broker has started: to stop them, or to wait until their work is done.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::entry_id::EntryId;
use crate::error::Error;
use crate::health::Health;
use crate::post::Post;
use crate::store::{Consumer, Fault};

/// The running handlers of a [`Broker`](crate::Broker). When it is dropped they stop by themselves, in the
/// background; [`stop`](Self::stop) waits for it.
#[derive(Debug)]
pub struct Running {
    posts: Vec<Arc<Post>>,
    stop: watch::Sender<bool>,
    workers: Vec<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn new(
        posts: Vec<Arc<Post>>,
        stop: watch::Sender<bool>,
        workers: Vec<JoinHandle<()>>,
    ) -> Self {
        Self {
            posts,
            stop,
            workers,
        }
    }

    #[cfg(test)]
    pub(crate) fn post(&self, at: usize) -> &Arc<Post> {
        &self.posts[at]
    }

    /// How these handlers are. Cheap, and nothing is sent: see [`Health`] for an endpoint made of
    /// it.
    #[must_use]
    pub fn health(&self) -> Health {
        Health::of(self.posts.iter().map(|post| &**post))
    }

    /// Stops gracefully: no new messages, running handlers may end within the grace period, and
    /// what was read but not started, or waits for a retry, is handed back to the group. Once this
    /// returns, no handler runs and nothing is sent to the server; but for messages that this broker
    /// has [delayed](crate::Publish::delay), which it goes on to add while it lives.
    ///
    /// A server that does not answer holds it up by two and a half seconds beyond the grace period at
    /// most. What could not be handed back by then, others take over when its lease has ended.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        for worker in self.workers {
            // It lets no panic out, and ends before this only with its runtime.
            let _ = worker.await;
        }
    }

    /// Waits until the groups of the running handlers have read everything, nothing is pending, and
    /// none of these handlers runs: every message has been handled, or dead-lettered. For tests,
    /// and for jobs that end when their work is done.
    ///
    /// What handlers publish to each other's streams is waited for as well, and nothing that is
    /// [delayed](crate::Publish::delay).
    ///
    /// ```
    /// use rillkit::{Broker, handlers, subscribe};
    ///
    /// #[subscribe(stream = "jobs", group = "workers")]
    /// async fn run_job(_job: String) {}
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// let broker = Broker::memory().with_handlers(handlers![run_job]);
    /// let running = broker.start().await?;
    /// broker.publish("jobs", "a body").await?;
    /// running.drained().await?;
    /// running.stop().await;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// When the server cannot be asked.
    pub async fn drained(&self) -> Result<(), Error> {
        let failed =
            |fault: Fault| Error::from_fault(&fault, "asking whether everything is handled failed");
        let mut before = None;
        loop {
            let mut ends = Vec::with_capacity(self.posts.len());
            for post in &self.posts {
                ends.push(drained_to(post).await.map_err(failed)?);
            }
            // A handler may have published to a stream that had been looked at; nobody has when
            // two looks at all of them find the same.
            if before.as_ref() == Some(&ends) {
                return Ok(());
            }
            before = Some(ends);
        }
    }
}

/// Waits until nothing of this post is left to do; the last id that was handed out then.
async fn drained_to(post: &Post) -> Result<EntryId, Fault> {
    let mut wait = Duration::from_millis(1);
    loop {
        let end = end_if_drained(post).await?;
        // In this order: what has acked and is no longer pending may still run.
        if let Some(end) = end.filter(|_| !post.is_running()) {
            return Ok(end);
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(Duration::from_millis(100));
    }
}

/// The last id that the group was handed, if it has read everything and nothing is pending.
async fn end_if_drained(post: &Post) -> Result<Option<EntryId>, Fault> {
    let Consumer { stream, group, .. } = post.consumer;
    let groups = post.store.groups(stream).await?;
    let Some((_, end)) = groups.into_iter().find(|(name, _)| name == group) else {
        return Ok(None);
    };
    let unread = post.store.range(stream, end.after(), EntryId::MAX, 1);
    let drained = unread.await?.is_empty() && post.store.summary(stream, group).await?.pending == 0;
    Ok(drained.then_some(end))
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::body::Undecodable;
    use crate::broker::Broker;
    use crate::message::Message;
    use crate::outcome::Outcome;
    use crate::policy::AckPolicy;
    use crate::subscription::{HandlerFuture, Subscription};

    fn takes_ten_seconds(_: &Message) -> Result<HandlerFuture, Undecodable> {
        Ok(Box::pin(async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Outcome::Done
        }))
    }

    static ACKED_FIRST: Subscription =
        Subscription::new("slow", "app", file!(), line!(), "s", "g", takes_ten_seconds)
            .ack_policy(AckPolicy::AckFirst)
            .check();

    #[tokio::test(start_paused = true)]
    async fn a_run_that_is_acked_already_is_waited_for() {
        let broker = Broker::memory().with_handlers([&ACKED_FIRST]);
        let running = broker.start().await.unwrap();
        let began = Instant::now();
        broker.publish("s", "a body").await.unwrap();
        running.drained().await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 10);
    }
}
