//! Connections to the master that sentinels know. Every connection asks them anew, so that each one
//! follows a failover by itself.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value, cmd};

use super::endpoint::Endpoint;
use super::link::{self, RESPONSE_TIMEOUT};
use super::parts::{Parts, Place};
use super::{fault, tls};
use crate::error::Error;
use crate::store::{Fault, FaultClass};

pub(super) struct Sentinels {
    /// What the master is called.
    name: String,
    sentinels: Vec<Endpoint>,
    /// The one that led to the master last, which is asked first.
    first: AtomicUsize,
    /// How to log in at the master, and its certificates.
    parts: Parts,
}

impl Sentinels {
    pub(super) fn new(
        name: String,
        sentinels: &[(String, u16)],
        parts: Parts,
    ) -> Result<Self, Error> {
        let certificates = tls::certificates(&parts)?;
        let endpoint = |(host, port): &(String, u16)| {
            let place = Place::Host(host.clone(), *port);
            Endpoint::new(&place, certificates, parts.sentinel_login(), 0)
        };
        Ok(Self {
            name,
            sentinels: sentinels.iter().map(endpoint).collect::<Result<_, _>>()?,
            first: AtomicUsize::new(0),
            parts,
        })
    }

    /// A connection to the present master, logged in. A sentinel may be down, or behind the times:
    /// then the others are asked.
    pub(super) async fn connect(
        &self,
        response_timeout: Option<Duration>,
    ) -> Result<MultiplexedConnection, Fault> {
        let (count, first) = (self.sentinels.len(), self.first.load(Ordering::Relaxed));
        let mut faults = Vec::with_capacity(count);
        for place in (0..count).map(|turn| (first + turn) % count) {
            let master = match self.master(&self.sentinels[place]).await {
                Ok(master) => master,
                Err(fault) => {
                    faults.push(fault);
                    continue;
                }
            };
            match open(&master, response_timeout).await {
                Ok(connection) => {
                    self.first.store(place, Ordering::Relaxed);
                    return Ok(connection);
                }
                // The master itself refuses: every sentinel would lead to that.
                Err(fault) if fault.class == FaultClass::Config => return Err(fault),
                Err(fault) => faults.push(fault),
            }
        }
        Err(self.sum_up(&faults))
    }

    /// Where this sentinel says that the master is.
    async fn master(&self, sentinel: &Endpoint) -> Result<Endpoint, Fault> {
        let mut connection = link::open(sentinel, Some(RESPONSE_TIMEOUT))
            .await
            .map_err(|fault| told_by(sentinel, &fault))?;
        let answer: RedisResult<Option<(String, u16)>> = cmd("SENTINEL")
            .arg("get-master-addr-by-name")
            .arg(&self.name)
            .query_async(&mut connection)
            .await;
        let answer = answer
            .map_err(|error| told_by(sentinel, &fault::while_connecting(&error, sentinel)))?;
        let Some((host, port)) = answer else {
            let text = format!("it knows no master `{}`", self.name);
            return Err(told_by(sentinel, &Fault::new(FaultClass::Config, text)));
        };
        let unusable = |error: Error| Fault::new(FaultClass::Config, error.to_string());
        let place = Place::Host(host, port);
        let certificates = tls::certificates(&self.parts).map_err(unusable)?;
        Endpoint::new(&place, certificates, self.parts.login(), self.parts.db).map_err(unusable)
    }

    /// One fault of all sentinels' faults: waiting helps unless it helps with none of them.
    fn sum_up(&self, faults: &[Fault]) -> Fault {
        let is_hopeless = faults.iter().all(|fault| fault.class == FaultClass::Config);
        let class = if is_hopeless {
            FaultClass::Config
        } else {
            FaultClass::Unreachable
        };
        let mut texts: Vec<_> = faults.iter().map(|fault| fault.text.as_str()).collect();
        texts.dedup();
        let (name, texts) = (&self.name, texts.join("; "));
        Fault::new(class, format!("no way to the master `{name}`: {texts}"))
    }
}

/// A connection to what is to be the master: just after a failover it may not be one yet, or not
/// any more.
async fn open(
    master: &Endpoint,
    response_timeout: Option<Duration>,
) -> Result<MultiplexedConnection, Fault> {
    let mut connection = link::open(master, response_timeout).await?;
    let ask = cmd("ROLE");
    let ask = ask.query_async::<Vec<Value>>(&mut connection);
    let role = match tokio::time::timeout(RESPONSE_TIMEOUT, ask).await {
        Ok(Ok(role)) => role,
        // Not everybody may ask; a replica shows itself by refusing writes.
        Ok(Err(error)) if error.code() == Some("NOPERM") => return Ok(connection),
        Ok(Err(error)) => return Err(master.while_connecting(&error).await),
        Err(_) => {
            let text = format!("redis at {master} does not answer");
            return Err(Fault::new(FaultClass::Unreachable, text));
        }
    };
    match role.first() {
        Some(Value::BulkString(role)) if role != b"master" => {
            let role = String::from_utf8_lossy(role);
            let text = format!("redis at {master} is not the master, its role is `{role}`");
            Err(Fault::new(FaultClass::Unreachable, text))
        }
        _ => Ok(connection),
    }
}

fn told_by(sentinel: &Endpoint, fault: &Fault) -> Fault {
    Fault::new(fault.class, format!("sentinel {sentinel}: {fault}"))
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinels")
            .field("name", &self.name)
            .field("sentinels", &self.sentinels)
            .finish_non_exhaustive()
    }
}
