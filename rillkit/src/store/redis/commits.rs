//! The ack with what a handler wants done by it: one script.

use std::sync::LazyLock;

use redis::{ScriptInvocation, Value};

use super::acking::{self, Acking};
use super::cut::Cut;
use super::effects::{name, type_name, words};
use super::{RedisStore, fenced, markers, reply};
use crate::fields::Fields;
use crate::store::commits::{Commit, Committed, Failed, STAND};
use crate::store::effect::{Effect, checks};
use crate::store::{Acked, Consumer, Fault, Fenced, Rows, SCRIPT_FIELDS, Token};

const SOURCE: &str = include_str!("scripts/commit.lua");

static COMMIT: LazyLock<Acking> = LazyLock::new(|| Acking::new(SOURCE));

/// The script, to have it on the server before the first commit.
pub(super) fn source(acked: Acked) -> String {
    acking::source(SOURCE, acked)
}

impl RedisStore {
    pub(in crate::store) async fn commit(
        &self,
        consumer: &Consumer,
        token: Token,
        mut commit: Commit<'_>,
    ) -> Result<Committed, Fault> {
        if let Some(failed) = self.cannot_be_sent(consumer, &commit) {
            return Ok(Committed::Refused(failed));
        }
        self.together(consumer.stream, commit.dlq)?;
        // One more command, the last.
        let mut effects = Vec::new();
        if let Some(done) = commit.done {
            effects.extend_from_slice(commit.effects);
            effects.push(markers::done(consumer, token, done));
            commit.effects = &effects;
        }
        let mut cuts = Vec::with_capacity(commit.effects.len());
        for effect in commit.effects {
            cuts.push(self.cut_of(effect).await?);
        }
        // One effect fails before anything is done.
        let letter = match (commit.effects.len(), commit.rows) {
            (0 | 1, _) => None,
            (_, Rows::Left) => Some(commit.letter.clone()),
            (_, Rows::Moved) => Some(self.told_in(commit.letter, consumer, token).await),
        };
        let letter = letter.as_ref();
        let fill = |script: &mut ScriptInvocation<'_>| {
            fill(script, consumer, token, &commit, letter, &cuts);
        };
        committed(
            self.links
                .run_script(consumer.stream, COMMIT.when(consumer.acked), fill)
                .await?,
        )
    }

    async fn cut_of(&self, effect: &Effect) -> Result<Option<Cut>, Fault> {
        match effect {
            Effect::Publish {
                stream,
                trim: Some(trim),
                ..
            } => self.cut(stream, *trim).await.map(Some),
            _ => Ok(None),
        }
    }

    /// The effect that no server would carry out, or not together with the ack.
    fn cannot_be_sent(&self, consumer: &Consumer, commit: &Commit<'_>) -> Option<Failed> {
        let stream = consumer.stream;
        commit
            .effects
            .iter()
            .enumerate()
            .find_map(|(place, effect)| {
                let error = if name(effect).eq_ignore_ascii_case("SELECT") {
                    "a command cannot leave the database of its stream".to_owned()
                } else if let Some(away) = effect
                    .keys()
                    .iter()
                    .find_map(|key| self.links.beside(stream, key).err())
                {
                    away
                } else if words(effect, None).len() > 2 * SCRIPT_FIELDS {
                    format!(
                        "a script can pass on {} arguments at most",
                        2 * SCRIPT_FIELDS
                    )
                } else if place > 0 && commit.letter.len() > SCRIPT_FIELDS {
                    format!(
                        "a message with more than {SCRIPT_FIELDS} fields can have one command alone"
                    )
                } else {
                    return None;
                };
                Some(Failed { place, error })
            })
    }
}

/// Writes keys and arguments in the order that the script reads them.
fn fill(
    script: &mut ScriptInvocation<'_>,
    consumer: &Consumer,
    token: Token,
    commit: &Commit<'_>,
    letter: Option<&Fields>,
    cuts: &[Option<Cut>],
) {
    let letter_strings = letter.map_or(0, |letter| 2 * letter.len());
    let error_place = commit.error_at().map_or(0, |at| 2 * at + 2);
    let checks = checks(commit.effects);
    script.key(consumer.stream).key(commit.dlq);
    script.arg(consumer.group).arg(&*consumer.name);
    script.arg(token.id.to_string()).arg(token.deliveries);
    script.arg(checks.len()).arg(commit.effects.len());
    script.arg(letter_strings).arg(error_place).arg(STAND);
    for key in commit.effects.iter().flat_map(Effect::keys) {
        script.key(key);
    }
    for check in checks {
        let kind = type_name(check.kind);
        script.arg(check.place + 1).arg(check.key).arg(kind);
        script.arg(format!("WRONGTYPE `{}` is no {kind}", check.key));
    }
    for (place, (effect, cut)) in commit.effects.iter().zip(cuts).enumerate() {
        let words = words(effect, cut.as_ref());
        script.arg(words.len());
        for word in words {
            script.arg(&*word);
        }
        script.arg(commit.error_begins(place));
    }
    for (name, value) in letter.iter().flat_map(|letter| letter.iter()) {
        script.arg(name).arg(value);
    }
}

fn committed(answer: Value) -> Result<Committed, Fault> {
    let Value::Array(parts) = answer else {
        return Ok(match fenced(&answer)? {
            Fenced::Done => Committed::Done,
            Fenced::Gone => Committed::Gone,
            Fenced::Other => Committed::Other,
        });
    };
    let mut parts = parts.into_iter();
    let (Some(place), Some(error), end) = (parts.next(), parts.next(), parts.next()) else {
        return Err(reply::odd("a script"));
    };
    let failed = Failed {
        place: usize::try_from(reply::number(&place)?.saturating_sub(1)).unwrap_or(usize::MAX),
        error: plain(&reply::text(error)?).to_owned(),
    };
    Ok(match end {
        None => Committed::Refused(failed),
        Some(Value::Int(0)) => Committed::Unburied(failed),
        Some(_) => Committed::Buried(failed),
    })
}

/// Redis 6.2 says where in the script an error was: `@user_script: 41: -OOM ..`.
fn plain(error: &str) -> &str {
    let Some(rest) = error.strip_prefix("@user_script: ") else {
        return error;
    };
    rest.split_once(": ")
        .map_or(rest, |(_, error)| error.trim_start_matches('-'))
}
