//! What keys hold that are no streams: just enough for the effects of a commit.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::effect::{Effect, Kind};

pub(super) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";

/// The values by their keys. One whose time is over is dropped when its key is next used.
#[derive(Default)]
pub(super) struct Values(HashMap<String, Held>);

struct Held {
    value: Value,
    until: Option<Instant>,
}

enum Value {
    Text(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    Sorted(BTreeMap<Vec<u8>, f64>),
    List(Vec<Vec<u8>>),
}

impl Value {
    fn kind(&self) -> Kind {
        match self {
            Self::Text(_) => Kind::Text,
            Self::Hash(_) => Kind::Hash,
            Self::Set(_) => Kind::Set,
            Self::Sorted(_) => Kind::Sorted,
            Self::List(_) => Kind::List,
        }
    }
}

impl Values {
    /// Drops a value whose time is over.
    pub(super) fn expire(&mut self, key: &str, now: Instant) {
        if let Some(held) = self.0.get(key)
            && held.until.is_some_and(|until| until <= now)
        {
            self.0.remove(key);
        }
    }

    pub(super) fn kind(&self, key: &str) -> Option<Kind> {
        self.0.get(key).map(|held| held.value.kind())
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// What a key holds, piece by piece: a field before its value, a member before its score.
    pub(super) fn pieces(&self, key: &str) -> Vec<Vec<u8>> {
        let pair = |(name, value): (&Vec<u8>, &Vec<u8>)| [name.clone(), value.clone()];
        let Some(held) = self.0.get(key) else {
            return Vec::new();
        };
        match &held.value {
            Value::Text(text) => vec![text.clone()],
            Value::Hash(fields) => fields.iter().flat_map(pair).collect(),
            Value::Set(members) => members.iter().cloned().collect(),
            Value::Sorted(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by(|(_, one), (_, other)| one.total_cmp(other));
                let pair = |(member, score): (&Vec<u8>, &f64)| {
                    [member.clone(), score.to_string().into_bytes()]
                };
                members.into_iter().flat_map(pair).collect()
            }
            Value::List(values) => values.clone(),
        }
    }

    /// Does an effect on a key that is no stream.
    pub(super) fn apply(&mut self, effect: &Effect, now: Instant) -> Result<(), String> {
        match effect {
            Effect::IncrBy { key, by } => {
                let text = self.text(key)?;
                *text = added(text, *by, "value")?;
            }
            Effect::Set { key, value, lasts } => self.set(key, value, *lasts, now)?,
            Effect::Del { key } => self.remove(key),
            Effect::HSet { key, field, value } => {
                self.hash(key)?.insert(field.clone(), value.clone());
            }
            Effect::HIncrBy { key, field, by } => {
                let number = self.hash(key)?.entry(field.clone());
                let number = number.or_insert_with(|| b"0".to_vec());
                *number = added(number, *by, "hash value")?;
            }
            Effect::SAdd { key, member } => {
                self.set_of(key)?.insert(member.clone());
            }
            Effect::SRem { key, member } => {
                let members = self.set_of(key)?;
                members.remove(member);
                if members.is_empty() {
                    self.remove(key);
                }
            }
            Effect::ZAdd { score, .. } if score.is_nan() => {
                return Err("ERR value is not a valid float".to_owned());
            }
            Effect::ZAdd { key, member, score } => {
                self.sorted(key)?.insert(member.clone(), *score);
            }
            Effect::RPush { key, value } => self.list(key)?.push(value.clone()),
            Effect::Expire { key, after } => {
                if let Some(held) = self.0.get_mut(key) {
                    held.until = now.checked_add(*after);
                }
            }
            Effect::Publish { .. } | Effect::Other(_) => {}
        }
        Ok(())
    }

    fn set(
        &mut self,
        key: &str,
        value: &[u8],
        lasts: Option<Duration>,
        now: Instant,
    ) -> Result<(), String> {
        if lasts.is_some_and(|lasts| lasts.as_millis() == 0) {
            return Err("ERR invalid expire time in 'set' command".to_owned());
        }
        let held = Held {
            value: Value::Text(value.to_vec()),
            until: lasts.and_then(|lasts| now.checked_add(lasts)),
        };
        self.0.insert(key.to_owned(), held);
        Ok(())
    }

    /// The value at a key, made where there is none.
    fn value(&mut self, key: &str, new: impl FnOnce() -> Value) -> &mut Value {
        let new = || Held {
            value: new(),
            until: None,
        };
        &mut self.0.entry(key.to_owned()).or_insert_with(new).value
    }

    fn text(&mut self, key: &str) -> Result<&mut Vec<u8>, String> {
        match self.value(key, || Value::Text(b"0".to_vec())) {
            Value::Text(text) => Ok(text),
            _ => Err(WRONG_TYPE.to_owned()),
        }
    }

    fn hash(&mut self, key: &str) -> Result<&mut BTreeMap<Vec<u8>, Vec<u8>>, String> {
        match self.value(key, || Value::Hash(BTreeMap::new())) {
            Value::Hash(fields) => Ok(fields),
            _ => Err(WRONG_TYPE.to_owned()),
        }
    }

    fn set_of(&mut self, key: &str) -> Result<&mut BTreeSet<Vec<u8>>, String> {
        match self.value(key, || Value::Set(BTreeSet::new())) {
            Value::Set(members) => Ok(members),
            _ => Err(WRONG_TYPE.to_owned()),
        }
    }

    fn sorted(&mut self, key: &str) -> Result<&mut BTreeMap<Vec<u8>, f64>, String> {
        match self.value(key, || Value::Sorted(BTreeMap::new())) {
            Value::Sorted(members) => Ok(members),
            _ => Err(WRONG_TYPE.to_owned()),
        }
    }

    fn list(&mut self, key: &str) -> Result<&mut Vec<Vec<u8>>, String> {
        match self.value(key, || Value::List(Vec::new())) {
            Value::List(values) => Ok(values),
            _ => Err(WRONG_TYPE.to_owned()),
        }
    }
}

/// The sum, as the server writes it.
fn added(text: &[u8], by: i64, what: &str) -> Result<Vec<u8>, String> {
    let number: Option<i64> = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok());
    let number = number.ok_or_else(|| format!("ERR {what} is not an integer or out of range"))?;
    let sum = number
        .checked_add(by)
        .ok_or_else(|| "ERR increment or decrement would overflow".to_owned())?;
    Ok(sum.to_string().into_bytes())
}
