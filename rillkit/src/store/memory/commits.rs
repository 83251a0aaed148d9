//! The ack with what a handler wants done by it.

use tokio::time::Instant;

use super::values::WRONG_TYPE;
use super::{MemoryStore, State};
use crate::fields::Fields;
use crate::store::commits::{Commit, Committed, Failed};
use crate::store::effect::{Check, Effect, Kind, checks};
use crate::store::{Consumer, Fault, FaultClass, Fenced, Rows, Token};

impl MemoryStore {
    pub(in crate::store) async fn commit(
        &self,
        consumer: &Consumer,
        token: Token,
        commit: Commit<'_>,
    ) -> Result<Committed, Fault> {
        let mut state = self.lock();
        let (now, now_ms) = (Instant::now(), self.shared.clock.now_ms());
        let (group, _) = state.group(consumer.stream, consumer.group)?;
        match group.fence(&consumer.name, token) {
            Fenced::Done => {}
            Fenced::Gone => return Ok(Committed::Gone),
            Fenced::Other => return Ok(Committed::Other),
        }
        if let Some(failed) = state.refuses(commit.effects, now) {
            return Ok(Committed::Refused(failed));
        }
        let mut committed = Committed::Done;
        for (place, effect) in commit.effects.iter().enumerate() {
            let Err(error) = state.apply(effect, now, now_ms) else {
                continue;
            };
            let failed = Failed { place, error };
            if place == 0 {
                return Ok(Committed::Refused(failed));
            }
            let mut letter = letter(&commit, &failed);
            if commit.rows == Rows::Moved
                && let Ok((group, _)) = state.group(consumer.stream, consumer.group)
            {
                letter = group.history().told_in(&letter, token);
            }
            state.add(commit.dlq, &letter, now_ms)?;
            state.wake(commit.dlq);
            committed = Committed::Buried(failed);
            break;
        }
        if let Ok((group, _)) = state.group(consumer.stream, consumer.group) {
            group.settle(token.id);
        }
        state.acked(consumer, [token.id]);
        if let (Committed::Done, Some(done)) = (&committed, commit.done) {
            state.keys.done(consumer, token, done, now);
        }
        Ok(committed)
    }

    pub(in crate::store) fn look(&self, key: &str) -> Result<Vec<Vec<u8>>, Fault> {
        let mut state = self.lock();
        match state.kind(key, Instant::now()) {
            Some(Kind::Stream) => Err(Fault::new(FaultClass::Config, WRONG_TYPE)),
            _ => Ok(state.values.pieces(key)),
        }
    }
}

impl State {
    /// The effect that can be seen to fail before anything is done.
    fn refuses(&mut self, effects: &[Effect], now: Instant) -> Option<Failed> {
        let unknown = effects.iter().enumerate().find_map(|(place, effect)| {
            let Effect::Other(_) = effect else {
                return None;
            };
            let error = "the in-process store knows none but the commands that have a method of \
                         their own; run this handler on a redis server"
                .to_owned();
            Some(Failed { place, error })
        });
        unknown.or_else(|| {
            checks(effects)
                .into_iter()
                .find_map(|Check { place, key, kind }| {
                    let found = self.kind(key, now);
                    let wrong = found.is_some_and(|found| found != kind);
                    wrong.then(|| Failed {
                        place,
                        error: WRONG_TYPE.to_owned(),
                    })
                })
        })
    }

    fn kind(&mut self, key: &str, now: Instant) -> Option<Kind> {
        if self.streams.contains_key(key) {
            return Some(Kind::Stream);
        }
        self.values.expire(key, now);
        self.values.kind(key)
    }

    fn apply(&mut self, effect: &Effect, now: Instant, now_ms: u64) -> Result<(), String> {
        if let Effect::Publish {
            stream,
            fields,
            trim,
        } = effect
        {
            if self
                .kind(stream, now)
                .is_some_and(|kind| kind != Kind::Stream)
            {
                return Err(WRONG_TYPE.to_owned());
            }
            self.add_and_cut(stream, fields, *trim, now_ms)
                .map_err(|fault| fault.text)?;
            self.wake(stream);
            return Ok(());
        }
        for key in effect.keys() {
            if self.kind(key, now) != Some(Kind::Stream) {
                continue;
            }
            match effect {
                Effect::Set { .. } | Effect::Del { .. } => {
                    self.streams.remove(key);
                    self.wake(key);
                }
                Effect::Expire { .. } => {
                    return Err("the in-process store keeps streams for ever".to_owned());
                }
                _ => return Err(WRONG_TYPE.to_owned()),
            }
        }
        self.values.apply(effect, now)
    }
}

/// The letter with its error.
fn letter(commit: &Commit<'_>, failed: &Failed) -> Fields {
    let error_at = commit.error_at();
    let fields = commit.letter.iter().enumerate();
    fields
        .map(|(at, (name, value))| {
            if Some(at) == error_at {
                (name.to_vec(), commit.failure(failed).into_bytes())
            } else {
                (name.to_vec(), value.to_vec())
            }
        })
        .collect()
}
