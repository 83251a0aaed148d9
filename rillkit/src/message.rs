//! A message as a handler sees it: its id, its fields, its place, and the marks a handler sets.
//!
//! How the body is decoded is in `body`; what a mark leads to is decided in `decide`.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::entry_id::EntryId;
use crate::error::{Error, ErrorKind};
use crate::fields::Fields;
use crate::lane::Lane;
use crate::store::effect::Effect;
use crate::tx::Queue;

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
    /// What the handler's key function made of the body.
    key: OnceLock<Box<str>>,
    /// There where the handler takes a `Tx`.
    queue: OnceLock<Box<Queue>>,
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
                key: OnceLock::new(),
                queue: OnceLock::new(),
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

    /// The key of this message, for effects outside of Redis that must not happen twice: written in one
    /// transaction with the effect, or sent along with a request to a service that knows such keys.
    ///
    /// It is `STREAM:GROUP:KEY`, where the last is what the function behind `idempotent = ..` makes of
    /// the body; else the field `rk-id`, with which the publisher names a message; else the id of the
    /// entry. So every delivery of one message has the same key, and no two handlers of a program share
    /// one. A replayed dead letter is a new entry: its key stays the same by a function or an `rk-id`
    /// only.
    ///
    /// ```
    /// use rillkit::Message;
    ///
    /// let msg = Message::detached("jobs", "workers", 1, [("data", "{}"), ("rk-id", "order-17")]);
    /// assert_eq!(msg.idempotency_key(), "jobs:workers:order-17");
    /// ```
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        // A `:` in these would let two handlers share a key.
        let plain = |name: &str| name.replace('%', "%25").replace(':', "%3a");
        let (stream, group) = (plain(self.stream()), plain(self.group()));
        format!("{stream}:{group}:{}", self.key())
    }

    /// The key within the group.
    pub(crate) fn key(&self) -> Cow<'_, str> {
        if let Some(key) = self.inner.key.get() {
            return Cow::Borrowed(key);
        }
        let named = self.inner.fields.get(crate::wire::ID);
        match named.filter(|id| !id.is_empty()).map(std::str::from_utf8) {
            Some(Ok(id)) => Cow::Borrowed(id),
            // Other bytes stay told apart.
            Some(Err(_)) => Cow::Owned(named.unwrap_or_default().escape_ascii().to_string()),
            None => Cow::Owned(self.inner.id.to_string()),
        }
    }

    /// Notes what the handler's key function made of the body.
    pub(crate) fn set_key(&self, key: String) {
        // A message that is looked at again has the key that it had.
        let _ = self.inner.key.set(key.into());
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
    /// ```
    /// use rillkit::{HandlerError, Message, subscribe};
    ///
    /// #[subscribe(stream = "reports", group = "printers")]
    /// async fn print(_report: String, msg: Message) -> Result<(), HandlerError> {
    ///     // Better not printed than printed twice.
    ///     msg.ack_now().await?;
    ///     // ..
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LeaseLost`](crate::ErrorKind::LeaseLost) when the message is no longer this
    /// consumer's, so that somebody else may be running it; the connection's error when the ack did
    /// not get through, and then the message is settled as if this had not been called;
    /// [`ErrorKind::Input`] where the handler takes a [`Tx`](crate::Tx), whose commands go with the ack at
    /// the end of the run.
    pub async fn ack_now(&self) -> Result<(), Error> {
        if self.inner.queue.get().is_some() {
            return Err(self.is_acked_with_its_tx());
        }
        if self.inner.marks.settled.load(Ordering::Acquire) {
            return Ok(());
        }
        let acked = self
            .inner
            .lane
            .ack_now(self.inner.id, self.inner.deliveries);
        // Another clone may have done it meanwhile.
        acked.await.or_else(|error| {
            if self.is_settled() {
                Ok(())
            } else {
                Err(error)
            }
        })?;
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

    fn is_acked_with_its_tx(&self) -> Error {
        Error::new(
            ErrorKind::Input,
            format!(
                "message {} cannot be acked now: its handler takes a `Tx`, whose commands are applied with the ack \
                 when the run has ended; write `msg.ack()`, or leave the `Tx` out",
                self.id()
            ),
        )
    }

    /// What the handler queues to be done with the ack, from now on at least.
    pub(crate) fn queue(&self) -> &Queue {
        self.inner.queue.get_or_init(Box::default)
    }

    /// What it has queued; `None` where it takes no `Tx`.
    pub(crate) fn close_queue(&self) -> Option<Vec<Effect>> {
        self.inner.queue.get().map(|queue| queue.close())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_functions_or_the_publishers_or_the_entrys() {
        let key = |fields: &[(&str, &[u8])]| {
            let fields = fields.iter().map(|(name, value)| (*name, value.to_vec()));
            Message::detached("s:1", "g", 1, fields).idempotency_key()
        };
        assert_eq!(key(&[("data", b"1")]), "s%3a1:g:1-0");
        assert_eq!(key(&[("rk-id", b"")]), "s%3a1:g:1-0");
        assert_eq!(key(&[("rk-id", b"a:b")]), "s%3a1:g:a:b");
        assert_eq!(key(&[("rk-id", b"\xff")]), "s%3a1:g:\\xff");
        let msg = Message::detached("s", "g", 1, [("data", "1"), ("rk-id", "a")]);
        msg.set_key("b".to_owned());
        assert_eq!(msg.idempotency_key(), "s:g:b");
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
}
