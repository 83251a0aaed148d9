//! What goes from the old end of a stream.

use std::time::Duration;

use super::Stream;
use crate::entry_id::EntryId;
use crate::trim::Trim;

impl Stream {
    /// Removes what the trim says, and nothing less: there are no nodes here.
    pub(super) fn cut(&mut self, trim: Trim, now_ms: u64) {
        match trim {
            Trim::MaxLen(length) | Trim::MaxLenExact(length) => {
                while self.entries.len() as u64 > length {
                    self.entries.pop_first();
                }
            }
            Trim::MinId(id) => self.cut_below(id),
            Trim::MaxAge(age) => self.cut_below(oldest(now_ms, age)),
        }
    }

    fn cut_below(&mut self, id: EntryId) {
        while let Some(first) = self.entries.first_entry()
            && *first.key() < id
        {
            first.remove();
        }
    }
}

/// The lowest id that is not older than this.
fn oldest(now_ms: u64, age: Duration) -> EntryId {
    let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    EntryId {
        ms: now_ms.saturating_sub(age),
        seq: 0,
    }
}
