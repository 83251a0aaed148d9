//! A connection that is made when it is first needed, shared, and made anew after it broke. It
//! never repeats a command: whether that is safe, the caller knows.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisError, RedisResult, Script, Value};
use tokio::task::JoinHandle;

use super::address::Address;
use super::fault;
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
}

struct Live {
    connection: MultiplexedConnection,
    /// Ends when the runtime that drives the connection ends: the connection is then dead though
    /// it does not know it.
    runtime: JoinHandle<()>,
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
            }),
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.inner.address
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
    ) -> Result<Vec<RedisResult<Value>>, Fault> {
        let (mut connection, number) = self.connection().await?;
        let answer = pipeline.query_async(&mut connection).await;
        self.sort(number, answer)
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
            let fault = fault::classify(&error);
            if fault.class == FaultClass::Reconnect || fault::wants_another_server(&error) {
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
        if let Ok(live) = self.live() {
            return Ok(live);
        }
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
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(response_timeout);
    let connecting = |error: RedisError| fault::while_connecting(&error, address);
    let mut connection = address
        .client
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .map_err(connecting)?;
    // A peer that accepts and never answers must not hold the login up for ever.
    match tokio::time::timeout(RESPONSE_TIMEOUT, log_in(address, &mut connection)).await {
        Ok(done) => done.map_err(connecting)?,
        Err(_) => {
            let text = format!(
                "cannot reach redis at {address}: it accepts connections and does not answer"
            );
            return Err(Fault::new(FaultClass::Unreachable, text));
        }
    }
    Ok(connection)
}

async fn log_in(address: &Address, connection: &mut MultiplexedConnection) -> RedisResult<()> {
    let login = &address.login;
    if let Some(password) = &login.password {
        let mut auth = redis::cmd("AUTH");
        if let Some(username) = &login.username {
            auth.arg(username);
        }
        auth.arg(password).query_async::<()>(connection).await?;
    }
    if login.db != 0 {
        redis::cmd("SELECT")
            .arg(login.db)
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
