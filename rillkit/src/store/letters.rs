//! What the tools for dead letters ask of a store: moves and looks that know no group.

use super::{Entry, Fault, Replayed, Store};
use crate::entry_id::EntryId;
use crate::fields::Fields;

impl Store {
    /// If `dlq` still holds `id`: adds `fields` to the stream and deletes `id`, in one step.
    pub(crate) async fn replay(
        &self,
        dlq: &str,
        id: EntryId,
        stream: &str,
        fields: &Fields,
    ) -> Result<Replayed, Fault> {
        ask!(self, it => it.replay(dlq, id, stream, fields))
    }

    /// Deletes entries; how many of them were there.
    pub(crate) async fn delete(&self, stream: &str, ids: &[EntryId]) -> Result<u64, Fault> {
        ask!(self, it => it.delete(stream, ids))
    }

    /// Up to `count` entries from `to` down to `from`, both included, the newest first.
    pub(crate) async fn range_back(
        &self,
        stream: &str,
        from: EntryId,
        to: EntryId,
        count: usize,
    ) -> Result<Vec<Entry>, Fault> {
        ask!(self, it => it.range_back(stream, from, to, count))
    }

    /// How many entries a stream holds; none where it is missing.
    pub(crate) async fn len(&self, stream: &str) -> Result<u64, Fault> {
        ask!(self, it => it.len(stream))
    }

    /// The clock that the ids of new entries of this stream come from, in milliseconds.
    pub(crate) async fn now_ms(&self, stream: &str) -> Result<u64, Fault> {
        ask!(self, it => it.now_ms(stream))
    }

    /// Which of these entries the group has pending, whoever has them.
    pub(crate) async fn still_pending(
        &self,
        stream: &str,
        group: &str,
        ids: &[EntryId],
    ) -> Result<Vec<EntryId>, Fault> {
        ask!(self, it => it.still_pending(stream, group, ids))
    }
}
