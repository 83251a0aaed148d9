//! A Redis Cluster: sends each command to the node that has its key.
//!
//! A node that does not have the key says so (`MOVED`, `ASK`) and has done nothing, so that the
//! command is sent on. Nothing else is ever sent twice: after a broken connection only the caller
//! knows whether that is safe. A node that cannot be reached makes the next command ask the cluster
//! who has which slot.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Cmd, Pipeline, RedisResult, ScriptInvocation, Value, cmd};

use super::address::Address;
use super::asking::Asking;
use super::fault::{self, Redirect};
use super::link::Link;
use super::nodes::{self, Nodes};
use super::parts::{Parts, Place};
use super::{reply, slot};
use crate::backoff::Backoff;
use crate::error::Error;
use crate::store::{Consumer, Fault, FaultClass};

/// How many nodes one command is sent to. Nodes that do not agree, as at the end of a move, send it
/// to and fro.
const HOPS: usize = 6;
/// How long one node may take to say who has which slot, before the next one is asked.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    /// Where to ask first, and where to ask when no known node answers.
    seeds: Vec<Address>,
    nodes: Mutex<Nodes>,
    /// One asks the cluster at a time; the others wait for what it learns.
    learning: tokio::sync::Mutex<()>,
}

/// Where a reader connects to.
#[derive(Clone)]
pub(super) struct Seat {
    pub(super) link: Link,
    /// The slot is not yet this node's.
    pub(super) asking: bool,
    cluster: Cluster,
    slot: u16,
}

/// What is sent, once or, sent on, again.
#[derive(Clone, Copy)]
enum Call<'a> {
    Command(&'a Cmd),
    All(&'a Pipeline),
    Script(&'a ScriptInvocation<'a>),
}

impl Call<'_> {
    async fn send(self, connection: &mut impl redis::aio::ConnectionLike) -> RedisResult<Value> {
        match self {
            Self::Command(command) => command.query_async(connection).await,
            Self::All(pipeline) => pipeline.query_async(connection).await,
            Self::Script(script) => script.invoke_async(connection).await,
        }
    }
}

impl Cluster {
    /// The cluster of these parts, whose place names some of its nodes.
    pub(super) fn new(parts: &Parts) -> Result<Self, Error> {
        let Place::Cluster(nodes) = &parts.place else {
            return Ok(Self::of(vec![Address::new(parts.clone())?]));
        };
        let seed = |(host, port): &(String, u16)| {
            let place = Place::Host(host.clone(), *port);
            Address::new(Parts {
                place,
                ..parts.clone()
            })
        };
        let seeds: Result<_, Error> = nodes.iter().map(seed).collect();
        seeds.map(Self::of)
    }

    fn of(seeds: Vec<Address>) -> Self {
        Self {
            inner: Arc::new(Inner {
                seeds,
                nodes: Mutex::default(),
                learning: tokio::sync::Mutex::default(),
            }),
        }
    }

    /// The same cluster on connections of its own. It asks the nodes known now before the seeds,
    /// which may be gone by the time of its first command.
    pub(super) fn separate(&self) -> Self {
        let known = self.nodes().links().to_vec();
        let mut seeds: Vec<_> = known.iter().map(|link| link.address().clone()).collect();
        seeds.extend_from_slice(&self.inner.seeds);
        Self::of(seeds)
    }

    pub(super) async fn run(&self, key: &str, command: &Cmd) -> Result<Value, Fault> {
        self.call(slot::of(key), Call::Command(command)).await
    }

    pub(super) async fn run_all(
        &self,
        key: &str,
        pipeline: &Pipeline,
    ) -> Result<Vec<Result<Value, Fault>>, Fault> {
        let (link, _, answers) = self.route(slot::of(key), Call::All(pipeline)).await?;
        let judged = |answer: Value| {
            answer
                .extract_error()
                .map_err(|error| link.address().judge(&error).0)
        };
        Ok(reply::array(answers?)?.into_iter().map(judged).collect())
    }

    pub(super) async fn run_script(
        &self,
        key: &str,
        script: &ScriptInvocation<'_>,
    ) -> Result<Value, Fault> {
        self.call(slot::of(key), Call::Script(script)).await
    }

    /// Where a reader of this consumer has to connect to. A look at its stream finds out.
    pub(super) async fn seat(&self, consumer: &Consumer) -> Result<Seat, Fault> {
        let slot = slot::of(consumer.stream);
        let mut look = cmd("XPENDING");
        look.arg(consumer.stream).arg(consumer.group);
        let (link, asking, answer) = self.route(slot, Call::Command(&look)).await?;
        match answer {
            Err(fault) if is_of_connection(&fault) => Err(fault),
            // Whatever else it says, it says it about a key of its own.
            _ => Ok(Seat {
                link,
                asking,
                cluster: self.clone(),
                slot,
            }),
        }
    }

    /// A node that can be asked about itself.
    pub(super) async fn any(&self) -> Result<Link, Fault> {
        self.owner(0).await
    }

    /// Each node that has slots.
    pub(super) async fn every(&self) -> Result<Vec<Link>, Fault> {
        self.owner(0).await?;
        Ok(self.nodes().links().to_vec())
    }

    async fn call(&self, slot: u16, call: Call<'_>) -> Result<Value, Fault> {
        self.route(slot, call).await?.2
    }

