//! The public handle: publish, start the handlers, stop them, move dead letters back.

mod publishing;
mod trimming;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::dlq::{Dlq, ReplayDlq};
use crate::entry_id::EntryId;
use crate::environment;
use crate::error::{Error, ErrorKind};
use crate::extract::States;
use crate::health::Health;
use crate::inspect::{Inspect, ServerInfo};
use crate::lease::LeaseKeeper;
use crate::log;
use crate::post::Post;
use crate::promote::{Promoter, Promoters};
use crate::running::Running;
use crate::server::Server;
use crate::signal;
use crate::store::memory::MemoryStore;
use crate::store::redis::RedisStore;
use crate::store::{Consumer, Fault, FaultClass, Start, Store};
use crate::stream::Source;
use crate::subscription::{self, Subscription};
use crate::supervisor::supervise;
use crate::takeover::update_floor;
use crate::trimmer::Trimmer;
use crate::wire;
use crate::worker::Worker;

/// A server and the handlers that run on it. Cheap to clone.
///
/// Making one does no I/O: the connection is made when it is first needed.
///
/// Clones share a connection, which lives on the runtime of whoever first needed it. When that
/// runtime ends, others make a new one; what was being published from another runtime at that
/// moment fails as [`Unknown`](crate::ErrorKind::Unknown).
///
/// ```no_run
/// use rillkit::Broker;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rillkit::Error> {
/// let broker = Broker::connect("redis://localhost:6379/0")?;
/// let id = broker.publish("jobs", &"a body").await?;
/// println!("published {id}");
/// broker.run().await
/// # }
/// ```
#[derive(Clone)]
pub struct Broker {
    store: Store,
    settings: Arc<Settings>,
    /// The handlers that this broker and its clones run.
    posts: Arc<Mutex<Vec<Weak<Post>>>>,
    /// What adds the messages that this broker and its clones have delayed.
    promoters: Arc<Promoters>,
}

#[derive(Clone)]
struct Settings {
    states: States,
    /// An explicit list, in place of what was collected.
    handlers: Option<Vec<&'static Subscription>>,
    only: Vec<String>,
    grace: Duration,
    largest: usize,
    trimmers: Vec<Trimmer>,
}

/// How long running handlers may go on at a stop, when nothing else is said.
const GRACE: Duration = Duration::from_secs(30);
/// Bytes of the largest message, when nothing else is said. Servers take half a GiB in one value,
/// unless they are told to take less.
const LARGEST: usize = 64 << 20;

impl Broker {
    pub(crate) fn on(store: Store) -> Self {
        let settings = Settings {
            states: States::default(),
            handlers: None,
            only: Vec::new(),
            grace: GRACE,
            largest: LARGEST,
            trimmers: Vec::new(),
        };
        Self {
            store,
            settings: Arc::new(settings),
            posts: Arc::default(),
            promoters: Arc::default(),
        }
    }

    /// The server of this URL: `redis://[user][:password@]host[:port][/db]`, `rediss://..` (with
    /// the feature `tls`), `redis+unix:///path`,
    /// `redis+sentinel://[user][:password@]host[:port],../master[/db]` (with TLS
    /// `rediss+sentinel://..`), `redis+cluster://[user][:password@]host[:port],..` (with TLS
    /// `rediss+cluster://..`), or `memory://`, a store in this process (`memory://name` is one
    /// store for all who name it).
    ///
    /// # Errors
    ///
    /// A URL that cannot be used. Whether the server is there shows at the first use.
    pub fn connect(url: &str) -> Result<Self, Error> {
        environment::store(url).map(Self::on)
    }

    /// This server, for what a URL cannot say: credentials in any characters, or ones that change,
    /// and certificates.
    ///
    /// ```
    /// use rillkit::{Broker, Server};
    ///
    /// # fn main() -> Result<(), rillkit::Error> {
    /// let server = Server::at("redis://localhost:6379")?.username("worker").password("p@ss/word");
    /// let broker = Broker::on_server(server)?;
    /// # let _ = broker; Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Certificates that cannot be used, or that nothing would use.
    pub fn on_server(server: Server) -> Result<Self, Error> {
        RedisStore::new(server.parts)
            .map(Store::Redis)
            .map(Self::on)
    }

    /// The server that the environment names: `REDIS_URL`, else the single server of `REDIS_HOST`,
    /// `REDIS_PORT`, `REDIS_USERNAME`, `REDIS_PASSWORD`, `REDIS_DB` and `REDIS_SSL`, else
    /// `redis://localhost:6379/0`. The files of certificates (`REDIS_CA_CERT`, `REDIS_CLIENT_CERT`,
    /// `REDIS_CLIENT_KEY`) and the login at sentinels (`REDIS_SENTINEL_USERNAME`,
    /// `REDIS_SENTINEL_PASSWORD`) go with either.
    ///
    /// # Errors
    ///
    /// A variable that cannot be understood.
    pub fn from_env() -> Result<Self, Error> {
        environment::default_broker()
    }

