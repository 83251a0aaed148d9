//! Looks for people, and what workers say about themselves.

use tokio::time::Instant;

use super::{Fault, MemoryStore};
use crate::entry_id::EntryId;
use crate::inspect::{GroupInfo, PendingInfo, StreamInfo};
use crate::store::Consumer;

impl MemoryStore {
    pub(crate) async fn streams(&self) -> Result<Vec<String>, Fault> {
        let mut names: Vec<_> = self.lock().streams.keys().cloned().collect();
        names.sort();
        Ok(names)
    }

    pub(crate) async fn stream_info(&self, stream: &str) -> Result<Option<StreamInfo>, Fault> {
        let state = self.lock();
        Ok(state.streams.get(stream).map(|stream| StreamInfo {
            length: stream.entries.len() as u64,
            entries_added: None,
            first: stream.entries.keys().next().copied(),
            last: stream.entries.keys().next_back().copied(),
            last_id: stream.last_id,
            groups: stream.groups.len() as u64,
        }))
    }

    pub(crate) async fn group_infos(&self, stream: &str) -> Result<Vec<GroupInfo>, Fault> {
        let state = self.lock();
        let Some(stream) = state.streams.get(stream) else {
            return Ok(Vec::new());
        };
        let groups = stream.groups.iter().map(|(name, group)| GroupInfo {
            name: name.clone(),
            consumers: group.peers(Instant::now()).len() as u64,
            pending: group.summary().pending,
            lag: Some(stream.entries.range(group.last_id().after()..).count() as u64),
            last_delivered: group.last_id(),
            oldest_pending: None,
            oldest_pending_idle: None,
        });
        Ok(groups.collect())
    }

    pub(crate) async fn held(
        &self,
        stream: &str,
        group: &str,
        consumer: Option<&str>,
        from: EntryId,
        count: usize,
    ) -> Result<Vec<PendingInfo>, Fault> {
        let mut state = self.lock();
        let (group, _) = state.group(stream, group)?;
        Ok(group.held(consumer, from, count, Instant::now()))
    }

    pub(crate) async fn note_worker(&self, consumer: &Consumer, row: &str) -> Result<(), Fault> {
        let mut state = self.lock();
        let roster = state.rosters.entry(consumer.stream.to_owned()).or_default();
        roster.insert(of(consumer), row.as_bytes().to_vec());
        Ok(())
    }

    pub(crate) async fn forget_worker(&self, consumer: &Consumer) -> Result<(), Fault> {
        if let Some(roster) = self.lock().rosters.get_mut(consumer.stream) {
            roster.remove(&of(consumer));
        }
        Ok(())
    }

    pub(crate) async fn workers(&self, stream: &str) -> Result<Vec<Vec<u8>>, Fault> {
        let state = self.lock();
        let roster = state.rosters.get(stream).into_iter();
        Ok(roster.flat_map(|rows| rows.values().cloned()).collect())
    }
}

fn of(consumer: &Consumer) -> (String, String) {
    (consumer.group.to_owned(), consumer.name.to_string())
}
