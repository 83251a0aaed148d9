//! Effects as the commands that they are on a server.

use std::borrow::Cow;
use std::fmt::Write;

use super::cut::Cut;
use super::ms;
use crate::store::effect::{Effect, Kind, Part};

/// The command's name.
pub(crate) fn name(effect: &Effect) -> &str {
    match effect {
        Effect::IncrBy { .. } => "INCRBY",
        Effect::Set { .. } => "SET",
        Effect::Del { .. } => "DEL",
        Effect::HSet { .. } => "HSET",
        Effect::HIncrBy { .. } => "HINCRBY",
        Effect::SAdd { .. } => "SADD",
        Effect::SRem { .. } => "SREM",
        Effect::ZAdd { .. } => "ZADD",
        Effect::RPush { .. } => "RPUSH",
        Effect::Expire { .. } => "PEXPIRE",
        Effect::Publish { .. } => "XADD",
        Effect::Other(command) => &command.name,
    }
}

/// The whole command, its name first; a publish with what it cuts.
pub(super) fn words<'a>(effect: &'a Effect, cut: Option<&'a Cut>) -> Vec<Cow<'a, [u8]>> {
    let mut words = vec![Cow::Borrowed(name(effect).as_bytes())];
    if let Effect::Other(command) = effect {
        words.extend(command.parts.iter().map(|part| match part {
            Part::Key(key) => Cow::Borrowed(key.as_bytes()),
            Part::Arg(arg) => Cow::Borrowed(arg.as_slice()),
        }));
        return words;
    }
    words.extend(effect.keys().into_iter().map(|key| key.as_bytes().into()));
    match effect {
        Effect::IncrBy { by, .. } => words.push(owned(by)),
        Effect::Set { value, lasts, .. } => {
            words.push(value.into());
            if let Some(lasts) = lasts {
                words.extend([Cow::Borrowed(&b"PX"[..]), owned(&ms(*lasts))]);
            }
        }
        Effect::HSet { field, value, .. } => words.extend([field.into(), value.into()]),
        Effect::HIncrBy { field, by, .. } => words.extend([field.into(), owned(by)]),
        Effect::SAdd { member, .. } | Effect::SRem { member, .. } => words.push(member.into()),
        Effect::ZAdd { member, score, .. } => words.extend([owned(score), member.into()]),
        Effect::RPush { value, .. } => words.push(value.into()),
        Effect::Expire { after, .. } => words.push(owned(&ms(*after))),
        Effect::Publish { fields, .. } => {
            let cut = cut.map(Cut::words);
            words.extend(cut.into_iter().flatten().map(|word| word.as_bytes().into()));
            words.push(Cow::Borrowed(b"*"));
            for (name, value) in fields.iter() {
                words.extend([Cow::Borrowed(name), Cow::Borrowed(value)]);
            }
        }
        Effect::Del { .. } | Effect::Other(_) => {}
    }
    words
}

fn owned(value: &impl ToString) -> Cow<'static, [u8]> {
    Cow::Owned(value.to_string().into_bytes())
}

/// The command on one line, as somebody would type it; of a publish, not what it cuts.
pub(crate) fn line(effect: &Effect) -> String {
    let mut line = String::new();
    for word in words(effect, None) {
        let word = String::from_utf8_lossy(&word);
        let plain =
            !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c.is_control());
        if !line.is_empty() {
            line.push(' ');
        }
        // Writing to a string cannot fail.
        let _ = match plain {
            true => write!(line, "{word}"),
            false => write!(line, "{word:?}"),
        };
    }
    line
}

/// What the server calls a kind of key.
pub(super) fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "string",
        Kind::Hash => "hash",
        Kind::Set => "set",
        Kind::Sorted => "zset",
        Kind::List => "list",
        Kind::Stream => "stream",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::effect::Command;

    #[test]
    fn every_effect_is_a_command() {
        let (key, field) = (|| "k".to_owned(), || b"f".to_vec());
        let fields = [(b"data".to_vec(), b"{\"a\":1}".to_vec())];
        let parts = vec![
            Part::Key(key()),
            Part::Arg(b"a b".to_vec()),
            Part::Arg(vec![]),
        ];
        for (effect, expected) in [
            (Effect::IncrBy { key: key(), by: -2 }, "INCRBY k -2"),
            (
                Effect::Set {
                    key: key(),
                    value: field(),
                    lasts: None,
                },
                "SET k f",
            ),
            (
                Effect::Set {
                    key: key(),
                    value: field(),
                    lasts: Some(Duration::from_secs(3)),
                },
                "SET k f PX 3000",
            ),
            (Effect::Del { key: key() }, "DEL k"),
            (
                Effect::HSet {
                    key: key(),
                    field: field(),
                    value: b"v".to_vec(),
                },
                "HSET k f v",
            ),
            (
                Effect::HIncrBy {
                    key: key(),
                    field: field(),
                    by: 1,
                },
                "HINCRBY k f 1",
            ),
            (
                Effect::SAdd {
                    key: key(),
                    member: field(),
                },
                "SADD k f",
            ),
            (
                Effect::SRem {
                    key: key(),
                    member: field(),
                },
                "SREM k f",
            ),
            (
                Effect::ZAdd {
                    key: key(),
                    member: field(),
                    score: 0.5,
                },
                "ZADD k 0.5 f",
            ),
            (
                Effect::RPush {
                    key: key(),
                    value: field(),
                },
                "RPUSH k f",
            ),
            (
                Effect::Expire {
                    key: key(),
                    after: Duration::from_millis(5),
                },
                "PEXPIRE k 5",
            ),
            (
                Effect::Publish {
                    stream: key(),
                    fields: fields.into_iter().collect(),
                    trim: None,
                },
                "XADD k * data {\"a\":1}",
            ),
            (
                Effect::Other(Command {
                    name: "ANY".to_owned(),
                    parts,
                }),
                "ANY k \"a b\" \"\"",
            ),
        ] {
            assert_eq!(line(&effect), expected);
        }
    }
}
