//! Entries as such: ranges, deletions, and the way back from a DLQ.

use super::{MemoryStore, Stream};
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::store::{Entry, Fault, Replayed};

impl MemoryStore {
    pub(in crate::store) async fn range(
        &self,
        stream: &str,
        from: EntryId,
        to: EntryId,
        count: usize,
    ) -> Result<Vec<Entry>, Fault> {
        let state = self.lock();
        let stream = state.streams.get(stream);
        Ok(stream.map_or_else(Vec::new, |stream| {
            stream.within(from, to).take(count).collect()
        }))
    }

    pub(in crate::store) async fn range_back(
        &self,
        stream: &str,
        from: EntryId,
        to: EntryId,
        count: usize,
    ) -> Result<Vec<Entry>, Fault> {
        let state = self.lock();
        let stream = state.streams.get(stream);
        Ok(stream.map_or_else(Vec::new, |stream| {
            stream.within(from, to).rev().take(count).collect()
        }))
    }

    pub(in crate::store) async fn len(&self, stream: &str) -> Result<u64, Fault> {
        let state = self.lock();
        let stream = state.streams.get(stream);
        Ok(stream.map_or(0, |stream| stream.entries.len() as u64))
    }

    pub(in crate::store) async fn still_pending(
        &self,
        stream: &str,
        group: &str,
        ids: &[EntryId],
    ) -> Result<Vec<EntryId>, Fault> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut state = self.lock();
        let (group, _) = state.group(stream, group)?;
        let pending = ids.iter().copied().filter(|id| group.is_pending(*id));
        Ok(pending.collect())
    }

    pub(in crate::store) async fn now_ms(&self, _stream: &str) -> Result<u64, Fault> {
        Ok(self.shared.clock.now_ms())
    }

    pub(in crate::store) async fn delete(
        &self,
        stream: &str,
        ids: &[EntryId],
    ) -> Result<u64, Fault> {
        let mut state = self.lock();
        let Some(stream) = state.streams.get_mut(stream) else {
            return Ok(0);
        };
        let there = ids.iter().filter(|id| stream.entries.remove(id).is_some());
        Ok(there.count() as u64)
    }

    pub(in crate::store) async fn replay(
        &self,
        dlq: &str,
        id: EntryId,
        stream: &str,
        fields: &Fields,
    ) -> Result<Replayed, Fault> {
        let mut state = self.lock();
        if !state
            .streams
            .get(dlq)
            .is_some_and(|dlq| dlq.entries.contains_key(&id))
        {
            return Ok(Replayed::Gone);
        }
        let moved = state.add(stream, fields, self.shared.clock.now_ms())?;
        state.wake(stream);
        state.stream(dlq).entries.remove(&id);
        Ok(Replayed::Moved(moved))
    }
}

impl Stream {
    fn within(&self, from: EntryId, to: EntryId) -> impl DoubleEndedIterator<Item = Entry> {
        // A map panics at a range whose end is before its start.
        let range = (from <= to).then(|| self.entries.range(from..=to));
        range.into_iter().flatten().map(|(id, fields)| Entry {
            id: *id,
            fields: fields.clone(),
        })
    }
}
