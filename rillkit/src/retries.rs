//! The messages that wait for their next delivery: an id, a count and a due time each. No bodies
//! are kept.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::entry_id::EntryId;
use crate::store::Token;

#[derive(Debug, Default)]
pub(crate) struct Retries {
    due: BTreeMap<(Instant, EntryId), u64>,
}

impl Retries {
    pub(crate) fn insert(&mut self, due: Instant, token: Token) {
        self.due.insert((due, token.id), token.deliveries);
    }

    /// Forgets what waits under this id. Rare, so that no index is kept for it.
    pub(crate) fn remove(&mut self, id: EntryId) {
        self.due.retain(|(_, waiting), _| *waiting != id);
    }

    /// When the first is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.keys().next().map(|(due, _)| *due)
    }

    /// Takes up to `count` that are due.
    pub(crate) fn pop_due(&mut self, now: Instant, count: usize) -> Vec<Token> {
        let mut popped = Vec::new();
        while popped.len() < count {
            let Some(first) = self.due.first_entry().filter(|first| first.key().0 <= now) else {
                break;
            };
            let ((_, id), deliveries) = first.remove_entry();
            popped.push(Token { id, deliveries });
        }
        popped
    }

    /// Takes all, with their due times.
    pub(crate) fn drain(&mut self) -> Vec<(Instant, Token)> {
        let all = std::mem::take(&mut self.due).into_iter();
        all.map(|((due, id), deliveries)| (due, Token { id, deliveries }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_due_comes_in_the_order_of_its_time() {
        let (mut retries, now) = (Retries::default(), Instant::now());
        let token = |ms| Token {
            id: EntryId { ms, seq: 0 },
            deliveries: 1,
        };
        for ms in [3, 1, 2] {
            retries.insert(now + Duration::from_millis(ms), token(ms));
        }
        assert_eq!(retries.next_due(), Some(now + Duration::from_millis(1)));
        assert_eq!(retries.pop_due(now, 9), []);
        assert_eq!(
            retries.pop_due(now + Duration::from_millis(2), 9),
            [token(1), token(2)]
        );
        retries.remove(token(3).id);
        assert_eq!(retries.next_due(), None);
    }
}
