//! Tests of RillKit through its public API, and the job that their handlers run.

use std::future::pending;
use std::process::abort;
use std::time::Duration;

use rillkit::{HandlerError, Message};
use serde::{Deserialize, Serialize};

/// A body that says what its handler does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// What the tests call it.
    pub name: String,
    /// The acts of each delivery: `sleep:300+err,ok` sleeps and fails on the first and is fine on every
    /// further one.
    pub does: String,
}

impl Job {
    /// A job of this name that does this.
    pub fn new(name: impl Into<String>, does: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            does: does.into(),
        }
    }

    /// Does what is said for this delivery.
    ///
    /// # Errors
    /// When it says so.
    ///
    /// # Panics
    /// When it says so, or says something unknown.
    pub async fn run(&self, msg: &Message) -> Result<(), HandlerError> {
        let deliveries: Vec<_> = self.does.split(',').collect();
        let number = usize::try_from(msg.deliveries()).expect("a count fits");
        let acts = deliveries[number.min(deliveries.len()) - 1];
        for act in acts.split('+') {
            let (act, ms) = act.split_once(':').unwrap_or((act, "0"));
            let time = Duration::from_millis(ms.parse().expect("a number of milliseconds"));
            match act {
                "ok" => {}
                "err" => return Err("bad input".into()),
                "reject_err" => return Err(HandlerError::reject("no use")),
                "later" => return Err(HandlerError::retry_after(time, "busy")),
                "ack" => msg.ack(),
                "nack" => msg.nack(),
                "reject" => msg.reject("no use"),
                "ack_now" => msg.ack_now().await?,
                "panic" => panic!("oh no"),
                "abort" => abort(),
                "sleep" => tokio::time::sleep(time).await,
                "block" => std::thread::sleep(time),
                "hang" => pending().await,
                unknown => panic!("a job cannot `{unknown}`"),
            }
        }
        Ok(())
    }
}
