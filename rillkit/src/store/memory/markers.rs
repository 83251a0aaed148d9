//! The markers of idempotency keys, in process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::MemoryStore;
use crate::entry_id::EntryId;
use crate::store::{Begun, Consumer, Done, Fault, Fenced, Keyed, Token};

/// Markers by stream, group and key. Those that have ended are dropped when as many have come as were
/// there after the last time.
#[derive(Default)]
pub(super) struct Keys {
    by_key: HashMap<(&'static str, &'static str, Arc<str>), Marker>,
    tidy_at: usize,
}

struct Marker {
    says: Says,
    until: Instant,
}

#[derive(Clone, PartialEq, Eq)]
enum Says {
    InProgress(Token, Arc<str>),
    Done(EntryId),
}

/// Markers that are kept before any is looked at again.
const FEW: usize = 1000;

impl Keys {
    fn get(&self, consumer: &Consumer, key: &Arc<str>, now: Instant) -> Option<&Says> {
        let marker = self
            .by_key
            .get(&(consumer.stream, consumer.group, Arc::clone(key)));
        let marker = marker.filter(|marker| now < marker.until);
        marker.map(|marker| &marker.says)
    }

    fn set(
        &mut self,
        consumer: &Consumer,
        key: &Arc<str>,
        says: Says,
        now: Instant,
        lasts: Duration,
    ) {
        if self.by_key.len() >= self.tidy_at.max(FEW) {
            self.by_key.retain(|_, marker| now < marker.until);
            self.tidy_at = 2 * self.by_key.len();
        }
        let until = now.checked_add(lasts).unwrap_or(now + FAR);
        self.by_key.insert(
            (consumer.stream, consumer.group, Arc::clone(key)),
            Marker { says, until },
        );
    }

    /// Marks a key as done by this delivery.
    pub(super) fn done(&mut self, consumer: &Consumer, token: Token, done: &Done, now: Instant) {
        let says = Says::Done(token.id);
        self.set(consumer, &done.key, says, now, done.lifetime);
    }

    fn remove(&mut self, consumer: &Consumer, key: &Arc<str>) {
        self.by_key
            .remove(&(consumer.stream, consumer.group, Arc::clone(key)));
    }
}

/// A lifetime that the clock can tell.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

fn in_progress(consumer: &Consumer, token: Token) -> Says {
    Says::InProgress(token, Arc::clone(&consumer.name))
}

impl MemoryStore {
    pub(in crate::store) fn begin(
        &self,
        consumer: &Consumer,
        Keyed { token, key }: &Keyed,
        lease: Duration,
    ) -> Result<Begun, Fault> {
        let (mut state, now) = (self.lock(), Instant::now());
        let (group, _) = state.group(consumer.stream, consumer.group)?;
        match group.fence(&consumer.name, *token) {
            Fenced::Done => {}
            Fenced::Gone => return Ok(Begun::Gone),
            Fenced::Other => return Ok(Begun::Other),
        }
        match state.keys.get(consumer, key, now) {
            Some(Says::Done(id)) => return Ok(Begun::Done(*id)),
            Some(Says::InProgress(other, _)) if other.id != token.id => {
                return Ok(Begun::InProgress(other.id));
            }
            Some(Says::InProgress(..)) | None => {}
        }
        let (group, _) = state.group(consumer.stream, consumer.group)?;
        group.hold(*token, &consumer.name, Duration::ZERO, now);
        let says = in_progress(consumer, *token);
        state.keys.set(consumer, key, says, now, lease);
        Ok(Begun::Marked)
    }

    pub(in crate::store) fn keep(
        &self,
        consumer: &Consumer,
        keyed: &[Keyed],
        lease: Duration,
    ) -> Result<Vec<Fenced>, Fault> {
        let (mut state, now) = (self.lock(), Instant::now());
        let mut answers = Vec::with_capacity(keyed.len());
        for Keyed { token, key } in keyed {
            let (group, _) = state.group(consumer.stream, consumer.group)?;
            let fenced = group.fence(&consumer.name, *token);
            answers.push(fenced);
            if fenced != Fenced::Done {
                continue;
            }
            group.hold(*token, &consumer.name, Duration::ZERO, now);
            let mine = match state.keys.get(consumer, key, now) {
                None => true,
                Some(Says::InProgress(other, _)) => other.id == token.id,
                Some(Says::Done(_)) => false,
            };
            if mine {
                let says = in_progress(consumer, *token);
                state.keys.set(consumer, key, says, now, lease);
            }
        }
        Ok(answers)
    }

    pub(in crate::store) fn finish(
        &self,
        consumer: &Consumer,
        keyed: &[Keyed],
        lifetime: Duration,
    ) -> Result<Vec<Fenced>, Fault> {
        let (mut state, now) = (self.lock(), Instant::now());
        let mut answers = Vec::with_capacity(keyed.len());
        for Keyed { token, key } in keyed {
            let (group, _) = state.group(consumer.stream, consumer.group)?;
            let fenced = group.fence(&consumer.name, *token);
            answers.push(fenced);
            if fenced == Fenced::Done {
                group.settle(token.id);
                state.acked(consumer, [token.id]);
                let says = Says::Done(token.id);
                state.keys.set(consumer, key, says, now, lifetime);
            }
        }
        Ok(answers)
    }

    pub(in crate::store) fn abandon(
        &self,
        consumer: &Consumer,
        Keyed { token, key }: &Keyed,
    ) -> Result<(), Fault> {
        let (mut state, now) = (self.lock(), Instant::now());
        if state.keys.get(consumer, key, now) == Some(&in_progress(consumer, *token)) {
            state.keys.remove(consumer, key);
        }
        Ok(())
    }
}
