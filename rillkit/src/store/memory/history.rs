//! What a group keeps about failed deliveries: a row for each, by the entry's id and the row's number.

use std::collections::BTreeMap;

use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::history;
use crate::store::{Row, Token};

#[derive(Default)]
pub(super) struct History(BTreeMap<(EntryId, u64), String>);

impl History {
    pub(super) fn keep(&mut self, row: &Row) {
        let place = (row.token.id, history::slot(row.token.deliveries));
        self.0.insert(place, row.text.clone());
    }

    /// The letter with what is known about earlier deliveries in its last field.
    pub(super) fn told_in(&self, letter: &Fields, token: Token) -> Fields {
        let rows = history::slots_before(token.deliveries)
            .filter_map(|slot| self.0.get(&(token.id, slot)))
            .map(String::as_bytes);
        letter.with_last(|list| history::spliced(rows, list))
    }

    /// Forgets the deliveries before this one.
    pub(super) fn forget(&mut self, token: Token) {
        for slot in history::slots_before(token.deliveries) {
            self.0.remove(&(token.id, slot));
        }
    }

    pub(super) fn retain(&mut self, keep: impl Fn(EntryId) -> bool) {
        self.0.retain(|(id, _), _| keep(*id));
    }
}
