//! Messages that wait for their time.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::MemoryStore;
use crate::fields::Fields;
use crate::store::{Due, Fault, HORIZON, Later, Promotion, UPCOMING, Waiting};
use crate::trim::Trim;

/// What waits for one stream, by due time in milliseconds and id.
#[derive(Debug, Default)]
pub(super) struct Delayed {
    waiting: BTreeMap<(u64, String), Body>,
    due: HashMap<String, u64>,
}

#[derive(Debug)]
struct Body {
    fields: Fields,
    remembered: Option<Duration>,
    trim: Option<Trim>,
}

impl MemoryStore {
    pub(crate) async fn publish_later(
        &self,
        stream: &str,
        fields: &Fields,
        later: &Later,
    ) -> Result<Option<Duration>, Fault> {
        let now_ms = self.shared.clock.now_ms();
        let mut state = self.lock();
        if state
            .markers
            .get(stream, &later.id, Instant::now())
            .is_some()
        {
            return Ok(None);
        }
        let delayed = state.delayed.entry(stream.to_owned()).or_default();
        let due = match later.due {
            Due::In(delay) => now_ms.saturating_add(ms(delay)),
            Due::At(time) => time.duration_since(UNIX_EPOCH).map_or(0, ms),
        };
        let due = *delayed.due.entry(later.id.clone()).or_insert_with(|| {
            let body = Body {
                fields: fields.clone(),
                remembered: later.remembered,
                trim: later.trim,
            };
            delayed.waiting.insert((due, later.id.clone()), body);
            due
        });
        Ok(Some(Duration::from_millis(due.saturating_sub(now_ms))))
    }

    pub(crate) async fn promote(&self, stream: &str, ids: &[String]) -> Result<Promotion, Fault> {
        let now_ms = self.shared.clock.now_ms();
        let mut state = self.lock();
        let mut promotion = Promotion::default();
        for id in ids {
            let delayed = state.delayed.get_mut(stream);
            let Some(body) = delayed.and_then(|delayed| delayed.take_due(id, now_ms)) else {
                continue;
            };
            let now = Instant::now();
            if body.remembered.is_some() && state.markers.get(stream, id, now).is_some() {
                continue;
            }
            let added = state.add_and_cut(stream, &body.fields, body.trim, now_ms)?;
            if let Some(remembered) = body.remembered {
                let end = now.checked_add(remembered);
                state.markers.set(stream, id, added, end);
            }
            promotion.added += 1;
        }
        state.wake(stream);
        if let Some(delayed) = state.delayed.get(stream) {
            promotion.upcoming = delayed.upcoming(now_ms);
        }
        Ok(promotion)
    }

    pub(crate) async fn has_delayed(&self, stream: &str) -> Result<bool, Fault> {
        let state = self.lock();
        let delayed = state.delayed.get(stream);
        Ok(delayed.is_some_and(|delayed| !delayed.due.is_empty()))
    }

    pub(crate) async fn cancel_delayed(&self, stream: &str, id: &str) -> Result<bool, Fault> {
        let mut state = self.lock();
        let delayed = state.delayed.get_mut(stream);
        Ok(delayed.is_some_and(|delayed| delayed.take_due(id, u64::MAX).is_some()))
    }

    pub(crate) async fn delayed(
        &self,
        stream: &str,
        after: Option<(SystemTime, &str)>,
        count: usize,
    ) -> Result<(u64, Vec<Waiting>), Fault> {
        let state = self.lock();
        let Some(delayed) = state.delayed.get(stream) else {
            return Ok((0, Vec::new()));
        };
        let after = after.map(|(due, id)| (due.duration_since(UNIX_EPOCH).map_or(0, ms), id));
        let is_behind = |due: u64, id: &str| after.is_none_or(|after| (due, id) > after);
        let page = delayed
            .waiting
            .iter()
            .filter(|((due, id), _)| is_behind(*due, id))
            .take(count);
        let page = page.map(|((due, id), body)| Waiting {
            id: id.clone(),
            due: UNIX_EPOCH + Duration::from_millis(*due),
            fields: body.fields.clone(),
        });
        Ok((delayed.due.len() as u64, page.collect()))
    }
}

impl Delayed {
    /// Takes a message out, if it waits and is due.
    fn take_due(&mut self, id: &str, now_ms: u64) -> Option<Body> {
        let due = self.due.get(id).copied().filter(|due| *due <= now_ms)?;
        self.due.remove(id);
        self.waiting.remove(&(due, id.to_owned()))
    }

    fn upcoming(&self, now_ms: u64) -> Vec<(String, Duration)> {
        let until = now_ms.saturating_add(ms(HORIZON));
        let soon = self.waiting.keys().take_while(|(due, _)| *due <= until);
        let left = |due: u64| Duration::from_millis(due.saturating_sub(now_ms));
        soon.take(UPCOMING)
            .map(|(due, id)| (id.clone(), left(*due)))
            .collect()
    }
}

fn ms(duration: Duration) -> u64 {
    // Half of what there is: a time this far off can be added to another.
    u64::try_from(duration.as_millis()).map_or(u64::MAX / 2, |ms| ms.min(u64::MAX / 2))
}
