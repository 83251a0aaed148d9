//! An ack together with what a handler wants done by it: all of it or nothing.

use super::effect::Effect;
use super::redis::effects::name;
use super::{Consumer, Done, Fault, Rows, Store, Token};
use crate::fields::Fields;
use crate::wire::dead;

/// What is done with an ack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Commit<'a> {
    /// In this order.
    pub(crate) effects: &'a [Effect],
    /// The key that is marked as done behind them.
    pub(crate) done: Option<&'a Done>,
    pub(crate) dlq: &'a str,
    /// Where the effects stop in the middle, this goes to the DLQ, with the error filled in.
    pub(crate) letter: &'a Fields,
    /// What is kept about earlier deliveries goes into that letter; it is not forgotten by that.
    pub(crate) rows: Rows,
}

/// What became of a [`Commit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Committed {
    /// The effects are done, and the entry is acked.
    Done,
    /// The entry is not pending (any more), and nothing was done.
    Gone,
    /// The entry is pending for another consumer, or was handed out again; nothing was done.
    Other,
    /// No waiting cures what is wrong with an effect. Nothing was done.
    Refused(Failed),
    /// An effect failed. Those before it stand, the letter is in the DLQ, and the entry is acked.
    Buried(Failed),
    /// As before, but the letter could not be added: the entry is still pending.
    Unburied(Failed),
}

/// The effect that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Counted from 0.
    pub(crate) place: usize,
    /// The server's words.
    pub(crate) error: String,
}

/// How an error ends where effects before it stand.
pub(super) const STAND: &str = "; the commands before it were applied";

impl Commit<'_> {
    /// How the error begins where the effect at this place fails.
    pub(super) fn error_begins(&self, place: usize) -> String {
        let name = self.effects.get(place).map_or("", name);
        let (number, all) = (place + 1, self.effects.len());
        format!("command {number} of {all}, `{name}`, failed: ")
    }

    /// The error of an effect that was refused before anything was done.
    pub(crate) fn refusal(&self, Failed { place, error }: &Failed) -> String {
        let begin = self.error_begins(*place);
        format!("{begin}{error}; nothing was applied")
    }

    /// The error of an effect that failed behind others.
    pub(crate) fn failure(&self, Failed { place, error }: &Failed) -> String {
        let begin = self.error_begins(*place);
        format!("{begin}{error}{STAND}")
    }

    /// Which field of the letter has the error.
    pub(super) fn error_at(&self) -> Option<usize> {
        self.letter
            .iter()
            .position(|(name, _)| name == dead::ERROR.as_bytes())
    }
}

impl Store {
    /// Does the effects in order and acks the entry, in one step, if it is still this consumer's.
    /// What a store does not know as an effect is refused. A server that refuses for now is a
    /// [`Fault`], and nothing was done.
    ///
    /// After [`FaultClass::Reconnect`](super::FaultClass::Reconnect) it may have been done; it is safe to
    /// repeat, and the answer is [`Committed::Gone`] if it was.
    pub(crate) async fn commit(
        &self,
        consumer: &Consumer,
        token: Token,
        commit: Commit<'_>,
    ) -> Result<Committed, Fault> {
        match self {
            Self::Redis(it) => it.commit(consumer, token, commit).await,
            Self::Memory(it) => it.commit(consumer, token, commit).await,
        }
    }

    /// What a key holds that is no stream, piece by piece: a field before its value, a member before
    /// its score. Fields and members of a set are in order. Nothing where there is no such key.
    pub(crate) async fn look(&self, key: &str) -> Result<Vec<Vec<u8>>, Fault> {
        match self {
            Self::Redis(it) => it.look(key).await,
            Self::Memory(it) => it.look(key),
        }
    }
}
