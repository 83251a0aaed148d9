//! A message as a handler sees it: its id, its fields, its place, and the marks a handler sets.
//!
//! How the body is decoded is in `body`; what a mark leads to is decided in `decide`.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;

use crate::error::{Error, ErrorKind};
use crate::lane::Lane;
use crate::outcome::BoxError;

/// The id of a stream entry, `<milliseconds>-<sequence>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// Milliseconds of the server's clock when the entry was added.
    pub ms: u64,
    /// Tells entries of one millisecond apart.
    pub seq: u64,
}

impl EntryId {
    /// The smallest id, `0-0`.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The largest id.
    pub const MAX: Self = Self {
        ms: u64::MAX,
        seq: u64::MAX,
    };

    /// The id just below, or `0-0`.
    pub(crate) fn before(self) -> Self {
        match (self.ms, self.seq) {
            (0, 0) => Self::MIN,
            (ms, 0) => Self {
                ms: ms - 1,
                seq: u64::MAX,
            },
            (ms, seq) => Self { ms, seq: seq - 1 },
        }
    }

    /// The id just above, or the largest.
    pub(crate) fn after(self) -> Self {
        match (self.ms, self.seq) {
            (u64::MAX, u64::MAX) => Self::MAX,
            (ms, u64::MAX) => Self { ms: ms + 1, seq: 0 },
            (ms, seq) => Self { ms, seq: seq + 1 },
        }
    }

    /// Reads `<ms>-<seq>` or `<ms>`.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut parts = text.splitn(2, |byte| *byte == b'-');
        let ms = decimal(parts.next()?)?;
        let seq = parts.next().map_or(Some(0), decimal)?;
        Some(Self { ms, seq })
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| {
        Some(byte.wrapping_sub(b'0'))
            .filter(|digit| *digit < 10)
            .map(u64::from)
    };
    // Nineteen digits always fit.
    let (sure, rest) = digits.split_at(digits.len().min(19));
    let mut number = 0;
    for byte in sure {
        number = number * 10 + digit(byte)?;
    }
    for byte in rest {
        number = number.checked_mul(10)?.checked_add(digit(byte)?)?;
    }
    (!digits.is_empty()).then_some(number)
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for EntryId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text.as_bytes()).ok_or_else(|| {
            Error::new(
                ErrorKind::Input,
                format!(
                    "`{}` is not an entry id: expected `<ms>-<seq>`",
                    text.escape_debug()
                ),
            )
        })
    }
}

/// The fields of an entry, in order. Names and values are bytes: Redis does not ask for UTF-8.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields(SmallVec<[Field; 1]>);

/// A name and a value. Most entries have one field, which is then kept in place.
type Field = (Vec<u8>, Vec<u8>);

impl Fields {
    /// The value of the first field of this name.
    #[must_use]
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let name = name.as_ref();
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_slice())
    }

    /// The value of the first field of this name, where it is UTF-8.
    ///
    /// ```
    /// let msg = rillkit::Message::detached("jobs-dlq", "support", 1, [("x-error", "bad input")]);
    /// assert_eq!(msg.fields().text("x-error"), Some("bad input"));
    /// ```
    #[must_use]
    pub fn text(&self, name: impl AsRef<[u8]>) -> Option<&str> {
        std::str::from_utf8(self.get(name)?).ok()
    }

    /// All fields in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + '_ {
        self.0
            .iter()
            .map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of all names and values.
    pub(crate) fn bytes(&self) -> usize {
        self.0
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum()
    }

    pub(crate) fn push(&mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.0.push((name.into(), value.into()));
    }
}

impl FromIterator<(Vec<u8>, Vec<u8>)> for Fields {
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, Vec<u8>)>>(fields: I) -> Self {
        Self(fields.into_iter().collect())
    }
}

/// The names alone: values are what users must not find in a log.
impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| String::from_utf8_lossy(name)))
            .finish()
    }
}

/// One delivery of one entry, as a handler sees it.
///
/// A handler asks for it with a parameter of this type. `ack`, `nack` and `reject` are marks: they
/// take effect when the handler ends, and decide whatever it returns and whatever the policy says;
/// of several, reject wins over nack, and nack over ack.
///
/// ```
/// use rillkit::{Message, subscribe};
///
/// #[subscribe(stream = "jobs", group = "workers")]
/// async fn run_job(job: serde_json::Value, msg: Message) {
///     if job.get("name").is_none() {
///         msg.reject("a job needs a name");
///     }
///     println!("{} is delivery {}", msg.id(), msg.deliveries());
/// }
/// ```
#[derive(Clone)]
pub struct Message {
    inner: Arc<Inner>,
}

