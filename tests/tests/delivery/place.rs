//! Where a test runs: a store of its own, and the journal of what ran there.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rillkit::{Broker, HandlerError, Message, State, Subscription, handlers, subscribe};
use rillkit_servers::{Client, Reply, Server};
use rillkit_tests::Job;
use tokio::time::Instant;

/// The server of every test that does not disturb it; each has a database of its own.
static SERVER: LazyLock<Server> = LazyLock::new(|| Server::with(&["--databases", "1000"]));
static PLACES: AtomicU32 = AtomicU32::new(0);

/// One test's store.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) broker: Broker,
    pub(crate) journal: Journal,
    letters: Letters,
    client: Option<Mutex<Client>>,
}

/// The fields of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Letter(pub(crate) Vec<(Vec<u8>, Vec<u8>)>);

impl Letter {
    #[track_caller]
    pub(crate) fn get(&self, name: &str) -> String {
        let field = self.0.iter().find(|(known, _)| known == name.as_bytes());
        let (_, value) = field.unwrap_or_else(|| panic!("no field `{name}` in {self:?}"));
        String::from_utf8(value.clone()).expect("text")
    }

    /// The name of the dead job.
    #[track_caller]
    pub(crate) fn job(&self) -> String {
        let job: Job = serde_json::from_str(&self.get("data")).expect("a job");
        job.name
    }
}

#[derive(Clone, Default)]
struct Letters(Arc<Mutex<Vec<Letter>>>);

#[subscribe(stream = "dead", group = "lookers")]
async fn look_at_dead(msg: Message, letters: State<Letters>) {
    keep(&msg, &letters);
}

#[subscribe(stream = "jobs-dlq", group = "lookers")]
async fn look_at_dead_jobs(msg: Message, letters: State<Letters>) {
    keep(&msg, &letters);
}

fn keep(msg: &Message, letters: &Letters) {
    let fields = msg.fields().iter();
    let letter = Letter(
        fields
            .map(|(name, value)| (name.to_vec(), value.to_vec()))
            .collect(),
    );
    lock(&letters.0).push(letter);
}

impl Place {
    /// In this process.
    pub(crate) fn memory() -> Self {
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        Self::at(format!("memory://place-{number}"), None)
    }

    /// On the server that tests share.
    pub(crate) fn redis() -> Self {
        let number = PLACES.fetch_add(1, Ordering::Relaxed).to_string();
        let mut client = SERVER.connect();
        let selected = client.command(&["SELECT", &number]).expect("an answer");
        assert_eq!(selected.text(), "OK");
        Self::at(format!("{}/{number}", SERVER.url()), Some(client))
    }

    /// On a server of its own.
    pub(crate) fn on(server: &Server) -> Self {
        Self::at(server.url(), Some(server.connect()))
    }

    /// The same after the server was started again.
    pub(crate) fn again(self, server: &Server) -> Self {
        Self {
            client: Some(Mutex::new(server.connect())),
            ..self
        }
    }

    fn at(url: String, client: Option<Client>) -> Self {
        Self {
            broker: Broker::connect(&url).expect("a good URL"),
            url,
            journal: Journal::default(),
            letters: Letters::default(),
            client: client.map(Mutex::new),
        }
    }

    /// A worker with connections of its own, as another process has.
    pub(crate) fn worker(
        &self,
        handlers: impl IntoIterator<Item = &'static Subscription>,
    ) -> Broker {
        self.worker_at(&self.url, handlers)
    }

    /// The same by another way to the server.
    pub(crate) fn worker_at(
        &self,
        url: &str,
        handlers: impl IntoIterator<Item = &'static Subscription>,
    ) -> Broker {
        let broker = Broker::connect(url).expect("a good URL");
        broker
            .with_handlers(handlers)
            .with_state(self.journal.clone())
    }

    pub(crate) async fn publish(&self, stream: &str, name: &str, does: &str) -> String {
        let published = self.broker.publish(stream, &Job::new(name, does)).await;
        published.expect("published").to_string()
    }

    /// Publishes jobs `PREFIX0`, `PREFIX1`, .. in one go.
    pub(crate) async fn publish_many(&self, stream: &str, prefix: &str, count: usize, does: &str) {
        let jobs: Vec<_> = (0..count)
            .map(|number| Job::new(format!("{prefix}{number}"), does))
            .collect();
        let published = self.broker.publish_all(stream, &jobs).await;
        assert_eq!(published.expect("published").len(), count);
    }

    pub(crate) fn is_memory(&self) -> bool {
        self.client.is_none()
    }

    /// Asks the server itself.
    #[track_caller]
    pub(crate) fn ask<A: AsRef<[u8]>>(&self, command: &[A]) -> Reply {
        let client = self.client.as_ref().expect("a place on a server");
        lock(client).command(command).expect("an answer")
    }

