//! Looks at what the server holds, and changes nothing: streams, groups, consumers, pending
//! messages, and what running workers say about themselves.
//!
//! For dashboards and for the program `rillkit`. No worker decides anything by it.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::entry_id::EntryId;
use crate::error::Error;
use crate::fields::Fields;
pub use crate::roster::WorkerInfo;
use crate::store::redis::ServerFacts;
use crate::store::{Entry, Fault, FaultClass, Store};

/// A look at one stream: what [`Broker::inspect`](crate::Broker::inspect) gives.
///
/// ```
/// use rillkit::{Broker, EntryId};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rillkit::Error> {
/// # let broker = Broker::memory();
/// broker.publish("jobs", "a body").await?;
/// let jobs = broker.inspect("jobs");
/// if let Some(info) = jobs.info().await? {
///     println!("{} entries, the newest is {:?}", info.length, info.last);
/// }
/// for group in jobs.groups().await? {
///     println!("{}: {} pending, {:?} not read", group.name, group.pending, group.lag);
///     for row in jobs.pending(&group.name, None, EntryId::MIN, 100).await? {
///         println!("{} at {} for {:?}", row.id, row.consumer, row.idle);
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Inspect {
    store: Store,
    stream: String,
}

/// A stream at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StreamInfo {
    /// How many entries it holds.
    pub length: u64,
    /// How many were ever added to it; servers before 7.0 do not say.
    pub entries_added: Option<u64>,
    /// The oldest entry that it holds.
    pub first: Option<EntryId>,
    /// The newest entry that it holds.
    pub last: Option<EntryId>,
    /// The id that the newest entry was given, whether it is still there or not.
    pub last_id: EntryId,
    /// How many groups it has.
    pub groups: u64,
}

/// A group at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GroupInfo {
    /// Its name.
    pub name: String,
    /// How many consumers it has, dead or alive.
    pub consumers: u64,
    /// Messages that were handed out and are not settled.
    pub pending: u64,
    /// Entries that were not handed out yet, where the server knows: not always, and not before 7.0.
    pub lag: Option<u64>,
    /// The last entry that was handed out.
    pub last_delivered: EntryId,
    /// The oldest entry that is pending.
    pub oldest_pending: Option<EntryId>,
    /// How long that one has not been touched.
    #[serde(rename = "oldest_pending_idle_ms", with = "optional_ms")]
    pub oldest_pending_idle: Option<Duration>,
}

/// A consumer of a group, dead or alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConsumerInfo {
    /// Its name in the group.
    pub name: String,
    /// How many messages are pending for it.
    pub pending: u64,
    /// Since it was last handed something; servers from 7.2 on count every read.
    #[serde(rename = "idle_ms", with = "ms")]
    pub idle: Duration,
}

/// A message that was handed out and is not settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PendingInfo {
    /// Its entry.
    pub id: EntryId,
    /// Whose it is.
    pub consumer: String,
    /// How long it has not been touched: a running handler's is touched at each third of its lease.
    #[serde(rename = "idle_ms", with = "ms")]
    pub idle: Duration,
    /// How often it was handed out.
    pub deliveries: u64,
}

/// An entry of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryInfo {
    /// Its id.
    pub id: EntryId,
    /// Its fields; the body is in `data`.
    pub fields: Fields,
}

/// What a server says about itself; `None` is what it does not say, or not to this login.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerInfo {
    /// `redis` or `valkey`; nothing else is known of a store in process.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The policy by which keys are dropped when memory is full.
    pub eviction: Option<String>,
    /// `aof`, `rdb`, both, or `none`.
    pub persistence: Option<String>,
    /// `standalone`, `cluster`, ...
    pub mode: Option<String>,
}

impl Inspect {
    pub(crate) fn new(store: &Store, stream: &str) -> Self {
        Self {
            store: store.clone(),
            stream: stream.to_owned(),
        }
    }

    /// The stream's key.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// The stream at a glance; `None` where there is no such stream.
    ///
    /// # Errors
    ///
    /// When the server cannot be asked, or the key is not a stream. So it is for all of these.
    pub async fn info(&self) -> Result<Option<StreamInfo>, Error> {
        let info = self.store.stream_info(&self.stream).await;
        info.map_err(|fault| self.failed(&fault))
    }

    /// The stream's groups by name; none where there is no such stream.
    ///
    /// # Errors
    ///
    /// See [`info`](Self::info).
    pub async fn groups(&self) -> Result<Vec<GroupInfo>, Error> {
        let groups = async {
            let mut groups = self.store.group_infos(&self.stream).await?;
            for group in &mut groups {
                // A group may go while we look.
                let oldest = self.held(&group.name, None, EntryId::MIN, 1).await?;
                group.oldest_pending = oldest.first().map(|row| row.id);
                group.oldest_pending_idle = oldest.first().map(|row| row.idle);
            }
            groups.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(groups)
        };
        groups.await.map_err(|fault| self.failed(&fault))
    }