struct Inner {
    id: EntryId,
    deliveries: u64,
    fields: Fields,
    lane: Arc<Lane>,
    marks: Marks,
}

#[derive(Default)]
struct Marks {
    set: AtomicU8,
    settled: AtomicBool,
    reason: Mutex<Option<String>>,
}

/// The marks in the order of their strength.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    Ack,
    Nack,
    Reject(String),
}

const ACK: u8 = 1;
const NACK: u8 = 2;
const REJECT: u8 = 4;

impl Message {
    pub(crate) fn new(id: EntryId, deliveries: u64, fields: Fields, lane: Arc<Lane>) -> Self {
        Self {
            inner: Arc::new(Inner {
                id,
                deliveries,
                fields,
                lane,
                marks: Marks::default(),
            }),
        }
    }

    /// A message that came from no stream, to call a handler in a unit test. Its marks can be set
    /// and [`marked`](Self::marked) tells them; `ack_now` answers `Ok` and does nothing.
    ///
    /// ```
    /// use rillkit::Message;
    ///
    /// let msg = Message::detached("jobs", "workers", 3, [("data", r#"{"name":"a"}"#)]);
    /// assert_eq!(msg.deliveries(), 3);
    /// ```
    pub fn detached<N: Into<Vec<u8>>, V: Into<Vec<u8>>>(
        stream: &'static str,
        group: &'static str,
        deliveries: u64,
        fields: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let fields = fields
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self::new(
            EntryId { ms: 1, seq: 0 },
            deliveries,
            fields,
            Arc::new(Lane::detached(stream, group)),
        )
    }

    /// The entry's id.
    #[must_use]
    pub fn id(&self) -> EntryId {
        self.inner.id
    }

    /// The number of this delivery, from 1: the group's own delivery counter in Redis.
    #[must_use]
    pub fn deliveries(&self) -> u64 {
        self.inner.deliveries
    }

    /// Whether an earlier delivery of this entry failed, or its worker was lost.
    #[must_use]
    pub fn is_redelivery(&self) -> bool {
        self.inner.deliveries > 1
    }

    /// The stream the entry is on.
    #[must_use]
    pub fn stream(&self) -> &str {
        self.inner.lane.consumer.stream
    }

    /// The group that reads it.
    #[must_use]
    pub fn group(&self) -> &str {
        self.inner.lane.consumer.group
    }

    /// The name of this process's consumer in the group.
    #[must_use]
    pub fn consumer(&self) -> &str {
        &self.inner.lane.consumer.name
    }

    /// All fields of the entry, as they are in Redis.
    #[must_use]
    pub fn fields(&self) -> &Fields {
        &self.inner.fields
    }

    /// The body as it came, undecoded; `None` where the entry has no field `data`.
    #[must_use]
    pub fn data(&self) -> Option<&[u8]> {
        self.inner.fields.get(crate::wire::DATA)
    }