    /// The server that the environment names, or this URL when it names none.
    ///
    /// # Errors
    ///
    /// A variable or a URL that cannot be understood.
    pub fn from_env_or(url: &str) -> Result<Self, Error> {
        environment::broker_or(url)
    }

    /// A store in this process: nothing to install, and nothing kept when the last clone is gone.
    /// It does what Redis does, and runs on tokio's clock: with that clock paused, a test of
    /// retries takes no time.
    #[must_use]
    pub fn memory() -> Self {
        Self::on(Store::Memory(MemoryStore::new()))
    }

    /// Provides a value to handlers that take a [`State<T>`](crate::State): one for each type, and
    /// the last counts. What else looks at it can share an `Arc`, as the value, or inside it.
    #[must_use]
    pub fn with_state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.settings_mut().states.insert(value);
        self
    }

    /// Runs these handlers, in place of all that the program has registered.
    /// [`handlers!`](crate::handlers) makes the list.
    #[must_use]
    pub fn with_handlers(
        mut self,
        handlers: impl IntoIterator<Item = &'static Subscription>,
    ) -> Self {
        self.settings_mut().handlers = Some(handlers.into_iter().collect());
        self
    }

    /// Runs only the handlers that have one of these names: of their stream, of their function, or
    /// of their function with its module. The variable `RILLKIT_ONLY` (names with commas between)
    /// does the same where this was not called. A name that no handler has fails the start, and so
    /// does a variable with commas and no name.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), rillkit::Error> {
    /// rillkit::Broker::from_env()?.only(["jobs", "send_mail"]).run().await
    /// # }
    /// ```
    #[must_use]
    pub fn only<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.settings_mut().only = names.into_iter().map(Into::into).collect();
        self
    }

    /// How long running handlers may go on at a stop; 30 seconds when nothing is said.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings_mut().grace = grace;
        self
    }

    /// The most bytes that a message may have, with its headers; 64 MiB when nothing is said. A
    /// larger one is refused before anything is sent ([`TooLarge`](crate::ErrorKind::TooLarge)): a
    /// server closes the connection on a value above its `proto-max-bulk-len`, and everything else
    /// on that connection fails with it. Keep it below that setting.
    ///
    /// ```
    /// use rillkit::{Broker, ErrorKind};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let broker = Broker::memory().largest_message(1_000_000);
    /// let error = broker.publish("jobs", &"x".repeat(1_000_000)).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::TooLarge);
    /// # }
    /// ```
    #[must_use]
    pub fn largest_message(mut self, bytes: usize) -> Self {
        self.settings_mut().largest = bytes;
        self
    }

    fn settings_mut(&mut self) -> &mut Settings {
        Arc::make_mut(&mut self.settings)
    }

    /// Moves dead letters back to their stream, oldest first: up to 100, or as
    /// [`count`](ReplayDlq::count) and [`all`](ReplayDlq::all) say. Gives back how many it moved.
    ///
    /// Each move is one step on the server: nothing is lost or doubled when it breaks off half way
    /// or runs twice at once. A replayed message has a new id and fresh retries.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// # let broker = rillkit::Broker::memory();
    /// let moved = broker.replay_dlq("jobs").count(10).await?;
    /// # assert_eq!(moved, 0); Ok(()) }
    /// ```
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a constant or a name is what callers have"
    )]
    pub fn replay_dlq(&self, stream: impl Source) -> ReplayDlq {
        ReplayDlq::new(&self.store, stream.stream_name(), self.dlqs(&stream))
    }

    /// The dead letters of a stream: statistics, lists, replay, purge, and more. The queue is the one
    /// that the constant or the handlers of this program name, else `<stream>-dlq`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// # let broker = rillkit::Broker::memory().with_handlers([]);
    /// let stats = broker.dlq("jobs").stats().await?;
    /// for (reason, count) in &stats.by_reason {
    ///     println!("{count} x {reason}");
    /// }
    /// # Ok(()) }
    /// ```
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a constant or a name is what callers have"
    )]
    pub fn dlq<S: Source>(&self, stream: S) -> Dlq<S::Bodies> {
        Dlq::new(
            &self.store,
            self.settings.largest,
            stream.stream_name(),
            self.dlqs(&stream),
        )
    }

    /// The dead-letter queues that the constant and the handlers of a stream name.
    fn dlqs(&self, stream: &impl Source) -> BTreeSet<String> {
        let name = stream.stream_name();
        let mut dlqs: BTreeSet<_> = stream.dlq_name().map(str::to_owned).into_iter().collect();
        let registered = self.registered();
        dlqs.extend(
            registered
                .iter()
                .filter(|one| one.stream() == name)
                .map(|one| one.dlq_name()),
        );
        if dlqs.is_empty() {
            dlqs.insert(format!("{name}{}", wire::DLQ_SUFFIX));
        }
        dlqs
    }

    /// What is at a key, for tests of handlers that take a [`Tx`](crate::Tx): the text, or the pieces of
    /// a list, a set, a hash (each field before its value) or a sorted set (each member before its
    /// score). Nothing where there is no such key. Bytes that are no UTF-8 are shown as `\u{fffd}`.
    ///
    /// It shows all that is there, however large; programs have clients of their own for that.
    ///
    /// # Errors
    ///
    /// The connection's, and [`ErrorKind::Config`](crate::ErrorKind::Config) for a stream.
    pub async fn peek(&self, key: &str) -> Result<Vec<String>, Error> {
        let pieces = self.store.look(key).await.map_err(|fault| {
            Error::from_fault(
                &fault,
                &format!("looking at `{}` failed", key.escape_debug()),
            )
        })?;
        let text = |piece: &Vec<u8>| String::from_utf8_lossy(piece).into_owned();
        Ok(pieces.iter().map(text).collect())
    }

    /// A look at what the server holds of one stream. It changes nothing, and no group notices.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// # let broker = rillkit::Broker::memory();
    /// for group in broker.inspect("jobs").groups().await? {
    ///     println!("{}: {} pending", group.name, group.pending);
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a constant or a name is what callers have"
    )]
    pub fn inspect(&self, stream: impl Source) -> Inspect {
        Inspect::new(&self.store, stream.stream_name())
    }

    /// The names of all streams of the server or cluster, dead-letter streams among them. It looks
    /// at every key, some hundreds at a time.
    ///
    /// # Errors
    ///
    /// When the server cannot be asked.
    pub async fn streams(&self) -> Result<Vec<String>, Error> {
        let streams = self.store.streams().await;
        streams.map_err(|fault| Error::from_fault(&fault, "looking for streams failed"))
    }

    /// What the server says about itself; in process, nothing.
    pub async fn server_info(&self) -> ServerInfo {
        self.store.facts().await.into()
    }

    /// Starts the handlers and returns when their groups exist and they read. A server that is not
    /// there yet is waited for.
    ///
    /// Each start has consumers of its own: a broker that is started twice is two workers.
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
    /// // ..
    /// running.stop().await;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// What no waiting can cure: no handlers, two for one stream and group, a state that nobody
    /// provided, a wrong password, a permission that is missing, a key of another type.
    ///
    /// # Cancellation
    ///
    /// A start that is dropped leaves the groups that it created, and nothing else.
    pub async fn start(&self) -> Result<Running, Error> {
        let settings = &self.settings;
        let only = if settings.only.is_empty() {
            environment::only()?
        } else {
            settings.only.clone()
        };
        let subscriptions = subscription::select(&self.registered(), &only)?;
        subscription::check(&subscriptions, &settings.states)?;
        let name: Arc<str> = environment::consumer_name().into();
        let mut posts = Vec::with_capacity(subscriptions.len());
        for subscription in subscriptions {
            let consumer = Consumer {
                stream: subscription.stream(),
                group: subscription.group(),
                name: subscription
                    .given_consumer()
                    .map_or_else(|| Arc::clone(&name), Arc::from),
                acked: subscription.policy.acked(),
            };
            posts.push(Arc::new(Post::new(
                subscription,
                consumer,
                self.store.clone(),
                settings.largest,
            )));
        }
        self.register(&posts);
        for post in &posts {
            self.prepare(post).await?;
        }
        let facts = self.store.facts().await;
        log::server(self, facts.as_ref(), posts.len(), self.store.is_cluster());
        let keeper = Arc::new(LeaseKeeper::start(&self.store)?);
        let stop = watch::Sender::new(false);
        let start = |post: &Arc<Post>| {
            let worker = Worker::start(Arc::clone(post), settings.states.clone(), &keeper);
            tokio::spawn(supervise(worker, stop.subscribe(), settings.grace))
        };
        let mut workers: Vec<_> = posts.iter().map(start).collect();
        let trimmers = settings.trimmers.iter().cloned();
        workers.extend(trimmers.map(|trimmer| tokio::spawn(trimmer.run(stop.subscribe()))));
        let streams: BTreeSet<_> = posts.iter().map(|post| post.consumer.stream).collect();
        let promoters = streams
            .iter()
            .map(|stream| Promoter::new(self.store.clone(), stream));
        workers.extend(promoters.map(|promoter| tokio::spawn(promoter.run(stop.subscribe()))));
        Ok(Running::new(posts, stop, workers))
    }

    /// How the handlers are that this broker and its clones run, those that are being started or
    /// stopped among them. Cheap, and nothing is sent: see [`Health`] for an endpoint made of it.
    #[must_use]
    pub fn health(&self) -> Health {
        let registry = self.registry();
        let posts = registry.iter().filter_map(Weak::upgrade);
        let posts: Vec<_> = posts.filter(|post| !post.is_over()).collect();
        drop(registry);
        Health::of(posts.iter().map(|post| &**post))
    }

    fn register(&self, posts: &[Arc<Post>]) {
        let mut registry = self.registry();
        registry.retain(|post| post.strong_count() > 0);
        registry.extend(posts.iter().map(Arc::downgrade));
    }

    fn registry(&self) -> MutexGuard<'_, Vec<Weak<Post>>> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the handlers and runs them until SIGINT or SIGTERM, then stops them gracefully. A
    /// second signal ends the process at once.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub async fn run(&self) -> Result<(), Error> {
        // From here on, so that a signal during a long wait for the server is not lost.
        let mut signals = signal::Signals::listen()?;
        let running = tokio::select! {
            running = self.start() => running?,
            () = signals.next() => return Ok(()),
        };
        signals.next().await;
        tokio::select! {
            () = running.stop() => Ok(()),
            () = signals.next() => signal::end_at_once(),
        }
    }

    fn registered(&self) -> Vec<&'static Subscription> {
        self.settings
            .handlers
            .clone()
            .unwrap_or_else(subscription::collected)
    }

    /// Makes sure that the group is there and that all the worker needs is permitted, however long
    /// the server takes to come.
    async fn prepare(&self, post: &Post) -> Result<(), Error> {
        let Consumer { stream, group, .. } = post.consumer;
        let start = match post.subscription.start_at() {
            "$" => Start::New,
            // The start was checked with the other settings.
            id => Start::After(EntryId::parse(id.as_bytes()).unwrap_or(EntryId::MIN)),
        };
        let needs = post.subscription.needs();
        let (mut backoff, began, mut waited) = (Backoff::short(), Instant::now(), false);
        let ready = async || {
            self.store.check().await?;
            self.store.together(stream, &post.dlq)?;
            // Before the group is made, so that a refusal leaves none behind; and after, when others
            // that start right now see it.
            let mut others = self.endangered(post).await?;
            if others.is_empty() {
                self.store.ensure_group(stream, group, start).await?;
                self.store
                    .permits(&post.consumer, &post.dlq, &needs)
                    .await?;
                others = self.endangered(post).await?;
            }
            Ok::<_, Fault>(others)
        };
        loop {
            match ready().await {
                Ok(others) if others.is_empty() => break,
                Ok(others) => {
                    let others = others.iter().map(|group| &**group);
                    let why = post.subscription.deletes_for_others(others);
                    return Err(Error::new(ErrorKind::Handlers, why));
                }
                Err(fault) if fault.class == FaultClass::Config => {
                    return Err(Error::from_fault(
                        &fault,
                        &format!("stream `{stream}`, group `{group}` cannot be used"),
                    ));
                }
                Err(fault) => {
                    post.pulse.cannot_read(&fault);
                    if !std::mem::replace(&mut waited, true) {
                        log::waiting_for_server(&fault);
                    }
                }
            }
            tokio::time::sleep(backoff.wait()).await;
        }
        if waited {
            log::server_found(began.elapsed());
        }
        // Both are looks: what they cannot find out now shows later.
        let _ = update_floor(post).await;
        if let Err(fault) = self.store.last_id(&post.dlq).await
            && fault.class == FaultClass::Config
            && !fault.is_permission()
        {
            log::dlq_unusable(&post.consumer, &post.dlq, &fault);
        }
        Ok(())
    }
}

/// Where it is: `in process`, or the server's address, never the login.
impl fmt::Display for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.store {
            Store::Redis(store) => fmt::Display::fmt(store, f),
            Store::Memory(_) => f.write_str("in process"),
        }
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker")
            .field("store", &self.store)
            .field("states", &self.settings.states)
            .field("handlers", &self.settings.handlers)
            .field("only", &self.settings.only)
            .field("grace", &self.settings.grace)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_says_where_it_is_and_not_who_it_is() {
        let redis = Broker::connect("redis://user:secret@example.test:7000/3").unwrap();
        assert_eq!(redis.to_string(), "example.test:7000");
        assert_eq!(Broker::memory().to_string(), "in process");
    }
}
