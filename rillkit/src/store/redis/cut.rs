//! Trims that go with a publish: an argument of `XADD`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::{Cmd, Value, cmd};

use super::{RedisStore, ms, reply};
use crate::entry_id::EntryId;
use crate::store::{Fault, FaultClass};
use crate::trim::Trim;

/// How old the server's time may be that an age is taken from. A late one keeps a little more.
const TIME_FOR: Duration = Duration::from_secs(1);

/// The server's time in milliseconds, and when it was asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerTime(Arc<Mutex<Option<(u64, Instant)>>>);

impl ServerTime {
    fn lately(&self) -> Option<u64> {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .filter(|(_, asked)| asked.elapsed() < TIME_FOR)
            .map(|(time, _)| time)
    }

    fn set(&self, time: u64, asked: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((time, asked));
    }
}

/// A trim in the words of `XADD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    by: &'static str,
    how: &'static str,
    at: String,
}

impl Cut {
    fn to_length(how: &'static str, length: u64) -> Self {
        Self {
            by: "MAXLEN",
            how,
            // Servers know no larger number, and no stream is longer.
            at: length.min(i64::MAX as u64).to_string(),
        }
    }

    fn to_id(id: EntryId) -> Self {
        Self {
            by: "MINID",
            how: "~",
            at: id.to_string(),
        }
    }

    pub(super) fn words(&self) -> [&str; 3] {
        [self.by, self.how, &self.at]
    }

    pub(super) fn write(&self, add: &mut Cmd) {
        for word in self.words() {
            add.arg(word);
        }
    }
}

impl RedisStore {
    /// What this trim comes to now. An age goes by the clock that made the ids, the server's.
    pub(super) async fn cut(&self, stream: &str, trim: Trim) -> Result<Cut, Fault> {
        Ok(match trim {
            Trim::MaxLen(length) => Cut::to_length("~", length),
            Trim::MaxLenExact(length) => Cut::to_length("=", length),
            Trim::MinId(id) => Cut::to_id(id),
            Trim::MaxAge(age) => {
                let now = self.server_time(stream).await.map_err(nothing_sent)?;
                Cut::to_id(EntryId {
                    ms: now.saturating_sub(ms(age)),
                    seq: 0,
                })
            }
        })
    }

    async fn server_time(&self, stream: &str) -> Result<u64, Fault> {
        if let Some(time) = self.time.lately() {
            return Ok(time);
        }
        let asked = Instant::now();
        let time = milliseconds(self.links.run(stream, &cmd("TIME")).await?)?;
        self.time.set(time, asked);
        Ok(time)
    }
}

fn milliseconds(answer: Value) -> Result<u64, Fault> {
    let parts = reply::array(answer)?;
    let [seconds, micros] = parts.as_slice() else {
        return Err(reply::odd("TIME"));
    };
    Ok(reply::number(seconds)?.saturating_mul(1000) + reply::number(micros)? / 1000)
}

/// The publish itself has not left, whatever became of the question before it.
fn nothing_sent(fault: Fault) -> Fault {
    match fault.class {
        FaultClass::Reconnect => Fault::new(FaultClass::Unreachable, fault.text),
        _ => fault,
    }
}
