//! The store on a Redis server: every command and script that the crate sends. What an operation
//! means is written in [`store`](super).
//!
//! The way to a server:
//!
//! - [`parts`]: where it is; [`address`]: how to get there, to one [`endpoint`] or by [`sentinel`];
//!   [`tls`]: the certificates.
//! - [`link`]: makes and replaces connections; [`outbox`]: lets commands leave together.
//! - [`links`]: chooses among the links of a [`cluster`].
//! - [`fault`]: sorts errors; [`reply`]: reads answers.
//!
//! The operations:
//!
//! - [`pending`]: what changes the pending list.
//! - [`letters`]: the DLQ; [`history`]: what is kept about failed deliveries.
//! - [`commits`]: acks with what a handler wants done by them, as the commands in [`effects`].
//! - [`markers`]: idempotency keys, in progress or done.
//! - [`publishing`]: what is added; [`delayed`]: what is added later; [`cut`]: trims that go with
//!   these.
//! - [`trimming`]: trims that no group loses by.
//! - [`looks`]: what changes nothing; [`inspect`]: the same, for people; [`roster`]: what workers say
//!   about themselves.
//! - [`reader`]: the connection that waits for new entries.
//! - [`permissions`]: what is forbidden; [`server_facts`]: what the server says about itself.

mod acking;
mod address;
mod asking;
mod cluster;
mod commits;
mod cut;
mod delayed;
pub(crate) mod effects;
mod endpoint;
mod fault;
mod history;
mod inspect;
mod letters;
mod link;
mod links;
mod looks;
mod markers;
mod nodes;
mod outbox;
mod parts;
mod pending;
mod permissions;
mod publishing;
mod reader;
mod reply;
mod roster;
mod sentinel;
mod server_facts;
mod slot;
mod tls;
mod trimming;

use std::fmt;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value, cmd};

use self::cut::{Cut, ServerTime};
use self::links::Links;
pub(crate) use self::parts::{PORT, Parts, Place};
pub(crate) use self::reader::RedisReader;
pub(crate) use self::server_facts::ServerFacts;
use super::{Consumer, Fault, Fenced, Group, Need, Start};
use crate::entry_id::EntryId;
use crate::error::Error;
use crate::fields::Fields;
use crate::trim::Trim;

/// Reads a reply of `XREADGROUP` from its bytes; the entries in it.
#[cfg(feature = "internal-benches")]
pub(crate) fn parse_reply(wire: &[u8]) -> usize {
    let reply = redis::parse_redis_value(wire).unwrap_or(Value::Nil);
    reply::read(reply).map_or(0, |entries| entries.len())
}

/// A Redis server, or a cluster of them. Clones share one connection, in a cluster one to each node.
#[derive(Debug, Clone)]
pub(crate) struct RedisStore {
    links: Links,
    time: ServerTime,
}

impl RedisStore {
    pub(crate) fn new(parts: Parts) -> Result<Self, Error> {
        Links::new(parts).map(|links| Self {
            links,
            time: ServerTime::default(),
        })
    }

    pub(crate) fn from_url(url: &str) -> Result<Self, Error> {
        Self::new(Parts::from_url(url)?)
    }

    pub(super) fn separate(&self) -> Self {
        Self {
            links: self.links.separate(),
            time: self.time.clone(),
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.links, Links::Cluster(_))
    }

    pub(super) async fn check(&self) -> Result<(), Fault> {
        self.links.check().await
    }

    pub(super) fn together(&self, stream: &str, dlq: &str) -> Result<(), Fault> {
        self.links.together(stream, dlq)
    }

    pub(super) async fn facts(&self) -> ServerFacts {
        match self.links.any().await {
            Ok(link) => server_facts::ask(&link).await,
            Err(_) => ServerFacts::default(),
        }
    }

    pub(super) async fn permits(
        &self,
        consumer: &Consumer,
        dlq: &str,
        needs: &[Need],
    ) -> Result<(), Fault> {
        let link = self.links.home(consumer).await?;
        permissions::check(&link, consumer, dlq, needs).await
    }

    pub(super) async fn publish(
        &self,
        stream: &str,
        entries: &[Fields],
        trim: Option<Trim>,
    ) -> Result<Vec<Result<EntryId, Fault>>, Fault> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let cut = match trim {
            None => None,
            Some(trim) => Some(Box::pin(self.cut(stream, trim)).await?),
        };
        let xadd = |fields| xadd_and_cut(stream, fields, cut.as_ref());
        if let [entry] = entries {
            let answer = self.links.run_together(stream, xadd(entry)).await;
            return Ok(vec![answer.and_then(|id| reply::id(&id))]);
        }
        let mut pipeline = Pipeline::with_capacity(entries.len());
        for entry in entries {
            pipeline.add_command(xadd(entry));
        }
        let pipeline = pipeline.ignore_errors();
        let answers = self.links.run_all(stream, pipeline).await?;
        let (mut ids, mut broken) = (Vec::with_capacity(answers.len()), None);
        for (answer, entry) in answers.into_iter().zip(entries) {
            let answer = match (answer, &broken) {
                (Err(sent_on), Some(fault)) if self.links.sends_on(&sent_on) => {
                    Err(Fault::clone(fault))
                }
                // The slot moved in the middle of the pipeline.
                (Err(sent_on), None) if self.links.sends_on(&sent_on) => {
                    let answer = self.links.run(stream, &xadd(entry)).await;
                    broken = answer.as_ref().err().cloned();
                    answer
                }
                (answer, _) => answer,
            };
            ids.push(answer.and_then(|id| reply::id(&id)));
        }
        Ok(ids)
    }

    pub(super) async fn ensure_group(
        &self,
        stream: &str,
        group: &str,
        start: Start,
    ) -> Result<Group, Fault> {
        let mut create = cmd("XGROUP");
        create.arg("CREATE").arg(stream).arg(group);
        match start {
            Start::After(id) => create.arg(id.to_string()),
            Start::New => create.arg("$"),
        };
        match self.links.run(stream, create.arg("MKSTREAM")).await {
            Ok(_) => Ok(Group::Created),
            Err(fault) if fault.text.starts_with("BUSYGROUP") => Ok(Group::Existed),
            Err(fault) => Err(fault),
        }
    }

    pub(super) async fn reader(&self, consumer: &Consumer) -> Result<RedisReader, Fault> {
        self.links.reader(consumer).await
    }
}

/// Its address, never the login.
impl fmt::Display for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.links, f)
    }
}

fn xadd(stream: &str, fields: &Fields) -> Cmd {
    xadd_and_cut(stream, fields, None)
}

fn xadd_and_cut(stream: &str, fields: &Fields, cut: Option<&Cut>) -> Cmd {
    let mut add = Cmd::with_capacity(2 * fields.len() + 6, fields.bytes() + stream.len() + 64);
    add.arg("XADD").arg(stream);
    if let Some(cut) = cut {
        cut.write(&mut add);
    }
    add.arg("*");
    for (name, value) in fields.iter() {
        add.arg(name).arg(value);
    }
    add
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn fenced(answer: &Value) -> Result<Fenced, Fault> {
    match answer {
        Value::Int(1) => Ok(Fenced::Done),
        Value::Int(0) => Ok(Fenced::Gone),
        Value::Int(-1) => Ok(Fenced::Other),
        _ => Err(reply::odd("a script")),
    }
}