    /// The pending list of the group: id, consumer, deliveries.
    pub(crate) fn pending(&self, stream: &str, group: &str) -> Vec<(String, String, i64)> {
        let rows = self.ask(&["XPENDING", stream, group, "-", "+", "5000"]);
        let row = |row: &Reply| (row[0].text(), row[1].text(), row[3].int());
        rows.list().iter().map(row).collect()
    }

    /// How many clients of the whole server wait in a blocking read.
    pub(crate) fn blocked_reads(&self) -> usize {
        let clients = self.ask(&["INFO", "clients"]).text();
        let blocked = clients
            .lines()
            .find_map(|line| line.strip_prefix("blocked_clients:"));
        blocked
            .and_then(|count| count.parse().ok())
            .expect("a count")
    }

    pub(crate) fn length(&self, stream: &str) -> i64 {
        self.ask(&["XLEN", stream]).int()
    }

    /// What the DLQ holds; in process, what it was given since the start.
    pub(crate) async fn letters(&self, dlq: &str) -> Vec<Letter> {
        if self.client.is_none() {
            let lookers = handlers![look_at_dead, look_at_dead_jobs];
            let looker = Broker::connect(&self.url).expect("a good URL");
            let looker = looker
                .with_handlers(lookers)
                .with_state(self.letters.clone());
            let running = looker.only([dlq]).start().await.expect("started");
            running.drained().await.expect("drained");
            running.stop().await;
            return lock(&self.letters.0).clone();
        }
        let letter = |entry: &Reply| {
            let flat = entry[1].list();
            let fields = flat
                .chunks(2)
                .map(|field| (field[0].bytes(), field[1].bytes()));
            Letter(fields.collect())
        };
        let entries = self.ask(&["XRANGE", dlq, "-", "+"]).list();
        entries.iter().map(letter).collect()
    }
}

/// What ran, in the order of the starts.
#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<Run>>>);

#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) delivery: u64,
    pub(crate) consumer: String,
    pub(crate) start: Instant,
    pub(crate) end: Option<Instant>,
}

/// Notes the end of a run when it goes.
pub(crate) struct Ends {
    journal: Journal,
    place: usize,
}

impl Journal {
    pub(crate) fn begin(&self, name: &str, msg: &Message) -> Ends {
        let mut runs = lock(&self.0);
        runs.push(Run {
            name: name.into(),
            delivery: msg.deliveries(),
            consumer: msg.consumer().into(),
            start: Instant::now(),
            end: None,
        });
        Ends {
            journal: self.clone(),
            place: runs.len() - 1,
        }
    }

    pub(crate) fn all(&self) -> Vec<Run> {
        lock(&self.0).clone()
    }

    pub(crate) fn runs(&self, name: &str) -> Vec<Run> {
        let mut runs = self.all();
        runs.retain(|run| run.name == name);
        runs
    }

    /// The delivery numbers of one job's runs.
    pub(crate) fn deliveries(&self, name: &str) -> Vec<u64> {
        self.runs(name).iter().map(|run| run.delivery).collect()
    }

    /// How many runs have ended.
    pub(crate) fn ended(&self) -> usize {
        self.all().iter().filter(|run| run.end.is_some()).count()
    }

    /// From the end of each run of a job to the start of its next.
    pub(crate) fn gaps(&self, name: &str) -> Vec<Duration> {
        let runs = self.runs(name);
        let gap = |pair: &[Run]| pair[1].start - pair[0].end.expect("an ended run");
        runs.windows(2).map(gap).collect()
    }

    /// Every one of the jobs `PREFIX0`.. ran once, as delivery 1.
    #[track_caller]
    pub(crate) fn assert_once_each(&self, prefix: &str, count: usize) {
        let runs = self.all();
        for number in 0..count {
            let name = format!("{prefix}{number}");
            let of_it: Vec<_> = runs.iter().filter(|run| run.name == name).collect();
            assert!(
                of_it.len() == 1 && of_it[0].delivery == 1,
                "{name}: {of_it:?}"
            );
        }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        lock(&self.journal.0)[self.place].end = Some(Instant::now());
    }
}

/// Runs a job and notes it.
pub(crate) async fn act(
    job: Job,
    msg: Message,
    journal: State<Journal>,
) -> Result<(), HandlerError> {
    let _ends = journal.begin(&job.name, &msg);
    job.run(&msg).await
}

/// Awaits a condition, on a real clock and on a paused one.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let (what, place) = (what.to_owned(), std::panic::Location::caller());
    async move {
        let began = std::time::Instant::now();
        while !condition() {
            let waited = began.elapsed();
            assert!(
                waited < Duration::from_secs(30),
                "waited {waited:?} in vain until {what}, at {place}"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Defines each test on both stores; in process the clock is paused.
macro_rules! on_both_stores {
    ($($test:ident),* $(,)?) => {
        mod in_process {
            $(#[tokio::test(start_paused = true)]
            async fn $test() {
                super::$test(crate::place::Place::memory()).await;
            })*
        }
        mod on_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::place::Place::redis()).await;
            })*
        }
    };
}
pub(crate) use on_both_stores;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
