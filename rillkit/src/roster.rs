//! What running workers say about themselves, beside their stream: a row for each, for people and
//! for `rillkit check`. No worker decides anything by it, and losing it costs nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::inspect::{ms, optional_ms};
use crate::post::Post;
use crate::store::FaultClass;

/// How often a row is written anew. Jitter is added, so that workers do not write together.
const EVERY: Duration = Duration::from_secs(60);

/// What one running handler says about itself, written when it starts and about once a minute.
///
/// The settings have the names of the attribute's keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// The group that it reads for.
    pub group: String,
    /// Its name in that group.
    pub consumer: String,
    /// The function with its module.
    pub handler: String,
    /// Runs after the first; `None` is for ever.
    pub max_retries: Option<u32>,
    /// The lease.
    #[serde(rename = "claim_idle_ms", with = "ms")]
    pub claim_idle: Duration,
    /// The growth of the delay with each delivery.
    pub backoff: f64,
    /// The longest delay.
    #[serde(rename = "max_backoff_ms", with = "ms")]
    pub max_backoff: Duration,
    /// The share that is added to a delay at random.
    pub jitter: f64,
    /// When a message is acked: `nack_on_error`, ...
    pub ack_policy: String,
    /// Messages handled at once.
    pub concurrency: u32,
    /// The longest run, where there is one.
    #[serde(default, rename = "timeout_ms", with = "optional_ms")]
    pub timeout: Option<Duration>,
    /// The dead-letter stream.
    pub dlq: String,
    /// The version of RillKit.
    pub version: String,
    /// How long a run takes, of those that had to wait for something; the newest count most.
    #[serde(default, rename = "usual_run_ms", with = "optional_ms")]
    pub usual_run: Option<Duration>,
    /// The longest run that ended in the minute before.
    #[serde(default, rename = "longest_run_ms", with = "optional_ms")]
    pub longest_run: Option<Duration>,
    /// When this was written, by the worker's clock: milliseconds since 1970. A living worker writes
    /// about once a minute.
    pub noted_at: u64,
}

impl WorkerInfo {
    /// What is to be said now.
    pub(crate) fn of(post: &Post) -> Self {
        let policy = post.policy();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let runs = post.pulse.take_runs();
        Self {
            group: post.consumer.group.to_owned(),
            consumer: post.consumer.name.to_string(),
            handler: post.subscription.path(),
            max_retries: policy.max_retries,
            claim_idle: policy.lease(),
            backoff: policy.backoff_factor(),
            max_backoff: policy.max_backoff(),
            jitter: policy.jitter_share(),
            ack_policy: policy.ack_policy.name().to_owned(),
            concurrency: policy.concurrency,
            timeout: policy.timeout(),
            dlq: post.dlq.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            usual_run: runs.usual,
            longest_run: runs.longest,
            noted_at: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// A row that another version wrote, and that cannot be read, is left out.
    pub(crate) fn read(row: &[u8]) -> Option<Self> {
        serde_json::from_slice(row).ok()
    }

    fn written(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Writes a worker's row now and then.
#[derive(Debug)]
pub(crate) struct Roster {
    due: Option<Instant>,
}

impl Roster {
    /// The first row is due at once.
    pub(crate) fn new() -> Self {
        Self {
            due: Some(Instant::now()),
        }
    }

    /// Writes the row if it is time. Whoever may not write it is not asked again.
    pub(crate) async fn note(&mut self, post: &Post) {
        let now = Instant::now();
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        let row = WorkerInfo::of(post).written();
        self.due = match post.store.note_worker(&post.consumer, &row).await {
            Err(fault) if fault.class == FaultClass::Config => None,
            _ => Some(now + EVERY.mul_f64(1.0 + fastrand::f64() / 2.0)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Undecodable;
    use crate::broker::Broker;
    use crate::message::Message;
    use crate::outcome::Outcome;
    use crate::subscription::{HandlerFuture, Subscription};

    fn takes_ten_seconds(_: &Message) -> Result<HandlerFuture, Undecodable> {
        Ok(Box::pin(async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Outcome::Done
        }))
    }

    static HANDLER: Subscription =
        Subscription::new("slow", "app", file!(), line!(), "s", "g", takes_ten_seconds)
            .max_retries(2)
            .claim_idle_ms(300)
            .backoff(2.0)
            .timeout_ms(60_000)
            .check();

    #[tokio::test(start_paused = true)]
    async fn a_running_worker_tells_its_settings_and_how_long_runs_take() {
        let broker = Broker::memory().with_handlers([&HANDLER]);
        let workers = async || broker.inspect("s").workers().await.unwrap();
        let running = broker.start().await.unwrap();
        while workers().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let first = workers().await.remove(0);
        let told = (first.group.as_str(), first.handler.as_str(), &*first.dlq);
        assert_eq!(told, ("g", "app::slow", "s-dlq"));
        let ms = Duration::from_millis;
        assert_eq!((first.max_retries, first.backoff), (Some(2), 2.0));
        assert_eq!(first.claim_idle, ms(300));
        assert_eq!(first.max_backoff, ms(900_000));
        assert_eq!(first.timeout, Some(ms(60_000)));
        assert_eq!((first.usual_run, first.longest_run), (None, None));

        broker.publish("s", "a body").await.unwrap();
        tokio::time::sleep(2 * EVERY).await;
        let later = workers().await.remove(0);
        let run = later.usual_run.unwrap();
        assert!(run >= ms(10_000) && run < ms(11_000), "{run:?}");
        let alike = WorkerInfo {
            usual_run: None,
            longest_run: None,
            noted_at: first.noted_at,
            ..later
        };
        assert_eq!(alike, first);
        running.stop().await;
        assert_eq!(workers().await, []);
    }

    #[test]
    fn what_another_version_wrote_is_read_where_it_can_be() {
        let row = r#"{"group":"g","consumer":"c","handler":"a::b","max_retries":null,"claim_idle_ms":300,
            "backoff":1.5,"max_backoff_ms":900000,"jitter":0.0,"ack_policy":"manual","concurrency":4,
            "dlq":"s-dlq","version":"9.0.0","noted_at":1,"something_new":true}"#;
        let read = WorkerInfo::read(row.as_bytes()).unwrap();
        assert_eq!((read.max_retries, read.timeout), (None, None));
        assert_eq!(WorkerInfo::read(read.written().as_bytes()), Some(read));
        assert_eq!(WorkerInfo::read(b"{}"), None);
    }
}
