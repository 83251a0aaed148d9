//! The store in this process: what a Redis server does for the contract, and nothing more.
//!
//! All state is behind one lock, and every operation runs under it from its first poll to its end,
//! so each is atomic. Nothing is kept when the last clone of a store is dropped. Time is tokio's:
//! with a paused clock, idle times and block times follow that clock. What a group knows is in
//! `group`, what it keeps about failed deliveries in `history`, the waiting of blocking reads in
//! `reader`, what goes from a stream in `cut`, what concerns entries without a group in `letters`, and
//! what other keys hold in `values`.

mod commits;
mod cut;
mod delayed;
mod group;
mod history;
mod inspect;
mod letters;
mod markers;
#[cfg(test)]
mod model;
mod publishing;
mod reader;
#[cfg(test)]
mod tests;
mod values;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

pub(crate) use reader::MemoryReader;

use super::{
    Acked, Consumer, Entry, Fault, FaultClass, Fenced, Group as Ensured, Peer, Pending, Return,
    Row, Rows, Spared, Start, Summary, Take, Taken, Token, TrimStep,
};
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::trim::Trim;
use delayed::Delayed;
use group::Group;
use markers::Keys;
use publishing::Markers;
use reader::Line;
use values::Values;

/// A handle to a store in this process; clones are the same store.
#[derive(Clone)]
pub(crate) struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    streams: HashMap<String, Stream>,
    /// What the workers of a stream say about themselves, by group and consumer.
    rosters: HashMap<String, BTreeMap<(String, String), Vec<u8>>>,
    /// Who may wait for entries of a stream, which need not exist yet.
    readers: HashMap<&'static str, Vec<Weak<Line>>>,
    /// Keys that are no streams.
    values: Values,
    markers: Markers,
    keys: Keys,
    delayed: HashMap<String, Delayed>,
}

type Entries = BTreeMap<EntryId, Fields>;

struct Stream {
    entries: Entries,
    last_id: EntryId,
    groups: BTreeMap<String, Group>,
}

/// The milliseconds in ids: the wall clock when the store was made, and tokio's clock from there.
#[derive(Clone, Copy)]
struct Clock {
    origin: Instant,
    origin_ms: Duration,
}

/// The stores that have a name, while somebody holds them.
static NAMED: LazyLock<Mutex<HashMap<String, Weak<Shared>>>> = LazyLock::new(Mutex::default);

impl MemoryStore {
    /// An empty store that only its clones share.
    pub(crate) fn new() -> Self {
        let origin_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let clock = Clock {
            origin: Instant::now(),
            origin_ms,
        };
        Self {
            shared: Arc::new(Shared {
                clock,
                state: Mutex::default(),
            }),
        }
    }

    /// The store of this name, shared by all in this process who hold it; when nobody does any
    /// more, the name stands for a new one.
    pub(crate) fn named(name: &str) -> Self {
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = named.get(name).and_then(Weak::upgrade) {
            return Self { shared };
        }
        named.retain(|_, shared| shared.strong_count() > 0);
        let store = Self::new();
        named.insert(name.to_owned(), Arc::downgrade(&store.shared));
        store
    }

    pub(crate) async fn publish(
        &self,
        stream: &str,
        entries: &[Fields],
        trim: Option<Trim>,
    ) -> Result<Vec<Result<EntryId, Fault>>, Fault> {
        let mut state = self.lock();
        let now_ms = self.shared.clock.now_ms();
        let ids = entries
            .iter()
            .map(|fields| state.add_and_cut(stream, fields, trim, now_ms))
            .collect();
        state.wake(stream);
        Ok(ids)
    }

    pub(crate) async fn ensure_group(
        &self,
        stream: &str,
        group: &str,
        start: Start,
    ) -> Result<Ensured, Fault> {
        let mut state = self.lock();
        let stream = state.stream(stream);
        if stream.groups.contains_key(group) {
            return Ok(Ensured::Existed);
        }
        let after = match start {
            Start::After(id) => id,
            Start::New => stream.last_id,
        };
        stream.groups.insert(group.to_owned(), Group::new(after));
        Ok(Ensured::Created)
    }

    pub(crate) async fn reader(&self, consumer: &Consumer) -> Result<MemoryReader, Fault> {
        let line = Arc::new(Line::default());
        let mut state = self.lock();
        let lines = state.readers.entry(consumer.stream).or_default();
        lines.retain(|line| line.strong_count() > 0);
        lines.push(Arc::downgrade(&line));
        Ok(MemoryReader::new(self.clone(), consumer.clone(), line))
    }

    pub(crate) async fn ack(&self, consumer: &Consumer, ids: &[EntryId]) -> Result<(), Fault> {
        // As on Redis, an ack where there is no group finds nothing to ack.
        let mut state = self.lock();
        if let Ok((group, _)) = state.group(consumer.stream, consumer.group) {
            for id in ids {
                group.settle(*id);
            }
        }
        state.acked(consumer, ids.iter().copied());
        Ok(())
    }

