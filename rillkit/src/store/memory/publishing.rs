//! Publications that ask for more than an entry.

use std::collections::{BTreeSet, HashMap};

use tokio::time::Instant;

use super::MemoryStore;
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::store::{Fault, Once};
use crate::trim::Trim;

/// What was published under which id of which stream, each for its lifetime.
#[derive(Debug, Default)]
pub(super) struct Markers {
    known: HashMap<(String, String), EntryId>,
    ends: BTreeSet<(Instant, (String, String))>,
}

impl MemoryStore {
    pub(crate) async fn publish_once(
        &self,
        stream: &str,
        fields: &Fields,
        trim: Option<Trim>,
        once: &Once,
    ) -> Result<EntryId, Fault> {
        let mut state = self.lock();
        let now = Instant::now();
        if let Some(known) = state.markers.get(stream, &once.id, now) {
            return Ok(known);
        }
        let added = state.add_and_cut(stream, fields, trim, self.shared.clock.now_ms())?;
        state.wake(stream);
        let end = now.checked_add(once.lifetime);
        state.markers.set(stream, &once.id, added, end);
        Ok(added)
    }
}

impl Markers {
    /// The entry of this id, if it is known still.
    pub(super) fn get(&mut self, stream: &str, id: &str, now: Instant) -> Option<EntryId> {
        while self.ends.first().is_some_and(|(end, _)| *end <= now) {
            if let Some((_, key)) = self.ends.pop_first() {
                self.known.remove(&key);
            }
        }
        self.known.get(&(stream.to_owned(), id.to_owned())).copied()
    }

    /// Notes an id that is not known, until that time, if a clock can tell it.
    pub(super) fn set(&mut self, stream: &str, id: &str, added: EntryId, end: Option<Instant>) {
        let key = (stream.to_owned(), id.to_owned());
        self.known.insert(key.clone(), added);
        self.ends.extend(end.map(|end| (end, key)));
    }
}
