//! A worker of one stream, and what its handler saw.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rillkit::{Broker, Error, Message, Running, State, handlers, subscribe};
use rillkit_servers::Reply;
use tokio::time::Instant;

/// The names of the jobs that ran, with the number of their delivery.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<(String, u64)>>>);

impl Seen {
    pub(crate) fn all(&self) -> Vec<(String, u64)> {
        self.0.lock().expect("never poisoned").clone()
    }

    pub(crate) fn note(&self, name: &str, delivery: u64) {
        let mut seen = self.0.lock().expect("never poisoned");
        seen.push((name.to_owned(), delivery));
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.all().iter().any(|(seen, _)| seen == name)
    }
}

/// A job called `long` runs until the worker stops.
#[subscribe(
    stream = "jobs",
    group = "workers",
    claim_idle_ms = 3000,
    block_ms = 500,
    concurrency = 2
)]
async fn run_job(name: String, msg: Message, seen: State<Seen>) {
    seen.note(&name, msg.deliveries());
    if name == "long" {
        std::future::pending::<()>().await;
    }
}

/// A broker with the handler.
pub(crate) fn worker(broker: Result<Broker, Error>, seen: &Seen) -> Broker {
    broker
        .expect("a good server")
        .with_handlers(handlers![run_job])
        .with_state(seen.clone())
        .grace(Duration::ZERO)
}

/// Starts it, which must not take for ever.
pub(crate) async fn start(broker: &Broker) -> Result<Running, Error> {
    tokio::time::timeout(Duration::from_secs(25), broker.start())
        .await
        .expect("a start or an error within 25 seconds")
}

/// Publishes a job and awaits its run.
pub(crate) async fn handled(broker: &Broker, seen: &Seen, name: &str) {
    broker.publish("jobs", name).await.expect("published");
    until("the message is handled", || seen.has(name)).await;
}

/// Publishes a job for as long as that surely failed: the connection may be of yesterday.
pub(crate) async fn handled_after_all(broker: &Broker, seen: &Seen, name: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while let Err(error) = broker.publish("jobs", name).await {
        assert!(Instant::now() < deadline, "still not published: {error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    until("the message is handled", || seen.has(name)).await;
}

/// How many connections a server has, without the one that asks.
pub(crate) fn connections(list: &Reply) -> usize {
    let normal = |line: &&str| {
        line.contains("flags=N") && line.contains("cmd=") && !line.contains("cmd=client|list")
    };
    list.text().lines().filter(normal).count()
}

/// Awaits a condition.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let (what, place) = (what.to_owned(), std::panic::Location::caller());
    async move {
        let began = Instant::now();
        while !condition() {
            let waited = began.elapsed();
            assert!(
                waited < Duration::from_secs(60),
                "waited {waited:?} in vain until {what}, at {place}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
