//! The seam to Redis: what the rest of the crate asks of a server, in the crate's own words.
//!
//! Two stores answer: Redis, and one in process with the same behaviour. An enum and not a trait:
//! the registration entries are not generic, so the type is erased somewhere anyway, and a public
//! trait would be a promise that every new operation breaks. One suite, `conformance`, holds both
//! to this contract. Nothing here decides what becomes of a message.
//!
//! # The contract
//!
//! - An entry in hand is named by a [`Token`]: its id and its delivery count, held by a
//!   [`Consumer`]. An operation that takes tokens changes an entry only while the group's pending
//!   list names that consumer and that count for it, atomically with the change, and answers for
//!   each token whether it was [`Fenced::Done`], the entry is no longer pending
//!   ([`Fenced::Gone`]), or pending under another consumer or count ([`Fenced::Other`]).
//! - Whatever acks an entry, a dead letter too, deletes it from the stream in the same step when the
//!   [`Consumer`] says so ([`Acked::Goes`]).
//! - The delivery count is raised by [`Reader::read`] and by [`Store::take`] with
//!   [`Charge::Counted`], and by nothing else.
//! - Idle times are the server's own. [`Store::touch`], [`Store::take`] and a read set them to zero.
//! - An operation that fails with [`Fault`] may have been carried out when its class is
//!   [`FaultClass::Reconnect`]; otherwise it was not. Every operation except [`Store::publish`]
//!   is safe to repeat.

pub(crate) mod commits;
mod delayed;
pub(crate) mod effect;
mod markers;
pub(crate) mod memory;
mod publishing;
pub(crate) mod redis;
mod trimming;

#[cfg(test)]
mod conformance;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::delayed::{Due, HORIZON, Later, Promotion, UPCOMING, Waiting};
pub(crate) use self::markers::{Begun, Done, Keyed};
pub(crate) use self::publishing::{Once, SCRIPT_FIELDS};
pub(crate) use self::trimming::{Spared, Standing, TrimStep};
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::inspect::{GroupInfo, PendingInfo, StreamInfo};
use crate::trim::Trim;

/// Where a worker stands: one consumer of one group of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Consumer {
    pub(crate) stream: &'static str,
    pub(crate) group: &'static str,
    pub(crate) name: Arc<str>,
    /// What becomes of its entries once they are acked.
    pub(crate) acked: Acked,
}

/// What becomes of an entry on the stream when it leaves the pending list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Acked {
    /// It stays: other groups may need it.
    Stays,
    /// It is deleted, in the same step.
    Goes,
}

/// An entry of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: EntryId,
    pub(crate) fields: Fields,
}

/// One delivery of one entry, the fence of everything that settles it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token {
    pub(crate) id: EntryId,
    pub(crate) deliveries: u64,
}

/// What became of an operation on one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fenced {
    /// It was this consumer's, and the operation was carried out.
    Done,
    /// It is not pending (any more).
    Gone,
    /// It is pending for another consumer, or was handed out again.
    Other,
}

/// Whether taking an entry is a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charge {
    /// A hand-out: the count goes up by one.
    Counted,
    /// A look: the count stays.
    Kept,
}

/// An entry to take over from `owner` (which may be the taker itself).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Take {
    /// The entry, and the count that it must have now.
    pub(crate) token: Token,
    /// Whose it must be now.
    pub(crate) owner: Arc<str>,
    /// How long it must have been idle, at least.
    pub(crate) min_idle: Duration,
    /// Whether the count goes up.
    pub(crate) charge: Charge,
}

/// What became of a [`Take`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is the taker's now, with this body; its count is the token's, one more when charged.
    Entry(Fields),
    /// It was pending, but the stream no longer holds it (trimmed or deleted): it was acked.
    Lost,
    /// It is not pending (any more).
    Gone,
    /// It is another's, was handed out again, or is not idle for long enough.
    Other,
}

/// An entry to give to another consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Return {
    pub(crate) token: Token,
    /// The count that it has afterwards.
    pub(crate) deliveries: u64,
    /// The idle time that it has afterwards.
    pub(crate) idle: Duration,
}

/// One row of a consumer's pending list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) token: Token,
    pub(crate) idle: Duration,
}

/// The pending list of a group at a glance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// All pending entries of the group.
    pub(crate) pending: u64,
    /// The lowest pending id.
    pub(crate) lowest: Option<EntryId>,
    /// Each consumer that has pending entries, and how many.
    pub(crate) consumers: Vec<(Arc<str>, u64)>,
}

/// What a consumer needs beyond reading, retries and dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// [`Store::commit`].
    Commits,
    /// [`Store::begin`] and [`Store::finish`].
    Markers,
}

/// A consumer of a group, dead or alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) name: Arc<str>,
    pub(crate) pending: u64,
    /// Since it was last handed something, or (on newer servers) asked for something.
    pub(crate) idle: Duration,
}