    pub(crate) async fn ack_fenced(
        &self,
        consumer: &Consumer,
        tokens: &[Token],
    ) -> Result<Vec<Fenced>, Fault> {
        let mut state = self.lock();
        let (group, _) = state.group(consumer.stream, consumer.group)?;
        let ack = |token: &Token| {
            let fenced = group.fence(&consumer.name, *token);
            if fenced == Fenced::Done {
                group.settle(token.id);
            }
            fenced
        };
        let answers: Vec<_> = tokens.iter().map(ack).collect();
        let acked = tokens.iter().zip(&answers);
        let acked = acked.filter(|(_, answer)| **answer == Fenced::Done);
        state.acked(consumer, acked.map(|(token, _)| token.id));
        Ok(answers)
    }

    pub(crate) async fn touch(
        &self,
        consumer: &Consumer,
        tokens: &[Token],
    ) -> Result<Vec<Fenced>, Fault> {
        let mut state = self.lock();
        let (group, _) = state.group(consumer.stream, consumer.group)?;
        let now = Instant::now();
        let touch = |token: &Token| {
            let fenced = group.fence(&consumer.name, *token);
            if fenced == Fenced::Done {
                group.hold(*token, &consumer.name, Duration::ZERO, now);
            }
            fenced
        };
        Ok(tokens.iter().map(touch).collect())
    }

    pub(crate) async fn take(
        &self,
        consumer: &Consumer,
        takes: &[Take],
    ) -> Result<Vec<Taken>, Fault> {
        let mut state = self.lock();
        let (group, entries) = state.group(consumer.stream, consumer.group)?;
        let now = Instant::now();
        Ok(takes
            .iter()
            .map(|take| group.take(entries, take, &consumer.name, now))
            .collect())
    }

    pub(crate) async fn give(
        &self,
        consumer: &Consumer,
        to: &str,
        returns: &[Return],
    ) -> Result<Vec<Fenced>, Fault> {
        let mut state = self.lock();
        let (group, _) = state.group(consumer.stream, consumer.group)?;
        let now = Instant::now();
        let to = Arc::from(to);
        let give = |back: &Return| {
            let fenced = group.fence(&consumer.name, back.token);
            if fenced == Fenced::Done {
                let token = Token {
                    id: back.token.id,
                    deliveries: back.deliveries,
                };
                group.hold(token, &to, back.idle, now);
            }
            fenced
        };
        Ok(returns.iter().map(give).collect())
    }

    pub(crate) async fn dead_letter(
        &self,
        consumer: &Consumer,
        token: Token,
        dlq: &str,
        letter: &Fields,
        rows: Rows,
    ) -> Result<Fenced, Fault> {
        let mut state = self.lock();
        let (group, _) = state.group(consumer.stream, consumer.group)?;
        let fenced = group.fence(&consumer.name, token);
        if fenced != Fenced::Done {
            return Ok(fenced);
        }
        let letter = match rows {
            Rows::Moved => &group.history().told_in(letter, token),
            Rows::Left => letter,
        };
        state.add(dlq, letter, self.shared.clock.now_ms())?;
        state.wake(dlq);
        let (group, _) = state.group(consumer.stream, consumer.group)?;
        group.settle(token.id);
        if rows == Rows::Moved {
            group.history().forget(token);
        }
        state.acked(consumer, [token.id]);
        Ok(Fenced::Done)
    }

    pub(crate) async fn keep_history(
        &self,
        consumer: &Consumer,
        rows: &[Row],
    ) -> Result<(), Fault> {
        if let Ok((group, _)) = self.lock().group(consumer.stream, consumer.group) {
            for row in rows {
                group.history().keep(row);
            }
        }
        Ok(())
    }

    pub(crate) async fn forget_history(
        &self,
        consumer: &Consumer,
        tokens: &[Token],
    ) -> Result<(), Fault> {
        if let Ok((group, _)) = self.lock().group(consumer.stream, consumer.group) {
            for token in tokens {
                group.history().forget(*token);
            }
        }
        Ok(())
    }

    /// All at once: there are no more rows than messages that wait for a retry have.
    pub(crate) async fn tidy_history(&self, consumer: &Consumer, _: u64) -> Result<u64, Fault> {
        let mut state = self.lock();
        let (group, _) = state.group(consumer.stream, consumer.group)?;
        group.tidy_history();
        Ok(0)
    }

    pub(crate) async fn summary(&self, stream: &str, group: &str) -> Result<Summary, Fault> {
        Ok(self.lock().group(stream, group)?.0.summary())
    }

    pub(crate) async fn peers(&self, stream: &str, group: &str) -> Result<Vec<Peer>, Fault> {
        Ok(self.lock().group(stream, group)?.0.peers(Instant::now()))
    }

