//! A cluster, a publisher, and the journal of what ran.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rillkit::{Broker, HandlerError, Message, Running, State, Subscription};
use rillkit_servers::Cluster;
use rillkit_tests::Job;

pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    pub(crate) broker: Broker,
    pub(crate) journal: Journal,
}

impl Scene {
    pub(crate) fn new(nodes: usize) -> Self {
        Self::on(Cluster::start(nodes))
    }

    pub(crate) fn on(cluster: Cluster) -> Self {
        Self {
            broker: Broker::connect(&cluster.url()).expect("a good URL"),
            cluster,
            journal: Journal::default(),
        }
    }

    /// Starts a worker with connections of its own.
    pub(crate) async fn start(
        &self,
        handlers: impl IntoIterator<Item = &'static Subscription>,
    ) -> Running {
        let broker = Broker::connect(&self.cluster.url()).expect("a good URL");
        let broker = broker
            .with_handlers(handlers)
            .with_state(self.journal.clone());
        broker.start().await.expect("started")
    }

    pub(crate) async fn publish(&self, stream: &str, name: &str, does: &str) -> String {
        let published = self.broker.publish(stream, &Job::new(name, does)).await;
        published.expect("published").to_string()
    }

    /// Publishes jobs `PREFIX0`, `PREFIX1`, .. in one go.
    pub(crate) async fn publish_many(&self, stream: &str, prefix: &str, count: usize, does: &str) {
        let jobs = jobs(prefix, count, does);
        let published = self.broker.publish_all(stream, &jobs).await;
        assert_eq!(published.expect("published").len(), count);
    }

    /// How many entries are pending, by the word of the node that has the stream.
    pub(crate) fn pending(&self, stream: &str) -> i64 {
        self.cluster
            .command(stream, &["XPENDING", stream, "workers"])[0]
            .int()
    }

    pub(crate) fn length(&self, stream: &str) -> i64 {
        self.cluster.command(stream, &["XLEN", stream]).int()
    }

    /// Waits until everything that was read from the stream is settled.
    pub(crate) async fn settled(&self, stream: &str) {
        until("nothing is pending", || self.pending(stream) == 0).await;
    }
}

pub(crate) fn jobs(prefix: &str, count: usize, does: &str) -> Vec<Job> {
    (0..count)
        .map(|number| Job::new(format!("{prefix}{number}"), does))
        .collect()
}

/// What ran: name and delivery, in the order of the starts.
#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<(String, u64)>>>);

impl Journal {
    /// The delivery numbers of one job's runs.
    pub(crate) fn deliveries(&self, name: &str) -> Vec<u64> {
        let runs = self.runs();
        let of_it = runs.iter().filter(|(known, _)| known == name);
        of_it.map(|(_, delivery)| *delivery).collect()
    }

    /// How many runs there were.
    pub(crate) fn len(&self) -> usize {
        self.runs().len()
    }

    /// Whether all of the jobs `PREFIX0`.. have begun.
    pub(crate) fn has_run(&self, prefix: &str, count: usize) -> bool {
        let runs = self.runs();
        let begun: HashSet<_> = runs.iter().map(|(name, _)| name.as_str()).collect();
        (0..count).all(|number| begun.contains(format!("{prefix}{number}").as_str()))
    }

    /// Every one of the jobs `PREFIX0`.. ran once, as delivery 1.
    #[track_caller]
    pub(crate) fn assert_once_each(&self, prefix: &str, count: usize) {
        for number in 0..count {
            let name = format!("{prefix}{number}");
            assert_eq!(self.deliveries(&name), [1], "{name}");
        }
    }

    fn runs(&self) -> MutexGuard<'_, Vec<(String, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a job and notes it.
pub(crate) async fn act(
    job: Job,
    msg: Message,
    journal: State<Journal>,
) -> Result<(), HandlerError> {
    journal.runs().push((job.name.clone(), msg.deliveries()));
    job.run(&msg).await
}

#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let (what, place) = (what.to_owned(), std::panic::Location::caller());
    async move {
        let began = Instant::now();
        while !condition() {
            let waited = began.elapsed();
            assert!(
                waited < Duration::from_secs(40),
                "waited {waited:?} in vain until {what}, at {place}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
