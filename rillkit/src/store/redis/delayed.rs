//! Messages that wait for their time: a sorted set of ids by the time when they are due, and a hash
//! of what each holds.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Script, Value, cmd};

use super::cut::Cut;
use super::publishing::{LONGEST, lifetime, marker};
use super::{RedisStore, ms, reply, slot};
use crate::fields::Fields;
use crate::store::{Due, Fault, HORIZON, Later, Promotion, UPCOMING, Waiting};
use crate::trim::Trim;

static PUBLISH_LATER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/publish_later.lua")));
static PROMOTE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/promote.lua")));
static CANCEL_DELAYED: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/cancel_delayed.lua")));
static DELAYED: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/delayed.lua")));

impl RedisStore {
    pub(in crate::store) async fn publish_later(
        &self,
        stream: &str,
        fields: &Fields,
        later: &Later,
    ) -> Result<Option<Duration>, Fault> {
        let (how, time) = match later.due {
            Due::In(delay) => ("in", ms(delay)),
            Due::At(time) => ("at", unix_ms(time)),
        };
        // An age goes by the time when the message is added.
        let (age, cut) = match later.trim {
            None => (None, None),
            Some(Trim::MaxAge(age)) => (Some(ms(age).min(LONGEST)), None),
            Some(trim) => (None, Some(self.cut(stream, trim).await?)),
        };
        let words: Vec<_> = cut.iter().flat_map(Cut::words).collect();
        let answer = self
            .links
            .run_script(stream, &PUBLISH_LATER, |script| {
                script.key(set(stream)).key(bodies(stream));
                script.key(marker(stream, &later.id));
                script.arg(&later.id).arg(how).arg(time.min(LONGEST));
                script.arg(later.remembered.map_or(0, lifetime));
                match age {
                    Some(age) => script.arg(age),
                    None => script.arg(-1),
                };
                script.arg(words.len());
                for word in &words {
                    script.arg(word);
                }
                for (name, value) in fields.iter() {
                    script.arg(name).arg(value);
                }
            })
            .await?;
        match answer {
            Value::Nil => Ok(None),
            left => reply::milliseconds(&left).map(Some),
        }
    }

    pub(in crate::store) async fn promote(
        &self,
        stream: &str,
        ids: &[String],
    ) -> Result<Promotion, Fault> {
        let answer = self
            .links
            .run_script(stream, &PROMOTE, |script| {
                script.key(stream).key(set(stream)).key(bodies(stream));
                script.arg(UPCOMING).arg(ms(HORIZON));
                for id in ids {
                    script.key(marker(stream, id)).arg(id);
                }
            })
            .await?;
        promotion(answer)
    }

    pub(in crate::store) async fn has_delayed(&self, stream: &str) -> Result<bool, Fault> {
        let set = set(stream);
        let first = cmd("ZRANGE").arg(&set).arg(0).arg(0).clone();
        let first = self.links.run(stream, &first).await?;
        Ok(!reply::array(first)?.is_empty())
    }

    pub(in crate::store) async fn cancel_delayed(
        &self,
        stream: &str,
        id: &str,
    ) -> Result<bool, Fault> {
        let answer = self
            .links
            .run_script(stream, &CANCEL_DELAYED, |script| {
                script.key(set(stream)).key(bodies(stream)).arg(id);
            })
            .await?;
        Ok(reply::number(&answer)? == 1)
    }

    pub(in crate::store) async fn delayed(
        &self,
        stream: &str,
        after: Option<(SystemTime, &str)>,
        count: usize,
    ) -> Result<(u64, Vec<Waiting>), Fault> {
        let answer = self
            .links
            .run_script(stream, &DELAYED, |script| {
                script.key(set(stream)).key(bodies(stream)).arg(count);
                if let Some((due, id)) = after {
                    script.arg(unix_ms(due)).arg(id);
                }
            })
            .await?;
        let [total, rows] = parts(answer)?;
        let rows = reply::array(rows)?.into_iter().map(waiting);
        Ok((reply::number(&total)?, rows.collect::<Result<_, Fault>>()?))
    }
}

/// The key of the ids that wait.
fn set(stream: &str) -> String {
    slot::beside(stream, "delayed")
}

/// The key of what they hold.
fn bodies(stream: &str) -> String {
    slot::beside(stream, "delayed:bodies")
}

fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, ms)
}

fn parts<const N: usize>(answer: Value) -> Result<[Value; N], Fault> {
    <[Value; N]>::try_from(reply::array(answer)?).map_err(|_| reply::odd("a script"))
}

fn promotion(answer: Value) -> Result<Promotion, Fault> {
    let [added, lost, upcoming] = parts(answer)?;
    let lost = reply::array(lost)?.into_iter().map(reply::text);
    let mut upcoming = reply::array(upcoming)?.into_iter();
    let mut next = Vec::with_capacity(upcoming.len() / 2);
    while let (Some(id), Some(left)) = (upcoming.next(), upcoming.next()) {
        next.push((reply::text(id)?, reply::milliseconds(&left)?));
    }
    Ok(Promotion {
        added: reply::number(&added)?,
        lost: lost.collect::<Result<_, Fault>>()?,
        upcoming: next,
    })
}

fn waiting(row: Value) -> Result<Waiting, Fault> {
    let [id, due, fields] = parts(row)?;
    Ok(Waiting {
        id: reply::text(id)?,
        due: UNIX_EPOCH + reply::milliseconds(&due)?,
        fields: reply::fields(fields)?,
    })
}