    pub(crate) async fn pending(
        &self,
        stream: &str,
        group: &str,
        consumer: &str,
        from: EntryId,
        count: usize,
    ) -> Result<Vec<Pending>, Fault> {
        Ok(self
            .lock()
            .group(stream, group)?
            .0
            .pending(consumer, from, count, Instant::now()))
    }

    pub(crate) async fn remove_consumer(
        &self,
        consumer: &Consumer,
        min_idle: Duration,
    ) -> Result<bool, Fault> {
        Ok(self
            .lock()
            .group(consumer.stream, consumer.group)?
            .0
            .remove_if_empty(&consumer.name, min_idle, Instant::now()))
    }

    pub(crate) async fn groups(&self, stream: &str) -> Result<Vec<(String, EntryId)>, Fault> {
        let state = self.lock();
        let groups = state.streams.get(stream).map(|stream| &stream.groups);
        Ok(groups
            .into_iter()
            .flatten()
            .map(|(name, group)| (name.clone(), group.last_id()))
            .collect())
    }

    pub(crate) async fn last_id(&self, stream: &str) -> Result<Option<EntryId>, Fault> {
        Ok(self.lock().streams.get(stream).map(|stream| stream.last_id))
    }

    pub(crate) async fn trim(
        &self,
        stream: &str,
        spared: &Spared,
        most: u64,
    ) -> Result<TrimStep, Fault> {
        let now_ms = self.shared.clock.now_ms();
        let mut state = self.lock();
        let stream = state.streams.get_mut(stream);
        let stream = stream.filter(|stream| !stream.entries.is_empty());
        Ok(stream.map_or_else(TrimStep::default, |stream| {
            stream.trim(spared, most, now_ms)
        }))
    }

    pub(crate) async fn count(
        &self,
        stream: &str,
        from: EntryId,
        to: EntryId,
        most: u64,
    ) -> Result<(u64, Option<EntryId>), Fault> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let counted = self.range(stream, from, to, most).await?;
        Ok((counted.len() as u64, counted.last().map(|entry| entry.id)))
    }

    /// The next entries of the consumer's group, at once; an empty answer where there are none.
    fn hand_out(&self, consumer: &Consumer, count: usize) -> Result<Vec<Entry>, Fault> {
        let mut state = self.lock();
        let (group, entries) = state.group(consumer.stream, consumer.group)?;
        Ok(group.hand_out(entries, &consumer.name, count, Instant::now()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl State {
    /// The stream, made where it is missing.
    fn stream(&mut self, name: &str) -> &mut Stream {
        let new = || Stream {
            entries: Entries::new(),
            last_id: EntryId::MIN,
            groups: BTreeMap::new(),
        };
        self.streams.entry(name.to_owned()).or_insert_with(new)
    }

    fn group(&mut self, stream: &str, group: &str) -> Result<(&mut Group, &Entries), Fault> {
        let missing = || {
            let text =
                format!("NOGROUP no stream '{stream}', or no consumer group '{group}' on it");
            Fault::new(FaultClass::EnsureGroup, text)
        };
        let stream = self.streams.get_mut(stream).ok_or_else(missing)?;
        let group = stream.groups.get_mut(group).ok_or_else(missing)?;
        Ok((group, &stream.entries))
    }

    /// Deletes what was acked, where the consumer says so.
    fn acked(&mut self, consumer: &Consumer, ids: impl IntoIterator<Item = EntryId>) {
        if consumer.acked == Acked::Stays {
            return;
        }
        if let Some(stream) = self.streams.get_mut(consumer.stream) {
            for id in ids {
                stream.entries.remove(&id);
            }
        }
    }

    fn add(&mut self, stream: &str, fields: &Fields, now_ms: u64) -> Result<EntryId, Fault> {
        if fields.is_empty() {
            return Err(Fault::new(FaultClass::Config, "ERR an entry needs a field"));
        }
        let stream = self.stream(stream);
        let id = if now_ms > stream.last_id.ms {
            EntryId { ms: now_ms, seq: 0 }
        } else {
            stream.last_id.after()
        };
        stream.entries.insert(id, fields.clone());
        stream.last_id = id;
        Ok(id)
    }

    fn add_and_cut(
        &mut self,
        stream: &str,
        fields: &Fields,
        trim: Option<Trim>,
        now_ms: u64,
    ) -> Result<EntryId, Fault> {
        let id = self.add(stream, fields, now_ms)?;
        if let Some(trim) = trim {
            self.stream(stream).cut(trim, now_ms);
        }
        Ok(id)
    }

    /// Has every reader of the stream look again.
    fn wake(&self, stream: &str) {
        for line in self
            .readers
            .get(stream)
            .into_iter()
            .flatten()
            .filter_map(Weak::upgrade)
        {
            line.wake();
        }
    }
}

impl Clock {
    fn now_ms(self) -> u64 {
        let now = self.origin_ms.saturating_add(self.origin.elapsed());
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
    }
}
