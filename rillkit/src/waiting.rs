//! The messages that may not run yet: another message with the same key is in progress, or the store
//! could not be asked. They stay in hand, hold no slot, and are looked at again.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::entry_id::EntryId;
use crate::message::Message;

/// How soon a message is looked at again: in half of the time that it has been in hand, within these.
const SOONEST: Duration = Duration::from_millis(10);
const LATEST: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    by_due: BTreeMap<(Instant, EntryId), Message>,
}

impl Waiting {
    /// Lets a message wait that has been in hand for this long.
    pub(crate) fn insert(&mut self, message: Message, in_hand: Duration, now: Instant) {
        let due = now + (in_hand / 2).clamp(SOONEST, LATEST);
        self.by_due.insert((due, message.id()), message);
    }

    pub(crate) fn len(&self) -> usize {
        self.by_due.len()
    }

    /// When the first is looked at again.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.by_due.keys().next().map(|(due, _)| *due)
    }

    /// Takes one that is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Message> {
        let first = self.by_due.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Takes all.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Message> + use<> {
        std::mem::take(&mut self.by_due).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_one_waits_the_rarer_it_is_looked_at() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        for (in_hand, wait) in [(0, 10), (19, 10), (300, 150), (60_000, 1000)] {
            let message = Message::detached("s", "g", 1, [("data", "1")]);
            waiting.insert(message, Duration::from_millis(in_hand), now);
            let due = now + Duration::from_millis(wait);
            assert_eq!(waiting.next_due(), Some(due));
            assert!(waiting.pop_due(due - Duration::from_nanos(1)).is_none());
            assert!(waiting.pop_due(due).is_some());
        }
        assert_eq!(waiting.len(), 0);
    }
}
