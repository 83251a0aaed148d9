//! What a dead letter holds: how it is written, read, and made a message again.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;

use crate::decide::Reason;
use crate::entry_id::EntryId;
use crate::error::{Error, ErrorKind};
use crate::failed_delivery::FailedDelivery;
use crate::fields::Fields;
use crate::message::Message;
use crate::post::Post;
use crate::store::Entry;
use crate::wire::{self, dead};

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
    let mut letter = own(message.fields());
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

/// The fields that are the message's own, in order.
fn own(fields: &Fields) -> Fields {
    without(fields, dead::is_ours)
}

fn without(fields: &Fields, left_out: impl Fn(&[u8]) -> bool) -> Fields {
    fields
        .iter()
        .filter(|(name, _)| !left_out(name))
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect()
}

/// A dead letter: a message with what is known about its end.
///
/// What is known is what was written: letters of Python RillKit have no reason and no handler, and
/// letters of other programs may have nothing at all.
#[derive(Clone, PartialEq, Eq)]
pub struct Letter {
    id: EntryId,
    fields: Fields,
}

impl Letter {
    /// Its id in the dead-letter queue. Its milliseconds say since when it has been there.
    #[must_use]
    pub fn id(&self) -> EntryId {
        self.id
    }

    /// The id that the message had on its stream.
    #[must_use]
    pub fn original_id(&self) -> Option<EntryId> {
        EntryId::parse(self.fields.get(dead::ORIGINAL_ID)?)
    }

    /// The stream that it was on.
    #[must_use]
    pub fn stream(&self) -> Option<&str> {
        self.fields.text(dead::STREAM)
    }

    /// The group in which it failed.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        self.fields.text(dead::GROUP)
    }

    /// `error`, `panic`, `timeout`, `rejected`, `decode`, `exhausted` or `tx`.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.fields.text(dead::REASON)
    }

    /// The error's text, at most 1000 characters.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.fields.text(dead::ERROR)
    }

    /// How often it was delivered.
    #[must_use]
    pub fn deliveries(&self) -> Option<u64> {
        self.fields.text(dead::DELIVERIES)?.parse().ok()
    }

    /// The handler that failed, with its module: `app::jobs::run_job`.
    #[must_use]
    pub fn handler(&self) -> Option<&str> {
        self.fields.text(dead::HANDLER)
    }

    /// The worker that had it.
    #[must_use]
    pub fn consumer(&self) -> Option<&str> {
        self.fields.text(dead::CONSUMER)
    }

    /// When it failed, by that worker's clock.
    #[must_use]
    pub fn failed_at(&self) -> Option<SystemTime> {
        let ms = self.fields.text(dead::FAILED_AT)?.parse().ok()?;
        UNIX_EPOCH.checked_add(Duration::from_millis(ms))
    }

    /// The deliveries that failed, as far as they are known; see [`FailedDelivery::all_in`].
    #[must_use]
    pub fn attempts(&self) -> Vec<FailedDelivery> {
        FailedDelivery::all_in(&self.fields)
    }

    /// How often it was replayed before it failed this time.
    #[must_use]
    pub fn replays(&self) -> u64 {
        let replays = self.fields.text(wire::REPLAYS);
        replays.and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// All its fields, as they are in the queue.
    #[must_use]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The fields that the message had on its stream, in order.
    pub fn own_fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().filter(|(name, _)| !dead::is_ours(name))
    }

    /// The body as it was sent: JSON, when the sender kept to the rules.
    #[must_use]
    pub fn data(&self) -> Option<&[u8]> {
        self.fields.get(wire::DATA)
    }

    /// A header that was given when the message was published.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.fields.get(format!("{}{name}", wire::HEADER))
    }

    /// The body, decoded.
    ///
    /// # Errors
    ///
    /// [`Input`](ErrorKind::Input) where there is none, or it does not fit the type.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let wrong = |why| {
            let text = format!("dead letter {} cannot be decoded: {why}", self.id);
            Error::new(ErrorKind::Input, text)
        };
        let data = self
            .data()
            .ok_or_else(|| wrong("entry has no 'data' field".to_owned()))?;
        serde_json::from_slice(data).map_err(|error| wrong(error.to_string()))
    }

    /// The same letter with another body, where it stood or else at the end.
    pub(super) fn with_body(&self, data: &[u8]) -> Self {
        let is_body = |name: &[u8]| name == wire::DATA.as_bytes();
        let mut fields = Fields::default();
        for (name, value) in self.fields.iter() {
            if !is_body(name) {
                fields.push(name, value);
            } else if fields.get(wire::DATA).is_none() {
                fields.push(name, data);
            }
        }
        if fields.get(wire::DATA).is_none() {
            fields.push(wire::DATA, data);
        }
        Self { fields, ..*self }
    }

    /// The same letter with other fields of the message.
    pub(super) fn with_own(&self, own: &Fields) -> Self {
        let kept = |name: &[u8]| dead::is_ours(name) || name == wire::REPLAYS.as_bytes();
        let mut fields = without(own, kept);
        for (name, value) in self.fields.iter().filter(|(name, _)| kept(name)) {
            fields.push(name, value);
        }
        Self { fields, ..*self }
    }

    pub(super) fn stream_bytes(&self) -> Option<&[u8]> {
        self.fields.get(dead::STREAM)
    }

    /// What it becomes on its stream: its own fields, how often it was replayed, and where the stream
    /// has other groups (`groups`), for which one it is. Nothing when it has no fields of its own.
    pub(super) fn replayed(&self, groups: &BTreeSet<String>) -> Option<Fields> {
        let replay = [wire::FOR_GROUP.as_bytes(), wire::REPLAYS.as_bytes()];
        let mut fields = without(&self.fields, |name| {
            dead::is_ours(name) || replay.contains(&name)
        });
        if fields.is_empty() {
            return None;
        }
        let replays = self.replays().saturating_add(1);
        fields.push(wire::REPLAYS, replays.to_string());
        let here = |group: &&str| groups.len() > 1 && groups.contains(*group);
        if let Some(group) = self.group().filter(here) {
            fields.push(wire::FOR_GROUP, group);
        }
        Some(fields)
    }
}