    /// Sends it to the node that has the slot, wherever that takes it: that node, whether it had to
    /// be asked with `ASKING`, and its answer.
    async fn route(
        &self,
        slot: u16,
        call: Call<'_>,
    ) -> Result<(Link, bool, Result<Value, Fault>), Fault> {
        let (mut exception, mut unreachable) = (None, false);
        let mut backoff = Backoff::short();
        for hop in 0..HOPS {
            if hop > 1 {
                tokio::time::sleep(backoff.wait()).await;
            }
            let (link, asking) = match exception.take() {
                Some(link) => (link, true),
                None => (self.owner(slot).await?, false),
            };
            let answer = send(&link, asking, call).await;
            let Err(fault) = &answer else {
                return Ok((link, asking, answer));
            };
            if let Some(redirect) = fault::redirect(fault) {
                exception = self.follow(slot, &link, redirect)?;
                continue;
            }
            if puts_in_doubt(fault) {
                self.nodes().doubt();
            }
            // Nothing was sent, and the node may have been replaced.
            if fault.class == FaultClass::Unreachable && !std::mem::replace(&mut unreachable, true)
            {
                continue;
            }
            return Ok((link, asking, answer));
        }
        self.nodes().doubt();
        Err(Fault::new(
            FaultClass::Wait,
            format!("the nodes of the cluster do not agree on who has slot {slot}"),
        ))
    }

    /// Notes where a slot has moved to; or the node that is to be asked this once.
    fn follow(
        &self,
        slot: u16,
        link: &Link,
        redirect: Redirect<'_>,
    ) -> Result<Option<Link>, Fault> {
        let Redirect { ask, host, port } = redirect;
        if ask {
            return self.nodes().at(link.address(), host, port).map(Some);
        }
        self.nodes().moved(slot, link.address(), host, port)?;
        Ok(None)
    }

    async fn owner(&self, slot: u16) -> Result<Link, Fault> {
        let known = || self.nodes().owner(slot);
        if let Some(link) = known() {
            return Ok(link);
        }
        let _alone = self.inner.learning.lock().await;
        if let Some(link) = known() {
            return Ok(link);
        }
        self.learn().await?;
        known().ok_or_else(|| {
            Fault::new(
                FaultClass::Wait,
                format!("no node of the cluster has slot {slot}"),
            )
        })
    }

    /// Asks the nodes, one after the other, who has which slot, until one knows.
    async fn learn(&self) -> Result<(), Fault> {
        let mut links = self.nodes().links().to_vec();
        // Those with a connection are the likelier to answer at once.
        links.sort_by_key(|link| !link.is_connected());
        for seed in &self.inner.seeds {
            if !links.iter().any(|link| link.address().same(seed)) {
                links.push(Link::new(seed.clone()));
            }
        }
        let mut fault = Fault::new(FaultClass::Wait, "no node of the cluster has any slot");
        let mut ask = cmd("CLUSTER");
        ask.arg("SLOTS");
        for link in links {
            fault = match tokio::time::timeout(ASK_TIMEOUT, link.run(&ask)).await {
                Ok(Ok(answer)) => {
                    let ranges = nodes::ranges(answer)?;
                    if !ranges.is_empty() {
                        return self.nodes().learn(link.address(), &ranges);
                    }
                    continue;
                }
                Ok(Err(fault)) if fault.class == FaultClass::Config => return Err(fault),
                Ok(Err(fault)) => fault,
                Err(_) => Fault::new(
                    FaultClass::Unreachable,
                    format!("{} does not answer", link.address()),
                ),
            };
        }
        if fault.class == FaultClass::Reconnect {
            // The question was lost, and nothing with it.
            fault.class = FaultClass::Unreachable;
        }
        Err(fault)
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.inner
            .nodes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// What a read's fault means here: a node that does not have the stream (any more) is left.
    pub(super) fn fault(&self, fault: Fault) -> Fault {
        let Some(redirect) = fault::redirect(&fault) else {
            if puts_in_doubt(&fault) {
                self.cluster.nodes().doubt();
            }
            return fault;
        };
        let (host, port) = (redirect.host, redirect.port);
        let text = format!(
            "slot {} of the cluster moves to the node {host}:{port}",
            self.slot
        );
        match self.cluster.follow(self.slot, &self.link, redirect) {
            Ok(_) => Fault::new(FaultClass::Reconnect, text),
            Err(fault) => fault,
        }
    }
}

async fn send(link: &Link, asking: bool, call: Call<'_>) -> Result<Value, Fault> {
    let (mut connection, number) = link.connection().await?;
    let answer = if asking {
        call.send(&mut Asking(connection)).await
    } else {
        call.send(&mut connection).await
    };
    link.sort(number, answer)
}

fn is_of_connection(fault: &Fault) -> bool {
    matches!(fault.class, FaultClass::Reconnect | FaultClass::Unreachable)
}

/// Whether another node may have the slot by now, though this one does not say so.
fn puts_in_doubt(fault: &Fault) -> bool {
    is_of_connection(fault) || fault.text.starts_with("CLUSTERDOWN")
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, seed) in self.inner.seeds.iter().enumerate() {
            write!(f, "{}{seed}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("seeds", &self.inner.seeds)
            .finish_non_exhaustive()
    }
}
