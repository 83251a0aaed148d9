//! What can be done together with an ack, in the crate's own words.

use std::collections::HashSet;
use std::time::Duration;

use crate::fields::Fields;
use crate::trim::Trim;

/// One change, to be made when the message is acked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    IncrBy {
        key: String,
        by: i64,
    },
    Set {
        key: String,
        value: Vec<u8>,
        lasts: Option<Duration>,
    },
    Del {
        key: String,
    },
    HSet {
        key: String,
        field: Vec<u8>,
        value: Vec<u8>,
    },
    HIncrBy {
        key: String,
        field: Vec<u8>,
        by: i64,
    },
    SAdd {
        key: String,
        member: Vec<u8>,
    },
    SRem {
        key: String,
        member: Vec<u8>,
    },
    ZAdd {
        key: String,
        member: Vec<u8>,
        score: f64,
    },
    RPush {
        key: String,
        value: Vec<u8>,
    },
    Expire {
        key: String,
        after: Duration,
    },
    Publish {
        stream: String,
        fields: Fields,
        trim: Option<Trim>,
    },
    Other(Command),
}

/// A command by its name, with its keys told from its other arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) name: String,
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Key(String),
    Arg(Vec<u8>),
}

/// What a key can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Hash,
    Set,
    Sorted,
    List,
    Stream,
}

/// A key that must be of a kind, if it is there, before the first effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Check<'a> {
    /// The effect that needs it, counted from 0.
    pub(crate) place: usize,
    pub(crate) key: &'a str,
    pub(crate) kind: Kind,
}

impl Effect {
    pub(crate) fn keys(&self) -> Vec<&str> {
        match self {
            Self::IncrBy { key, .. }
            | Self::Set { key, .. }
            | Self::Del { key }
            | Self::HSet { key, .. }
            | Self::HIncrBy { key, .. }
            | Self::SAdd { key, .. }
            | Self::SRem { key, .. }
            | Self::ZAdd { key, .. }
            | Self::RPush { key, .. }
            | Self::Expire { key, .. }
            | Self::Publish { stream: key, .. } => vec![key],
            Self::Other(command) => command.keys().collect(),
        }
    }

    /// What its key must hold; `None` where that does not matter or is not known.
    fn needs(&self) -> Option<Kind> {
        match self {
            Self::IncrBy { .. } => Some(Kind::Text),
            Self::HSet { .. } | Self::HIncrBy { .. } => Some(Kind::Hash),
            Self::SAdd { .. } | Self::SRem { .. } => Some(Kind::Set),
            Self::ZAdd { .. } => Some(Kind::Sorted),
            Self::RPush { .. } => Some(Kind::List),
            Self::Publish { .. } => Some(Kind::Stream),
            Self::Set { .. } | Self::Del { .. } | Self::Expire { .. } | Self::Other(_) => None,
        }
    }

    /// Bytes of all its strings.
    pub(crate) fn bytes(&self) -> usize {
        let keys: usize = self.keys().iter().map(|key| key.len()).sum();
        keys + match self {
            Self::Set { value, .. } | Self::RPush { value, .. } => value.len(),
            Self::HSet { field, value, .. } => field.len() + value.len(),
            Self::HIncrBy { field, .. } => field.len(),
            Self::SAdd { member, .. } | Self::SRem { member, .. } | Self::ZAdd { member, .. } => {
                member.len()
            }
            Self::Publish { fields, .. } => fields.bytes(),
            Self::Other(command) => command.args().map(<[u8]>::len).sum(),
            Self::IncrBy { .. } | Self::Del { .. } | Self::Expire { .. } => 0,
        }
    }
}

impl Command {
    fn keys(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Key(key) => Some(key.as_str()),
            Part::Arg(_) => None,
        })
    }

    fn args(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().filter_map(|part| match part {
            Part::Key(_) => None,
            Part::Arg(arg) => Some(arg.as_slice()),
        })
    }
}

/// What has to be looked at before the first effect: each key where it is first used. Later, what it
/// holds is up to the effects before.
pub(crate) fn checks(effects: &[Effect]) -> Vec<Check<'_>> {
    let (mut checks, mut used) = (Vec::new(), HashSet::new());
    for (place, effect) in effects.iter().enumerate() {
        let keys = effect.keys();
        if keys.is_empty() {
            // What a command without keys does is not known.
            break;
        }
        for key in keys {
            if used.insert(key)
                && let Some(kind) = effect.needs()
            {
                checks.push(Check { place, key, kind });
            }
        }
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incr(key: &str) -> Effect {
        Effect::IncrBy {
            key: key.to_owned(),
            by: 1,
        }
    }

    fn add(key: &str) -> Effect {
        Effect::SAdd {
            key: key.to_owned(),
            member: b"m".to_vec(),
        }
    }

    fn other(parts: Vec<Part>) -> Effect {
        Effect::Other(Command {
            name: "ANY".to_owned(),
            parts,
        })
    }

    fn places(effects: &[Effect]) -> Vec<(usize, &str)> {
        checks(effects)
            .iter()
            .map(|check| (check.place, check.key))
            .collect()
    }

    #[test]
    fn a_key_is_looked_at_where_it_is_first_used() {
        let effects = [incr("a"), add("b"), add("a")];
        assert_eq!(places(&effects), [(0, "a"), (1, "b")]);
    }

    #[test]
    fn a_key_that_an_earlier_effect_may_change_is_not_looked_at() {
        let del = Effect::Del {
            key: "a".to_owned(),
        };
        assert_eq!(places(&[del, incr("a")]), []);
        let any = other(vec![Part::Key("a".to_owned()), Part::Arg(b"b".to_vec())]);
        assert_eq!(places(&[any, incr("a"), incr("b")]), [(2, "b")]);
        assert_eq!(places(&[incr("c"), other(vec![]), incr("b")]), [(0, "c")]);
    }
}