impl From<Entry> for Letter {
    fn from(Entry { id, fields }: Entry) -> Self {
        Self { id, fields }
    }
}

/// The names of its fields alone, and what is known about its end: no body.
impl fmt::Debug for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Letter")
            .field("id", &self.id)
            .field("original_id", &self.original_id())
            .field("stream", &self.stream())
            .field("group", &self.group())
            .field("reason", &self.reason())
            .field("deliveries", &self.deliveries())
            .field("replays", &self.replays())
            .field("fields", &self.fields)
            .finish()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A letter of this id with these fields.
    pub(in crate::dlq) fn at(ms: u64, fields: &[(&str, &str)]) -> Letter {
        let id = EntryId { ms, seq: 0 };
        Letter::from(Entry {
            id,
            fields: fields_of(fields),
        })
    }

    fn fields_of(fields: &[(&str, &str)]) -> Fields {
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
        let letter = [
            ("data", "1"),
            ("x-own", "kept"),
            ("x-error", "e"),
            ("x-group", "g"),
        ];
        let alone = fields_of(&[("data", "1"), ("x-own", "kept"), ("rk-replays", "1")]);
        assert_eq!(at(1, &letter).replayed(&groups(&["g"])), Some(alone));
    }

    #[test]
    fn where_there_are_other_groups_it_is_for_the_one_that_failed() {
        let letter = at(
            1,
            &[
                ("data", "1"),
                ("rk-replays", "2"),
                ("rk-for-group", "old"),
                ("x-group", "g"),
            ],
        );
        let shared = fields_of(&[("data", "1"), ("rk-replays", "3"), ("rk-for-group", "g")]);
        assert_eq!(letter.replayed(&groups(&["g", "h"])), Some(shared));
        let gone = fields_of(&[("data", "1"), ("rk-replays", "3")]);
        assert_eq!(letter.replayed(&groups(&["h", "i"])), Some(gone));
    }

    #[test]
    fn what_would_be_empty_is_not_replayed() {
        let letter = at(1, &[("x-error", "e"), ("rk-replays", "1")]);
        assert_eq!(letter.replayed(&groups(&[])), None);
    }

    #[test]
    fn an_edited_letter_has_another_body_and_the_same_end() {
        let letter = at(
            1,
            &[
                ("data", "1"),
                ("h-a", "b"),
                ("data", "2"),
                ("x-group", "g"),
                ("rk-replays", "4"),
            ],
        );
        let edited = letter.with_body(b"3").replayed(&groups(&["g", "h"]));
        let expected = [
            ("data", "3"),
            ("h-a", "b"),
            ("rk-replays", "5"),
            ("rk-for-group", "g"),
        ];
        assert_eq!(edited, Some(fields_of(&expected)));
        let bodiless = at(1, &[("h-a", "b")]).with_body(b"3");
        assert_eq!(bodiless.fields, fields_of(&[("h-a", "b"), ("data", "3")]));

        let own = fields_of(&[("other", "1"), ("rk-replays", "0"), ("x-group", "h")]);
        let edited = letter.with_own(&own).replayed(&groups(&["g", "h"]));
        let expected = [("other", "1"), ("rk-replays", "5"), ("rk-for-group", "g")];
        assert_eq!(edited, Some(fields_of(&expected)));
        assert_eq!(
            letter
                .with_own(&Fields::default())
                .replayed(&groups(&["g"])),
            None
        );
    }

    #[test]
    fn what_is_not_written_or_is_nonsense_is_not_known() {
        let letter = at(
            7,
            &[
                ("x-deliveries", "many"),
                ("x-original-id", "first"),
                ("x-failed-at", "18446744073709551616"),
                ("rk-replays", "-1"),
            ],
        );
        assert_eq!(letter.deliveries(), None);
        assert_eq!(letter.original_id(), None);
        assert_eq!(letter.failed_at(), None);
        assert_eq!(letter.replays(), 0);
        assert_eq!((letter.error(), letter.data()), (None, None));
        let error = letter.body::<u32>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
    }

    #[test]
    fn its_debug_text_holds_no_body() {
        let letter = at(
            1,
            &[("data", "secret"), ("h-a", "secret"), ("x-error", "secret")],
        );
        let text = format!("{letter:?}");
        assert!(text.contains("data") && !text.contains("secret"), "{text}");
    }
}