/// What is kept about one failed delivery: a JSON object. See [`history`](crate::history).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) token: Token,
    pub(crate) text: String,
}

/// What becomes of the rows that are kept about a message when it is dead-lettered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// They go into the letter's last field, a JSON list, in front of what it holds.
    Moved,
    /// They stay where they are.
    Left,
}

/// Where a group starts to read when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Behind this id; `0-0` is the beginning.
    After(EntryId),
    /// Only what is added from now on.
    New,
}

/// Whether [`Store::ensure_group`] had to do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Created,
    Existed,
}

/// What became of moving one dead letter back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replayed {
    /// It is on the stream again, under this id.
    Moved(EntryId),
    /// It is no longer in the DLQ: somebody else moved it.
    Gone,
}

/// Why an operation failed, sorted by what the caller has to do.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) class: FaultClass,
    /// The server's or the connection's words. Never a password, never a body.
    pub(crate) text: String,
}

/// What has to be done about a [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FaultClass {
    /// The server refuses for now, and nothing was done: wait, then repeat.
    Wait,
    /// The connection is of no use: make a new one. What was under way may have been done.
    Reconnect,
    /// No connection could be made: wait, then repeat. Nothing was done.
    Unreachable,
    /// The group, or the stream with it, is not there.
    EnsureGroup,
    /// No waiting cures it: a wrong password, a missing permission, a key of another type.
    Config,
}

impl Fault {
    pub(crate) fn new(class: FaultClass, text: impl Into<String>) -> Self {
        Self {
            class,
            text: text.into(),
        }
    }

    /// Whether the login may not do what was asked.
    pub(crate) fn is_permission(&self) -> bool {
        // Inside a script it has no code of its own.
        let in_script = "ERR The user executing the script can't";
        self.text.starts_with("NOPERM") || self.text.starts_with(in_script)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.class, self.text)
    }
}

/// A server, a cluster, or a store in this process. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    Redis(redis::RedisStore),
    Memory(memory::MemoryStore),
}

/// The way to read new entries for one consumer, on a connection of its own.
#[derive(Debug)]
pub(crate) enum Reader {
    Redis(redis::RedisReader),
    Memory(memory::MemoryReader),
}

macro_rules! ask {
    ($store:expr, $it:ident => $call:expr) => {
        match $store {
            Store::Redis($it) => $call.await,
            Store::Memory($it) => $call.await,
        }
    };
}

// Behind the macro, which it uses.
mod letters;

impl Store {
    /// The same server on a connection of its own.
    pub(crate) fn separate(&self) -> Self {
        match self {
            Self::Redis(it) => Self::Redis(it.separate()),
            Self::Memory(it) => Self::Memory(it.clone()),
        }
    }

    /// Whether this is the in-process store, whose clock is tokio's.
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    pub(crate) fn is_cluster(&self) -> bool {
        match self {
            Self::Redis(it) => it.is_cluster(),
            Self::Memory(_) => false,
        }
    }

    /// Whether the server is of the kind that the URL says. One that cannot be asked is believed.
    pub(crate) async fn check(&self) -> Result<(), Fault> {
        match self {
            Self::Redis(it) => it.check().await,
            Self::Memory(_) => Ok(()),
        }
    }

    /// Whether an entry can go from one stream to the other in one step: not so when they are in
    /// different slots of a cluster.
    pub(crate) fn together(&self, stream: &str, dlq: &str) -> Result<(), Fault> {
        match self {
            Self::Redis(it) => it.together(stream, dlq),
            Self::Memory(_) => Ok(()),
        }
    }

    /// What the server says about itself. It never fails: what it does not say is not known.
    /// `None` in process.
    pub(crate) async fn facts(&self) -> Option<redis::ServerFacts> {
        match self {
            Self::Redis(it) => Some(it.facts().await),
            Self::Memory(_) => None,
        }
    }

    /// Whether this login may do all that the consumer needs, so that what it lacks is found now and
    /// not in the middle of the work. Changes nothing. The group must exist.
    ///
    /// # Errors
    ///
    /// With [`FaultClass::Config`], naming each command that is missing.
    pub(crate) async fn permits(
        &self,
        consumer: &Consumer,
        dlq: &str,
        needs: &[Need],
    ) -> Result<(), Fault> {
        match self {
            Self::Redis(it) => it.permits(consumer, dlq, needs).await,
            Self::Memory(_) => Ok(()),
        }
    }

    /// Adds entries to the end of a stream, in one round trip, in order. The answers are in that
    /// order too: an entry that was refused does not take back the ones before it. What `trim` says
    /// goes from the other end, whoever has read it.
    ///
    /// # Errors
    ///
    /// When nothing is known about any of them.
    pub(crate) async fn publish(
        &self,
        stream: &str,
        entries: &[Fields],
        trim: Option<Trim>,
    ) -> Result<Vec<Result<EntryId, Fault>>, Fault> {
        ask!(self, it => it.publish(stream, entries, trim))
    }

