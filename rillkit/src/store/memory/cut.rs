//! What goes from the old end of a stream.

use std::time::Duration;

use super::Stream;
use crate::entry_id::EntryId;
use crate::store::{Spared, Standing, TrimStep};
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

    /// A step of a safe trim.
    pub(super) fn trim(&mut self, spared: &Spared, most: u64, now_ms: u64) -> TrimStep {
        let groups: Vec<_> = self
            .groups
            .iter()
            .filter(|(name, _)| !spared.ignored_groups.contains(name))
            .map(|(name, group)| group.standing(name, &self.entries))
            .collect();
        let needed = groups.iter().map(needed_from).min();
        let floor = needed.or(spared.unless_grouped.then_some(EntryId::MAX));
        let oldest = spared.younger_than.map(|age| oldest(now_ms, age));
        let floor = floor.map(|floor| oldest.map_or(floor, |oldest| oldest.min(floor)));
        let excess = (self.entries.len() as u64).saturating_sub(spared.newest);
        let mut removed = 0;
        while removed < most.min(excess)
            && let Some(first) = self.entries.first_entry()
            && floor.is_some_and(|floor| *first.key() < floor)
        {
            first.remove();
            removed += 1;
        }
        TrimStep {
            removed,
            left: self.entries.len() as u64,
            floor,
            groups,
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

/// The lowest id that a group needs.
fn needed_from(standing: &Standing) -> EntryId {
    let unread = standing.last.after();
    standing.lowest.map_or(unread, |lowest| lowest.min(unread))
}

/// The lowest id that is not older than this.
fn oldest(now_ms: u64, age: Duration) -> EntryId {
    let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    EntryId {
        ms: now_ms.saturating_sub(age),
        seq: 0,
    }
}
