//! The dead-letter stream: what a dead letter holds, and how it is moved back.

use std::collections::BTreeSet;
use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::decide::Reason;
use crate::entry_id::EntryId;
use crate::error::Error;
use crate::failed_delivery::FailedDelivery;
use crate::fields::Fields;
use crate::log;
use crate::message::Message;
use crate::post::Post;
use crate::store::{Entry, Fault, Replayed, Store};
use crate::wire::{self, dead};

/// Dead letters looked at in one step.
const PAGE: usize = 100;

/// The DLQ entry of a message: its own fields, unchanged and in order, then what is known about its
/// end. Fields of an earlier end are replaced. The last field is the list of failed deliveries, with
/// the last one alone: the store puts those in front that are kept.
pub(crate) fn letter(
    post: &Post,
    message: &Message,
    reason: Reason,
    error: &str,
    last: Option<&FailedDelivery>,
) -> Fields {
    let own = message
        .fields()
        .iter()
        .filter(|(name, _)| !dead::is_ours(name));
    let mut letter: Fields = own
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    // For people to read; nothing is decided by it.
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    letter.push(dead::ORIGINAL_ID, message.id().to_string());
    letter.push(dead::STREAM, post.consumer.stream);
    letter.push(dead::GROUP, post.consumer.group);
    letter.push(dead::ERROR, error);
    letter.push(dead::DELIVERIES, message.deliveries().to_string());
    letter.push(dead::REASON, reason.name());
    letter.push(dead::HANDLER, post.subscription.path());
    letter.push(dead::CONSUMER, &*post.consumer.name);
    letter.push(dead::FAILED_AT, now.as_millis().to_string());
    let last = last.map(FailedDelivery::to_json).unwrap_or_default();
    letter.push(dead::ATTEMPTS, format!("[{last}]"));
    letter
}

/// Moves dead letters back to their stream when it is awaited; says how many it moved.
///
/// See [`Broker::replay_dlq`](crate::Broker::replay_dlq).
#[must_use = "nothing is replayed until this is awaited"]
pub struct ReplayDlq {
    store: Store,
    stream: String,
    dlqs: BTreeSet<String>,
    count: usize,
    every_group: bool,
}

impl ReplayDlq {
    pub(crate) fn new(store: &Store, stream: &str, dlqs: BTreeSet<String>) -> Self {
        Self {
            store: store.clone(),
            stream: stream.to_owned(),
            dlqs,
            count: 100,
            every_group: false,
        }
    }

    /// Moves up to `count` entries, instead of 100.
    pub fn count(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    /// Moves all that are there now.
    pub fn all(self) -> Self {
        self.count(usize::MAX)
    }

    /// Shows replayed entries to every group of the stream, and not only to the one in which each
    /// failed.
    pub fn to_every_group(mut self) -> Self {
        self.every_group = true;
        self
    }

    async fn run(self) -> Result<usize, Error> {
        let mut moved = 0;
        match self.move_all(&mut moved).await {
            Ok(()) => Ok(moved),
            Err(fault) => {
                let what = format!(
                    "replaying to `{}` failed after {moved} were moved",
                    self.stream
                );
                Err(Error::from_fault(&fault, &what))
            }
        }
    }

    async fn move_all(&self, moved: &mut usize) -> Result<(), Fault> {
        // Where no letter can be moved, the DLQ is not even looked for: it would just be empty.
        for dlq in &self.dlqs {
            self.store.together(&self.stream, dlq)?;
        }
        let mut groups = BTreeSet::new();
        if !self.every_group {
            groups.extend(
                self.store
                    .groups(&self.stream)
                    .await?
                    .into_iter()
                    .map(|(name, _)| name),
            );
        }
        for dlq in &self.dlqs {
            self.move_from(dlq, &groups, moved).await?;
        }
        Ok(())
    }

    /// Oldest first, and never beyond what is there now: a letter that fails again would be moved
    /// for ever.
    async fn move_from(
        &self,
        dlq: &str,
        groups: &BTreeSet<String>,
        moved: &mut usize,
    ) -> Result<(), Fault> {
        let Some(end) = self.store.last_id(dlq).await? else {
            return Ok(());
        };
        let mut from = EntryId::MIN;
        while *moved < self.count {
            let page = self
                .store
                .range(dlq, from, end, PAGE.min(self.count - *moved))
                .await?;
            let Some(last) = page.last() else { break };
            from = last.id.after();
            for Entry { id, fields } in page {
                if fields
                    .get(dead::STREAM)
                    .is_some_and(|stream| stream != self.stream.as_bytes())
                {
                    continue;
                }
                let replayed = replayed(&fields, groups);
                if replayed.is_empty() {
                    log::not_replayed(dlq, id);
                    continue;
                }
                if let Replayed::Moved(_) =
                    self.store.replay(dlq, id, &self.stream, &replayed).await?
                {
                    *moved += 1;
                }
            }
        }
        Ok(())
    }
}

/// What a dead letter becomes on its stream: its own fields, how often it was replayed, and where
/// the stream has other groups (`groups`), for which one it is.
fn replayed(letter: &Fields, groups: &BTreeSet<String>) -> Fields {
    let ours = |name: &[u8]| {
        dead::is_ours(name)
            || name == wire::FOR_GROUP.as_bytes()
            || name == wire::REPLAYS.as_bytes()
    };
    let own = letter.iter().filter(|(name, _)| !ours(name));
    let mut fields: Fields = own
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    if fields.is_empty() {
        return fields;
    }
    let before = letter
        .get(wire::REPLAYS)
        .and_then(|count| std::str::from_utf8(count).ok()?.parse::<u64>().ok());
    fields.push(
        wire::REPLAYS,
        (before.unwrap_or(0).saturating_add(1)).to_string(),
    );
    let group = letter
        .get(dead::GROUP)
        .and_then(|group| std::str::from_utf8(group).ok());
    if let Some(group) = group.filter(|group| groups.len() > 1 && groups.contains(*group)) {
        fields.push(wire::FOR_GROUP, group);
    }
    fields
}

impl IntoFuture for ReplayDlq {
    type Output = Result<usize, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for ReplayDlq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayDlq")
            .field("stream", &self.stream)
            .field("dlqs", &self.dlqs)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fields: &[(&str, &str)]) -> Fields {
        fields
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect()
    }

    fn groups(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_replayed_entry_has_its_own_fields_again() {
        let letter = fields(&[
            ("data", "1"),
            ("x-own", "kept"),
            ("x-error", "e"),
            ("x-group", "g"),
        ]);
        let alone = fields(&[("data", "1"), ("x-own", "kept"), ("rk-replays", "1")]);
        assert_eq!(replayed(&letter, &groups(&["g"])), alone);
    }

    #[test]
    fn where_there_are_other_groups_it_is_for_the_one_that_failed() {
        let letter = fields(&[
            ("data", "1"),
            ("rk-replays", "2"),
            ("rk-for-group", "old"),
            ("x-group", "g"),
        ]);
        let shared = fields(&[("data", "1"), ("rk-replays", "3"), ("rk-for-group", "g")]);
        assert_eq!(replayed(&letter, &groups(&["g", "h"])), shared);
        let gone = fields(&[("data", "1"), ("rk-replays", "3")]);
        assert_eq!(replayed(&letter, &groups(&["h", "i"])), gone);
    }

    #[test]
    fn what_would_be_empty_stays_empty() {
        assert!(
            replayed(
                &fields(&[("x-error", "e"), ("rk-replays", "1")]),
                &groups(&[])
            )
            .is_empty()
        );
    }
}
