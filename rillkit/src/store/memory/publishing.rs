//! Publications that ask for more than an entry.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::MemoryStore;
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::store::{Fault, Options};

/// What was published under which id of which stream, each for its lifetime.
#[derive(Debug, Default)]
pub(super) struct Markers {
    known: HashMap<(String, String), EntryId>,
    ends: BTreeSet<(Instant, (String, String))>,
}

impl MemoryStore {
    pub(crate) async fn publish_with(
        &self,
        stream: &str,
        fields: &Fields,
        options: &Options,
    ) -> Result<EntryId, Fault> {
        let mut state = self.lock();
        let now = Instant::now();
        if let Some(once) = &options.once
            && let Some(known) = state.markers.get(stream, &once.id, now)
        {
            return Ok(known);
        }
        let added = state.add(stream, fields, self.shared.clock.now_ms())?;
        state.wake(stream);
        if let Some(once) = &options.once {
            state.markers.set(stream, &once.id, added, once.lifetime);
        }
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

    /// Notes an id that is not known.
    pub(super) fn set(&mut self, stream: &str, id: &str, added: EntryId, lifetime: Duration) {
        let key = (stream.to_owned(), id.to_owned());
        self.known.insert(key.clone(), added);
        // One without an end that a clock can tell is kept.
        if let Some(end) = Instant::now().checked_add(lifetime) {
            self.ends.insert((end, key));
        }
    }
}