    /// A header that was given when the message was published.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.inner.fields.iter().find_map(|(known, value)| {
            (known.strip_prefix(crate::wire::HEADER.as_bytes()) == Some(name.as_bytes()))
                .then_some(value)
        })
    }

    /// Marks the message as done: it is acked when the handler ends, whatever it returns.
    pub fn ack(&self) {
        self.inner.marks.set.fetch_or(ACK, Ordering::Release);
    }

    /// Marks the message as failed: it is tried again after its delay, or dead-lettered when it
    /// has no retries left, whatever the handler returns.
    pub fn nack(&self) {
        self.inner.marks.set.fetch_or(NACK, Ordering::Release);
    }

    /// Marks the message as hopeless: it goes to the DLQ when the handler ends, with `reason` as
    /// its error, whatever the handler returns.
    pub fn reject(&self, reason: impl fmt::Display) {
        *self
            .inner
            .marks
            .reason
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(reason.to_string());
        self.inner.marks.set.fetch_or(REJECT, Ordering::Release);
    }

    /// Acks at once, before the handler ends. What the handler returns afterwards can only be
    /// logged.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LeaseLost`] when the message is no longer this consumer's, so that somebody
    /// else may be running it; the connection's error when the ack did not get through, and then
    /// the message is settled as if this had not been called.
    pub async fn ack_now(&self) -> Result<(), Error> {
        if self.inner.marks.settled.load(Ordering::Acquire) {
            return Ok(());
        }
        self.inner
            .lane
            .ack_now(self.inner.id, self.inner.deliveries)
            .await?;
        self.inner.marks.settled.store(true, Ordering::Release);
        Ok(())
    }

    /// The strongest mark that was set, as one word, for tests of a handler: `ack`, `nack` or
    /// `reject`.
    #[must_use]
    pub fn marked(&self) -> Option<&'static str> {
        self.mark().map(|mark| match mark {
            Mark::Ack => "ack",
            Mark::Nack => "nack",
            Mark::Reject(_) => "reject",
        })
    }

    pub(crate) fn mark(&self) -> Option<Mark> {
        match self.inner.marks.set.load(Ordering::Acquire) {
            0 => None,
            set if set & REJECT != 0 => {
                let reason = self
                    .inner
                    .marks
                    .reason
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone();
                Some(Mark::Reject(reason.unwrap_or_default()))
            }
            set if set & NACK != 0 => Some(Mark::Nack),
            _ => Some(Mark::Ack),
        }
    }

    /// Whether `ack_now` (or the policy `ack_first`) has acked it already.
    pub(crate) fn is_settled(&self) -> bool {
        self.inner.marks.settled.load(Ordering::Acquire)
    }

    pub(crate) fn set_settled(&self) {
        self.inner.marks.settled.store(true, Ordering::Release);
    }

    pub(crate) fn lane(&self) -> &Arc<Lane> {
        &self.inner.lane
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("id", &self.id())
            .field("stream", &self.stream())
            .field("group", &self.group())
            .field("deliveries", &self.deliveries())
            .field("fields", self.fields())
            .finish_non_exhaustive()
    }
}

/// The text of an error as it goes into logs and the DLQ: at most `limit` characters, never blank.
pub(crate) fn error_text(error: &BoxError) -> String {
    let text = error.to_string();
    capped(&text)
}

/// At most [`crate::wire::ERROR_LIMIT`] characters, never blank.
pub(crate) fn capped(text: &str) -> String {
    if text.trim().is_empty() {
        return "error without a message".to_owned();
    }
    text.chars().take(crate::wire::ERROR_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_and_written() {
        assert_eq!(EntryId::parse(b"17-3"), Some(EntryId { ms: 17, seq: 3 }));
        assert_eq!(EntryId::parse(b"17"), Some(EntryId { ms: 17, seq: 0 }));
        assert_eq!(
            EntryId::MAX.to_string(),
            "18446744073709551615-18446744073709551615"
        );
        assert_eq!(
            EntryId::MAX.to_string().parse::<EntryId>(),
            Ok(EntryId::MAX)
        );
        for bad in [
            "",
            "-",
            "1-",
            "-1",
            "a",
            "1-b",
            "18446744073709551616-0",
            "1-2-3",
            "+1-0",
        ] {
            assert_eq!(EntryId::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn neighbours_of_an_id() {
        let id = EntryId { ms: 5, seq: 0 };
        assert_eq!(
            id.before(),
            EntryId {
                ms: 4,
                seq: u64::MAX
            }
        );
        assert_eq!(id.before().after(), id);
        assert_eq!(EntryId::MIN.before(), EntryId::MIN);
        assert_eq!(EntryId::MAX.after(), EntryId::MAX);
    }

    #[test]
    fn the_strongest_mark_wins() {
        let msg = Message::detached("s", "g", 1, [("data", "{}")]);
        assert_eq!(msg.mark(), None);
        msg.ack();
        assert_eq!(msg.mark(), Some(Mark::Ack));
        msg.nack();
        assert_eq!(msg.mark(), Some(Mark::Nack));
        msg.reject("no use");
        msg.ack();
        assert_eq!(msg.mark(), Some(Mark::Reject("no use".to_owned())));
    }

    #[test]
    fn error_texts_are_capped_and_never_blank() {
        assert_eq!(capped(" \n"), "error without a message");
        assert_eq!(capped(&"ä".repeat(2000)).chars().count(), 1000);
    }
}
