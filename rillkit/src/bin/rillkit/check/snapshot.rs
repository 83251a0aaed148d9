//! What was seen at one moment, for the judgement that follows. It decides nothing.

use std::collections::BTreeSet;

use rillkit::inspect::{
    ConsumerInfo, GroupInfo, Inspect, PendingInfo, ServerInfo, StreamInfo, WorkerInfo,
};
use rillkit::{Broker, EntryId};

use crate::failure::Failure;
use crate::output::Output;
use crate::time;

/// Pending messages of a group that are looked at one by one, oldest first.
const LOOKED_AT: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// Milliseconds since 1970.
    pub(crate) now: u64,
    pub(crate) server: ServerInfo,
    pub(crate) streams: Vec<Stream>,
}

#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) name: String,
    /// `None` where it is not there.
    pub(crate) info: Option<StreamInfo>,
    pub(crate) groups: Vec<Group>,
    pub(crate) workers: Vec<WorkerInfo>,
    pub(crate) dlqs: Vec<Dlq>,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) info: GroupInfo,
    pub(crate) consumers: Vec<ConsumerInfo>,
    /// Pending messages that the stream does not hold any more, among the oldest.
    pub(crate) gone: Vec<EntryId>,
}

#[derive(Debug)]
pub(crate) struct Dlq {
    pub(crate) name: String,
    pub(crate) info: Option<StreamInfo>,
    /// Why no message can go there in one step.
    pub(crate) apart: Option<String>,
}

impl Snapshot {
    pub(crate) async fn take(
        broker: &Broker,
        names: &[String],
        output: &Output,
    ) -> Result<Self, Failure> {
        let mut progress = output.progress("looking at streams", Some(names.len() as u64));
        let mut streams = Vec::with_capacity(names.len());
        for name in names {
            streams.push(Stream::take(broker, name).await?);
            progress.at(streams.len() as u64);
        }
        drop(progress);
        Ok(Self {
            now: time::now(),
            server: broker.server_info().await,
            streams,
        })
    }
}

impl Stream {
    async fn take(broker: &Broker, name: &str) -> Result<Self, Failure> {
        let stream = broker.inspect(name);
        let info = stream.info().await?;
        // What this login may not look at is not known.
        let workers = stream.workers().await.unwrap_or_default();
        let mut groups = Vec::new();
        for group in stream.groups().await? {
            groups.push(Group::take(&stream, info.as_ref(), group).await?);
        }
        let mut dlqs: BTreeSet<_> = workers.iter().map(|one| one.dlq.clone()).collect();
        if !groups.is_empty() {
            dlqs.insert(format!("{name}-dlq"));
        }
        let declared: BTreeSet<_> = workers.iter().map(|one| &one.dlq).collect();
        let mut found = Vec::new();
        for dlq in dlqs {
            let info = broker.inspect(&dlq).info().await.ok().flatten();
            let together = stream.together(&dlq).err().map(|error| error.to_string());
            // The usual name says nothing where workers use another, or where there are none.
            let apart = together.filter(|_| declared.contains(&dlq));
            found.push(Dlq {
                name: dlq,
                info,
                apart,
            });
        }
        Ok(Self {
            name: name.to_owned(),
            info,
            groups,
            workers,
            dlqs: found,
        })
    }
}

impl Group {
    async fn take(
        stream: &Inspect,
        info: Option<&StreamInfo>,
        group: GroupInfo,
    ) -> Result<Self, Failure> {
        let consumers = stream.consumers(&group.name).await?;
        let first = info.and_then(|info| info.first);
        let below = |id: EntryId| first.is_none_or(|first| id < first);
        let mut gone = Vec::new();
        if group.oldest_pending.is_some_and(below) {
            let rows = stream.pending(&group.name, None, EntryId::MIN, LOOKED_AT);
            let rows: Vec<PendingInfo> = rows.await?;
            gone = rows
                .iter()
                .map(|row| row.id)
                .filter(|id| below(*id))
                .collect();
        }
        Ok(Self {
            info: group,
            consumers,
            gone,
        })
    }
}