    /// The consumers of a group by name; none where there is no such group.
    ///
    /// # Errors
    ///
    /// See [`info`](Self::info).
    pub async fn consumers(&self, group: &str) -> Result<Vec<ConsumerInfo>, Error> {
        let peers = unless_missing(self.store.peers(&self.stream, group).await)
            .map_err(|fault| self.failed(&fault))?;
        let mut consumers: Vec<_> = peers
            .into_iter()
            .map(|peer| ConsumerInfo {
                name: peer.name.to_string(),
                pending: peer.pending,
                idle: peer.idle,
            })
            .collect();
        consumers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(consumers)
    }

    /// Up to `count` pending messages of a group or of one of its consumers, oldest first, from
    /// the id `from` on. For the next page, ask from [`after`](EntryId::after) the last id.
    ///
    /// # Errors
    ///
    /// See [`info`](Self::info).
    pub async fn pending(
        &self,
        group: &str,
        consumer: Option<&str>,
        from: EntryId,
        count: usize,
    ) -> Result<Vec<PendingInfo>, Error> {
        let rows = self.held(group, consumer, from, count).await;
        rows.map_err(|fault| self.failed(&fault))
    }

    /// Up to `count` entries of the stream, oldest first, from the id `from` on. No group notices.
    ///
    /// # Errors
    ///
    /// See [`info`](Self::info).
    pub async fn entries(&self, from: EntryId, count: usize) -> Result<Vec<EntryInfo>, Error> {
        let entries = self.store.range(&self.stream, from, EntryId::MAX, count);
        let entries = entries.await.map_err(|fault| self.failed(&fault))?;
        Ok(entries.into_iter().map(EntryInfo::from).collect())
    }

    /// The `count` newest entries of the stream, oldest first.
    ///
    /// # Errors
    ///
    /// See [`info`](Self::info).
    pub async fn newest(&self, count: usize) -> Result<Vec<EntryInfo>, Error> {
        // No count at all is no limit, to a server.
        if count == 0 {
            return Ok(Vec::new());
        }
        let (first, last) = (EntryId::MIN, EntryId::MAX);
        let entries = self.store.range_back(&self.stream, first, last, count);
        let entries = entries.await.map_err(|fault| self.failed(&fault))?;
        Ok(entries.into_iter().rev().map(EntryInfo::from).collect())
    }

    /// What the workers of this stream say about themselves, by group and consumer. One that was
    /// killed is among them until its consumer is removed; [`WorkerInfo::noted_at`] tells. A worker
    /// whose login may not write the key is not.
    ///
    /// # Errors
    ///
    /// See [`info`](Self::info).
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>, Error> {
        let rows = self.store.workers(&self.stream).await;
        let rows = rows.map_err(|fault| self.failed(&fault))?;
        let mut workers: Vec<_> = rows
            .iter()
            .filter_map(|row| WorkerInfo::read(row))
            .collect();
        workers.sort_by(|a, b| (&a.group, &a.consumer).cmp(&(&b.group, &b.consumer)));
        Ok(workers)
    }

    /// Whether a message can go from this stream to `dlq` in one step: not so when they are in
    /// different slots of a cluster.
    ///
    /// # Errors
    ///
    /// When it cannot, with what to write.
    pub fn together(&self, dlq: &str) -> Result<(), Error> {
        let together = self.store.together(&self.stream, dlq);
        together.map_err(|fault| self.failed(&fault))
    }

    async fn held(
        &self,
        group: &str,
        consumer: Option<&str>,
        from: EntryId,
        count: usize,
    ) -> Result<Vec<PendingInfo>, Fault> {
        let rows = self.store.held(&self.stream, group, consumer, from, count);
        unless_missing(rows.await)
    }

    fn failed(&self, fault: &Fault) -> Error {
        Error::from_fault(fault, &format!("looking at `{}` failed", self.stream))
    }
}

impl From<Entry> for EntryInfo {
    fn from(entry: Entry) -> Self {
        Self {
            id: entry.id,
            fields: entry.fields,
        }
    }
}

impl From<Option<ServerFacts>> for ServerInfo {
    fn from(facts: Option<ServerFacts>) -> Self {
        facts.map_or_else(Self::default, |facts| Self {
            name: facts.name,
            version: facts.version,
            eviction: facts.eviction,
            persistence: facts.persistence,
            mode: facts.mode,
        })
    }
}

/// Where there is no group, there is nothing in it.
fn unless_missing<T>(rows: Result<Vec<T>, Fault>) -> Result<Vec<T>, Fault> {
    match rows {
        Err(fault) if fault.class == FaultClass::EnsureGroup => Ok(Vec::new()),
        rows => rows,
    }
}

/// Whole milliseconds.
pub(crate) mod ms {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

/// Whole milliseconds, or nothing.
pub(crate) mod optional_ms {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => super::ms::serialize(time, to),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}
