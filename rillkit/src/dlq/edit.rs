//! A letter with other contents: it goes back to its stream as what it should have been.

use std::collections::BTreeSet;

use super::letter::Letter;
use super::queue::Queue;
use crate::entry_id::EntryId;
use crate::error::Error;
use crate::publish;
use crate::store::{Fault, Replayed};

impl Queue {
    /// Replays the letter with other fields; `None` where it is not there (any more).
    pub(super) async fn replay_as(
        &self,
        id: EntryId,
        edit: impl FnOnce(&Letter) -> Letter,
    ) -> Result<Option<EntryId>, Error> {
        let failed = |fault: Fault| {
            let what = format!("replaying the edited letter {id} of `{}` failed", self.name);
            Error::from_fault(&fault, &what)
        };
        let together = self.store.together(&self.stream, &self.name);
        together.map_err(failed)?;
        let found = self.store.range(&self.name, id, id, 1).await;
        let letter = found.map_err(failed)?.pop().map(Letter::from);
        let Some(letter) = letter.filter(|letter| self.owns(letter)) else {
            return Ok(None);
        };
        let groups = self.store.groups(&self.stream).await.map_err(failed)?;
        let groups: BTreeSet<_> = groups.into_iter().map(|(name, _)| name).collect();
        let Some(fields) = edit(&letter).replayed(&groups) else {
            return Err(publish::no_fields());
        };
        publish::fits(&self.stream, &fields, self.largest)?;
        let moved = self.store.replay(&self.name, id, &self.stream, &fields);
        match moved.await.map_err(failed)? {
            Replayed::Moved(id) => Ok(Some(id)),
            Replayed::Gone => Ok(None),
        }
    }
}