    /// Creates the group, and the stream with it, where they are missing.
    pub(crate) async fn ensure_group(
        &self,
        stream: &str,
        group: &str,
        start: Start,
    ) -> Result<Group, Fault> {
        ask!(self, it => it.ensure_group(stream, group, start))
    }

    /// A connection to read new entries for this consumer.
    pub(crate) async fn reader(&self, consumer: &Consumer) -> Result<Reader, Fault> {
        match self {
            Self::Redis(it) => it.reader(consumer).await.map(Reader::Redis),
            Self::Memory(it) => it.reader(consumer).await.map(Reader::Memory),
        }
    }

    /// Acks without a fence: for ids that cannot have been taken by anybody else.
    pub(crate) async fn ack(&self, consumer: &Consumer, ids: &[EntryId]) -> Result<(), Fault> {
        ask!(self, it => it.ack(consumer, ids))
    }

    /// Acks what is still this consumer's; one answer for each token.
    pub(crate) async fn ack_fenced(
        &self,
        consumer: &Consumer,
        tokens: &[Token],
    ) -> Result<Vec<Fenced>, Fault> {
        ask!(self, it => it.ack_fenced(consumer, tokens))
    }

    /// Sets the idle time of what is still this consumer's to zero; the count stays. One answer for
    /// each token.
    pub(crate) async fn touch(
        &self,
        consumer: &Consumer,
        tokens: &[Token],
    ) -> Result<Vec<Fenced>, Fault> {
        ask!(self, it => it.touch(consumer, tokens))
    }

    /// Makes entries this consumer's. One answer for each.
    pub(crate) async fn take(
        &self,
        consumer: &Consumer,
        takes: &[Take],
    ) -> Result<Vec<Taken>, Fault> {
        ask!(self, it => it.take(consumer, takes))
    }

    /// Gives entries that are still this consumer's to the consumer `to`, with another count and
    /// idle time; this is no delivery. One answer for each.
    pub(crate) async fn give(
        &self,
        consumer: &Consumer,
        to: &str,
        returns: &[Return],
    ) -> Result<Vec<Fenced>, Fault> {
        ask!(self, it => it.give(consumer, to, returns))
    }

    /// Adds `letter` to the DLQ and acks the entry, in this order and in one step. Rows that cannot be
    /// moved into it do not keep it back.
    pub(crate) async fn dead_letter(
        &self,
        consumer: &Consumer,
        token: Token,
        dlq: &str,
        letter: &Fields,
        rows: Rows,
    ) -> Result<Fenced, Fault> {
        ask!(self, it => it.dead_letter(consumer, token, dlq, letter, rows))
    }

    /// Keeps what is known about failed deliveries, each in the row that its number has.
    pub(crate) async fn keep_history(
        &self,
        consumer: &Consumer,
        rows: &[Row],
    ) -> Result<(), Fault> {
        ask!(self, it => it.keep_history(consumer, rows))
    }

    /// Forgets what is kept about the deliveries before these.
    pub(crate) async fn forget_history(
        &self,
        consumer: &Consumer,
        tokens: &[Token],
    ) -> Result<(), Fault> {
        ask!(self, it => it.forget_history(consumer, tokens))
    }

    /// Looks on through the rows of the consumer's group, some at a time, and forgets those of
    /// entries that are not pending. Where to go on from; 0 is the beginning, and the end.
    pub(crate) async fn tidy_history(&self, consumer: &Consumer, from: u64) -> Result<u64, Fault> {
        ask!(self, it => it.tidy_history(consumer, from))
    }

    /// The group's pending list at a glance.
    pub(crate) async fn summary(&self, stream: &str, group: &str) -> Result<Summary, Fault> {
        ask!(self, it => it.summary(stream, group))
    }

    /// The group's consumers, those without pending entries too.
    pub(crate) async fn peers(&self, stream: &str, group: &str) -> Result<Vec<Peer>, Fault> {
        ask!(self, it => it.peers(stream, group))
    }

    /// Up to `count` pending entries of one consumer, by id, from `from` on.
    pub(crate) async fn pending(
        &self,
        stream: &str,
        group: &str,
        consumer: &str,
        from: EntryId,
        count: usize,
    ) -> Result<Vec<Pending>, Fault> {
        ask!(self, it => it.pending(stream, group, consumer, from, count))
    }

    /// Removes the consumer from its group if it has nothing pending and has been idle for that
    /// long; whether it did.
    pub(crate) async fn remove_consumer(
        &self,
        consumer: &Consumer,
        min_idle: Duration,
    ) -> Result<bool, Fault> {
        ask!(self, it => it.remove_consumer(consumer, min_idle))
    }

