//! The way of a command to the server that has its key: the only one, or a node of a cluster.

use std::fmt;

use redis::{Cmd, Pipeline, Script, ScriptInvocation, Value, cmd};

use super::address::Address;
use super::cluster::Cluster;
use super::link::Link;
use super::parts::{Parts, Place};
use super::reader::RedisReader;
use super::{fault, slot};
use crate::error::Error;
use crate::store::{Consumer, Fault, FaultClass};

#[derive(Clone, Debug)]
pub(super) enum Links {
    One(Link),
    Cluster(Cluster),
}

// What a cluster needs is boxed: on one server a command's future stays as small as it was.
impl Links {
    pub(super) fn new(parts: Parts) -> Result<Self, Error> {
        Ok(match parts.place {
            Place::Cluster(_) => Self::Cluster(Cluster::new(&parts)?),
            Place::Host(..) | Place::Socket(_) | Place::Master { .. } => {
                Self::One(Link::new(Address::new(parts)?))
            }
        })
    }

    /// Runs a command whose first key is `key`.
    pub(super) async fn run(&self, key: &str, command: &Cmd) -> Result<Value, Fault> {
        match self {
            Self::One(link) => link.run(command).await,
            Self::Cluster(cluster) => Box::pin(cluster.run(key, command)).await,
        }
    }

    /// Runs a command that stands alone, together with others that do.
    pub(super) async fn run_together(&self, key: &str, command: Cmd) -> Result<Value, Fault> {
        match self {
            Self::One(link) => link.run_together(command).await,
            Self::Cluster(cluster) => Box::pin(cluster.run(key, &command)).await,
        }
    }

    /// Runs a pipeline, all of it for `key`; each command has its own answer.
    pub(super) async fn run_all(
        &self,
        key: &str,
        pipeline: &Pipeline,
    ) -> Result<Vec<Result<Value, Fault>>, Fault> {
        match self {
            Self::One(link) => link.run_all(pipeline).await,
            Self::Cluster(cluster) => Box::pin(cluster.run_all(key, pipeline)).await,
        }
    }

    /// Runs a script whose first key is `key`.
    pub(super) async fn run_script(
        &self,
        key: &str,
        script: &Script,
        fill: impl FnOnce(&mut ScriptInvocation<'_>),
    ) -> Result<Value, Fault> {
        match self {
            Self::One(link) => link.run_script(script, fill).await,
            Self::Cluster(cluster) => {
                let mut invocation = script.prepare_invoke();
                fill(&mut invocation);
                Box::pin(cluster.run_script(key, &invocation)).await
            }
        }
    }

    pub(super) async fn reader(&self, consumer: &Consumer) -> Result<RedisReader, Fault> {
        match self {
            Self::One(link) => RedisReader::connect(link, consumer, None).await,
            Self::Cluster(cluster) => {
                let seat = cluster.seat(consumer).await?;
                let link = seat.link.clone();
                RedisReader::connect(&link, consumer, Some(seat)).await
            }
        }
    }

    pub(super) fn separate(&self) -> Self {
        match self {
            Self::One(link) => Self::One(Link::new(link.address().clone())),
            Self::Cluster(cluster) => Self::Cluster(cluster.separate()),
        }
    }

    /// Whether a command of a pipeline was not run, but has to be sent to another node.
    pub(super) fn sends_on(&self, fault: &Fault) -> bool {
        matches!(self, Self::Cluster(_)) && fault::redirect(fault).is_some()
    }

    /// A server that can be asked about itself.
    pub(super) async fn any(&self) -> Result<Link, Fault> {
        match self {
            Self::One(link) => Ok(link.clone()),
            Self::Cluster(cluster) => cluster.any().await,
        }
    }

    /// The server, or each node of the cluster that has slots.
    pub(super) async fn every(&self) -> Result<Vec<Link>, Fault> {
        match self {
            Self::One(link) => Ok(vec![link.clone()]),
            Self::Cluster(cluster) => cluster.every().await,
        }
    }

    /// The server that has the consumer's stream.
    pub(super) async fn home(&self, consumer: &Consumer) -> Result<Link, Fault> {
        match self {
            Self::One(link) => Ok(link.clone()),
            Self::Cluster(cluster) => Ok(cluster.seat(consumer).await?.link),
        }
    }

    /// Whether a message can go from one to the other in one step. Keys of one server always can.
    pub(super) fn together(&self, stream: &str, dlq: &str) -> Result<(), Fault> {
        match self {
            Self::One(_) => Ok(()),
            Self::Cluster(_) => slot::shared(stream, dlq),
        }
    }

    /// Whether a command on this key can go with the stream's; otherwise what to do. Keys of one
    /// server always can.
    pub(super) fn beside(&self, stream: &str, key: &str) -> Result<(), String> {
        match self {
            Self::One(_) => Ok(()),
            Self::Cluster(_) => slot::same(stream, key),
        }
    }

    /// Whether the server is what the URL says: a node of a cluster would do as a single server
    /// until the first key that another node has. A server that does not tell is believed.
    pub(super) async fn check(&self) -> Result<(), Fault> {
        let Self::One(link) = self else {
            return Ok(());
        };
        match link.run(cmd("INFO").arg("cluster")).await {
            Ok(Value::BulkString(info)) if says_cluster(&info) => Err(Fault::new(
                FaultClass::Config,
                format!(
                    "{0} is a node of a redis cluster; write the URL as `redis+cluster://{0}`, with \
                     user and password as before",
                    link.address()
                ),
            )),
            Err(fault) if fault.class == FaultClass::Unreachable => Err(fault),
            _ => Ok(()),
        }
    }
}

fn says_cluster(info: &[u8]) -> bool {
    info.split(|byte| *byte == b'\n')
        .any(|line| line.starts_with(b"cluster_enabled:1"))
}

impl fmt::Display for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(link) => fmt::Display::fmt(link.address(), f),
            Self::Cluster(cluster) => fmt::Display::fmt(cluster, f),
        }
    }
}
