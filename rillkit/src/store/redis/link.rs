//! A connection that is made when it is first needed, shared, and made anew after it broke. It
//! never repeats a command: whether that is safe, the caller knows.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisResult, Script, Value};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::address::{Address, Way};
use super::endpoint::Endpoint;
use super::outbox::Queue;
use super::tls;
use crate::credentials::Credentials;
use crate::store::{Fault, FaultClass};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an answer may take before the connection counts as dead. A server that pauses its
/// clients (`CLIENT PAUSE`, a slow script) answers late and is not dead.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(super) struct Link {
    inner: Arc<Inner>,
}

struct Inner {
    address: Address,
    live: Mutex<Option<Live>>,
    /// One connects at a time; the others wait for its result.
    connecting: tokio::sync::Mutex<()>,
    waiting: Mutex<Queue>,
}

struct Live {
    connection: MultiplexedConnection,
    /// Ends when the runtime that drives the connection ends: the connection is then dead though
    /// it does not know it.
    runtime: JoinHandle<()>,
    driver: Handle,
    number: u64,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.runtime.abort();
    }
}

impl Link {
    pub(super) fn new(address: Address) -> Self {
        Self {
            inner: Arc::new(Inner {
                address,
                live: Mutex::default(),
                connecting: tokio::sync::Mutex::default(),
                waiting: Mutex::default(),
            }),
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.inner.address
    }

    /// The commands that wait for others to leave with.
    pub(super) fn waiting(&self) -> &Mutex<Queue> {
        &self.inner.waiting
    }

    pub(super) async fn run(&self, command: &Cmd) -> Result<Value, Fault> {
        let (mut connection, number) = self.connection().await?;
        let answer = command.query_async(&mut connection).await;
        self.sort(number, answer)
    }

    /// Runs a pipeline; each command has its own answer.
    pub(super) async fn run_all(
        &self,
        pipeline: &Pipeline,
    ) -> Result<Vec<Result<Value, Fault>>, Fault> {
        let (mut connection, number) = self.connection().await?;
        let answer = pipeline.query_async(&mut connection).await;
        let answers: Vec<RedisResult<Value>> = self.sort(number, answer)?;
        Ok(answers
            .into_iter()
            .map(|answer| self.sort(number, answer))
            .collect())
    }

    /// Runs a script by its hash, and loads it where the server does not know it (yet, or any more).
    pub(super) async fn run_script(
        &self,
        script: &Script,
        fill: impl FnOnce(&mut redis::ScriptInvocation<'_>),
    ) -> Result<Value, Fault> {
        let (mut connection, number) = self.connection().await?;
        let mut invocation = script.prepare_invoke();
        fill(&mut invocation);
        let answer = invocation.invoke_async(&mut connection).await;
        self.sort(number, answer)
    }

    /// What came of a command on the connection of this number; a broken one is made anew next time.
    pub(super) fn sort<T>(&self, number: u64, answer: RedisResult<T>) -> Result<T, Fault> {
        answer.map_err(|error| {
            let (fault, replace) = self.inner.address.judge(&error);
            if replace {
                self.forget(number);
            }
            fault
        })
    }

    fn forget(&self, number: u64) {
        let mut live = self
            .inner
            .live
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if live.as_ref().is_some_and(|live| live.number == number) {
            *live = None;
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.live().is_ok()
    }

    /// Runs a task where the connection is driven, so that both end together.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let live = self
            .inner
            .live
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let driver = live
            .as_ref()
            .filter(|live| !live.runtime.is_finished())
            .map(|live| live.driver.clone());
        drop(live);
        match driver.or_else(|| Handle::try_current().ok()) {
            Some(runtime) => drop(runtime.spawn(task)),
            None => drop(task),
        }
    }

    fn live(&self) -> Result<(MultiplexedConnection, u64), u64> {
        let live = self
            .inner
            .live
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match live.as_ref() {
            Some(live) if !live.runtime.is_finished() => Ok((live.connection.clone(), live.number)),
            dead => Err(dead.map_or(0, |live| live.number)),
        }
    }

    /// The connection and its number, by which [`sort`](Self::sort) knows it.
    pub(super) async fn connection(&self) -> Result<(MultiplexedConnection, u64), Fault> {
        match self.live() {
            Ok(live) => Ok(live),
            // On the heap: every command's future would have room for it otherwise.
            Err(_) => Box::pin(self.reconnect()).await,
        }
    }

    async fn reconnect(&self) -> Result<(MultiplexedConnection, u64), Fault> {
        let _alone = self.inner.connecting.lock().await;
        let number = match self.live() {
            Ok(live) => return Ok(live),
            Err(number) => number + 1,
        };
        let connection = connect(&self.inner.address, Some(RESPONSE_TIMEOUT)).await?;
        let runtime = tokio::spawn(std::future::pending());
        let live = Live {
            connection: connection.clone(),
            runtime,
            driver: Handle::current(),
            number,
        };
        *self
            .inner
            .live
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(live);
        Ok((connection, number))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("address", &self.inner.address)
            .finish_non_exhaustive()
    }
}

/// A new connection, logged in.
pub(super) async fn connect(
    address: &Address,
    response_timeout: Option<Duration>,
) -> Result<MultiplexedConnection, Fault> {
    match &address.way {
        Way::Straight(endpoint) => open(endpoint, response_timeout).await,
        Way::Sentinels(sentinels) => sentinels.connect(response_timeout).await,
    }
}

/// A new connection to this very server, logged in.
pub(super) async fn open(
    endpoint: &Endpoint,
    response_timeout: Option<Duration>,
) -> Result<MultiplexedConnection, Fault> {
    let credentials = endpoint.credentials().await?;
    let mut connection = match bare(&endpoint.client, response_timeout).await {
        Ok(connection) => connection,
        Err(error) => return Err(endpoint.while_connecting(&error).await),
    };
    let log_in = log_in(&mut connection, credentials, endpoint.db);
    // A peer that accepts and never answers must not hold the login up for ever.
    match tokio::time::timeout(RESPONSE_TIMEOUT, log_in).await {
        Ok(Ok(())) => Ok(connection),
        Ok(Err(error)) => Err(endpoint.while_connecting(&error).await),
        Err(_) => {
            let text = format!(
                "cannot reach redis at {endpoint}: it accepts connections and does not answer"
            );
            Err(Fault::new(FaultClass::Unreachable, text))
        }
    }
}

/// A new connection as the default user.
pub(super) async fn bare(
    client: &Client,
    response_timeout: Option<Duration>,
) -> RedisResult<MultiplexedConnection> {
    tls::provide();
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(response_timeout);
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

async fn log_in(
    connection: &mut MultiplexedConnection,
    credentials: Option<Credentials>,
    db: i64,
) -> RedisResult<()> {
    if let Some(Credentials { username, password }) = credentials {
        let mut auth = redis::cmd("AUTH");
        if let Some(username) = username {
            auth.arg(username);
        }
        auth.arg(password).query_async::<()>(connection).await?;
    }
    if db != 0 {
        redis::cmd("SELECT")
            .arg(db)
            .query_async::<()>(connection)
            .await?;
    }
    let mut names = redis::pipe();
    names
        .cmd("CLIENT")
        .arg("SETINFO")
        .arg("LIB-NAME")
        .arg("rillkit");
    names
        .cmd("CLIENT")
        .arg("SETINFO")
        .arg("LIB-VER")
        .arg(env!("CARGO_PKG_VERSION"));
    // Servers before 7.2 and narrow permissions refuse it, and nothing depends on it.
    names
        .ignore_errors()
        .query_async::<Vec<RedisResult<Value>>>(connection)
        .await?;
    Ok(())
}