    /// The names of the stream's groups and the last id each was handed; nothing where the stream
    /// is missing.
    pub(crate) async fn groups(&self, stream: &str) -> Result<Vec<(String, EntryId)>, Fault> {
        ask!(self, it => it.groups(stream))
    }

    /// The names of all streams, in order.
    pub(crate) async fn streams(&self) -> Result<Vec<String>, Fault> {
        ask!(self, it => it.streams())
    }

    /// The stream at a glance; `None` where it is missing.
    pub(crate) async fn stream_info(&self, stream: &str) -> Result<Option<StreamInfo>, Fault> {
        ask!(self, it => it.stream_info(stream))
    }

    /// The stream's groups, without what is oldest in them; nothing where it is missing.
    pub(crate) async fn group_infos(&self, stream: &str) -> Result<Vec<GroupInfo>, Fault> {
        ask!(self, it => it.group_infos(stream))
    }

    /// Up to `count` pending entries of a group, or of one of its consumers, by id, from `from` on.
    pub(crate) async fn held(
        &self,
        stream: &str,
        group: &str,
        consumer: Option<&str>,
        from: EntryId,
        count: usize,
    ) -> Result<Vec<PendingInfo>, Fault> {
        ask!(self, it => it.held(stream, group, consumer, from, count))
    }

    /// Notes what a worker says about itself, in place of what it said before. Redis forgets it
    /// when no worker of the stream has said anything for a day.
    pub(crate) async fn note_worker(&self, consumer: &Consumer, row: &str) -> Result<(), Fault> {
        ask!(self, it => it.note_worker(consumer, row))
    }

    /// Forgets what a worker said about itself.
    pub(crate) async fn forget_worker(&self, consumer: &Consumer) -> Result<(), Fault> {
        ask!(self, it => it.forget_worker(consumer))
    }

    /// What the workers of a stream said about themselves, in no order.
    pub(crate) async fn workers(&self, stream: &str) -> Result<Vec<Vec<u8>>, Fault> {
        ask!(self, it => it.workers(stream))
    }

    /// The id of the last entry that was ever added, `None` where the stream is missing.
    pub(crate) async fn last_id(&self, stream: &str) -> Result<Option<EntryId>, Fault> {
        ask!(self, it => it.last_id(stream))
    }

    /// Up to `count` entries by id, from `from` to `to`, both included.
    pub(crate) async fn range(
        &self,
        stream: &str,
        from: EntryId,
        to: EntryId,
        count: usize,
    ) -> Result<Vec<Entry>, Fault> {
        ask!(self, it => it.range(stream, from, to, count))
    }

    /// Removes up to `most` entries from the old end, in one step with the look at all groups: never
    /// one that a group has not read or has pending. When it removes nothing there is nothing left
    /// to remove. With a `most` of 0 it only looks.
    pub(crate) async fn trim(
        &self,
        stream: &str,
        spared: &Spared,
        most: u64,
    ) -> Result<TrimStep, Fault> {
        ask!(self, it => it.trim(stream, spared, most))
    }

    /// Counts up to `most` entries from `from` to `to`, both included; and the last one counted.
    pub(crate) async fn count(
        &self,
        stream: &str,
        from: EntryId,
        to: EntryId,
        most: u64,
    ) -> Result<(u64, Option<EntryId>), Fault> {
        ask!(self, it => it.count(stream, from, to, most))
    }
}

impl Reader {
    /// Hands out up to `count` new entries to the consumer; each is delivery 1. With `block` it
    /// waits that long for the first one, without it answers at once.
    ///
    /// The future sends the command when it is first polled, and may be polled together with
    /// others: the answers come in the order of the first polls. It must not be dropped before it
    /// is done, unless the reader goes too: what it was handed would be pending unseen.
    pub(crate) fn read(
        &self,
        count: usize,
        block: Option<Duration>,
    ) -> impl Future<Output = Result<Vec<Entry>, Fault>> + Send + 'static {
        let read = match self {
            Self::Redis(it) => Either::Left(it.read(count, block)),
            Self::Memory(it) => Either::Right(it.read(count, block)),
        };
        async move {
            match read {
                Either::Left(read) => read.await,
                Either::Right(read) => read.await,
            }
        }
    }

    /// Ends a blocking read early, from outside: it answers with what it was handed, or nothing.
    ///
    /// # Errors
    ///
    /// When the server does not let us: then the read ends by itself within its block time.
    pub(crate) async fn interrupt(&self) -> Result<(), Fault> {
        match self {
            Self::Redis(it) => it.interrupt().await,
            Self::Memory(it) => it.interrupt().await,
        }
    }
}

enum Either<L, R> {
    Left(L),
    Right(R),
}
