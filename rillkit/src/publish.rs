//! Publishing: what is sent, and what comes back.

mod all;
mod later;
mod tries;

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

pub use self::all::PublishAllError;
pub(crate) use self::all::all;
use self::tries::Tries;

use crate::entry_id::EntryId;
use crate::error::{Error, ErrorKind};
use crate::fields::Fields;
use crate::promote::Promoters;
use crate::store::{Due, Fault, FaultClass, Once, SCRIPT_FIELDS, Store};
use crate::stream::Target;
use crate::subscription::check_name;
use crate::trim::Trim;
use crate::wire;

/// How long an id is remembered, when nothing else is said.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// One message on its way: awaiting it sends it, as it is or with what is added before.
///
/// It gives back the entry's id, or, once [`delay`](Self::delay) or [`at`](Self::at) was called, the
/// [`DelayedId`](crate::DelayedId). See [`Broker::publish`](crate::Broker::publish).
#[must_use = "nothing is published until this is awaited"]
pub struct Publish<'a, W = Immediate> {
    when: W,
    store: Store,
    promoters: &'a Arc<Promoters>,
    largest: usize,
    entry: Result<(String, Fields), Error>,
    trim: Option<Trim>,
    once: Option<Box<Once>>,
}

/// Of a [`Publish`]: the message is added to its stream at once.
#[derive(Debug, Clone, Copy)]
pub struct Immediate(());

/// Of a [`Publish`]: the message is added to its stream later.
#[derive(Debug, Clone, Copy)]
pub struct Delayed(Due);

impl<'a> Publish<'a> {
    pub(crate) fn new<T: Serialize + ?Sized>(
        store: &Store,
        promoters: &'a Arc<Promoters>,
        largest: usize,
        stream: &impl Target<T>,
        body: &T,
    ) -> Self {
        Self::of(
            store,
            promoters,
            largest,
            stream.stream_name(),
            fields(body),
        )
        .trimming(stream.trim())
    }

    /// An entry whose fields are given, one at least: Redis refuses an entry without any.
    pub(crate) fn with_fields(
        store: &Store,
        promoters: &'a Arc<Promoters>,
        largest: usize,
        stream: &str,
        fields: Fields,
    ) -> Self {
        let fields = (!fields.is_empty()).then_some(fields);
        let fields = fields.ok_or_else(no_fields);
        Self::of(store, promoters, largest, stream, fields)
    }

    fn of(
        store: &Store,
        promoters: &'a Arc<Promoters>,
        largest: usize,
        stream: &str,
        fields: Result<Fields, Error>,
    ) -> Self {
        let entry = named(stream).and_then(|()| Ok((stream.to_owned(), fields?)));
        Self {
            when: Immediate(()),
            store: store.clone(),
            promoters,
            largest,
            entry,
            trim: None,
            once: None,
        }
    }
}

impl<W> Publish<'_, W> {
    pub(crate) fn trimming(mut self, trim: Option<Trim>) -> Self {
        self.trim = trim;
        self
    }

    /// Keeps the newest `length` messages of the stream or a few more, and drops what is older,
    /// handled or not; see [`Trim`]. Of several such settings the last counts, and it goes over the
    /// one of a [`Stream`](crate::Stream) constant.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// # let broker = rillkit::Broker::memory();
    /// broker.publish("events", &"one").maxlen(100_000).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// A length of 0 fails the publish ([`Input`](ErrorKind::Input)).
    pub fn maxlen(self, length: u64) -> Self {
        self.trimming(Some(Trim::MaxLen(length)))
    }

    /// Keeps exactly the newest `length` messages: as [`maxlen`](Self::maxlen), at a higher cost for
    /// the server.
    pub fn maxlen_exact(self, length: u64) -> Self {
        self.trimming(Some(Trim::MaxLenExact(length)))
    }

    /// Drops messages with a lower id than this; see [`maxlen`](Self::maxlen).
    pub fn minid(self, id: EntryId) -> Self {
        self.trimming(Some(Trim::MinId(id)))
    }

    /// Drops messages that are older than this by the server's clock; see [`maxlen`](Self::maxlen).
    /// The server is asked for its time first, once in a second at most.
    pub fn max_age(self, age: Duration) -> Self {
        self.trimming(Some(Trim::MaxAge(age)))
    }

    /// Adds a header: the field `h-<name>`, which a handler reads with
    /// [`Message::header`](crate::Message::header).
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        if let Ok((_, fields)) = &mut self.entry {
            match check_name(name) {
                Ok(()) => fields.push(format!("{}{name}", wire::HEADER), value.as_ref()),
                Err(why) => self.refuse(format!("the name of a header {why}")),
            }
        }
        self
    }

    /// Makes it safe to publish this again: whatever is published to the stream under the same id
    /// within a day is the same message. The first adds an entry, and every further one gives back
    /// the id of that entry and adds nothing. The server sees to both in one step.
    ///
    /// So an answer that was lost is no question any more: it is asked for again, for up to ten
    /// seconds, before the error is [`Unknown`](ErrorKind::Unknown). The caller can publish again as
    /// well, also from another process.
    ///
    /// The id goes along in the field `rk-id`. The key `rk:{<stream>}:published:<id>` remembers it;
    /// when that is deleted, or evicted by a server whose memory is full, the next is a new message.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// # let broker = rillkit::Broker::memory();
    /// let first = broker.publish("orders", "a book").id("order-42").await?;
    /// let again = broker.publish("orders", "a book").id("order-42").await?;
    /// assert_eq!(first, again);
    /// # Ok(()) }
    /// ```
    pub fn id(self, id: &str) -> Self {
        self.id_for(id, REMEMBERED)
    }

    /// As [`id`](Self::id), remembered for that long, from the first publication on. Longer than
    /// anybody tries again is long enough: each id is a key on the server meanwhile.
    pub fn id_for(mut self, id: &str, remembered: Duration) -> Self {
        if let Ok((_, fields)) = &mut self.entry {
            if let Err(why) = check_name(id) {
                self.refuse(format!("the id of a message {why}"));
            } else if remembered < Duration::from_millis(1) {
                self.refuse(
                    "an id is to be remembered for no time: give it a millisecond at least",
                );
            } else {
                fields.set(wire::ID, id);
                self.once = Some(Box::new(Once::new(id, remembered)));
            }
        }
        self
    }

    fn refuse(&mut self, why: impl Into<String>) {
        self.entry = Err(Error::new(ErrorKind::Input, why));
    }
}

impl<'a> IntoFuture for Publish<'a> {
    type Output = Result<EntryId, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (stream, fields) = self.entry?;
            fits(&stream, &fields, self.largest)?;
            self.trim.map_or(Ok(()), Trim::check)?;
            if let Some(once) = self.once {
                return publish_once(&self.store, &stream, &fields, self.trim, &once).await;
            }
            let answers = self.store.publish(&stream, &[fields], self.trim).await;
            let answer =
                answers.and_then(|mut answers| answers.pop().unwrap_or_else(|| Err(no_answer())));
            answer.map_err(|fault| refused(&stream, &fault))
        })
    }
}

impl<W> fmt::Debug for Publish<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = self.entry.as_ref().map(|(stream, _)| stream);
        f.debug_struct("Publish")
            .field("stream", &stream)
            .finish_non_exhaustive()
    }
}

async fn publish_once(
    store: &Store,
    stream: &str,
    fields: &Fields,
    trim: Option<Trim>,
    once: &Once,
) -> Result<EntryId, Error> {
    passes(stream, fields)?;
    let mut tries = Tries::new();
    loop {
        match store.publish_once(stream, fields, trim, once).await {
            Ok(id) => return Ok(id),
            Err(fault) => {
                let again = tries.after(fault).await;
                again.map_err(|fault| refused(stream, &fault))?;
            }
        }
    }
}

/// The entry of a body: one field, UTF-8 JSON.
pub(crate) fn fields<T: Serialize + ?Sized>(body: &T) -> Result<Fields, Error> {
    let data = serde_json::to_vec(body).map_err(|error| {
        Error::new(
            ErrorKind::Input,
            format!("the body cannot be written as JSON: {error}"),
        )
    })?;
    let mut fields = Fields::default();
    fields.push(wire::DATA, data);
    Ok(fields)
}

pub(crate) fn named(stream: &str) -> Result<(), Error> {
    check_name(stream)
        .map_err(|why| Error::new(ErrorKind::Input, format!("the name of the stream {why}")))
}

pub(crate) fn no_fields() -> Error {
    Error::new(
        ErrorKind::Input,
        "an entry without fields cannot be published: give it one",
    )
}

/// Whether a message is small enough: found out before anything of it is sent.
pub(crate) fn fits(stream: &str, fields: &Fields, largest: usize) -> Result<(), Error> {
    let bytes = fields.bytes();
    if bytes <= largest {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::TooLarge,
        format!(
            "a message for `{stream}` has {bytes} bytes, and {largest} are allowed: put large data elsewhere and \
             publish where it is, or raise `Broker::largest_message`"
        ),
    ))
}

/// Whether a script can pass the fields on.
fn passes(stream: &str, fields: &Fields) -> Result<(), Error> {
    let count = fields.len();
    if count <= SCRIPT_FIELDS {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::TooLarge,
        format!(
            "a message for `{stream}` has {count} fields, and {SCRIPT_FIELDS} are allowed with an id or a delay: put \
             them into the body"
        ),
    ))
}

fn refused(stream: &str, fault: &Fault) -> Error {
    Error::from_fault(fault, &format!("publishing to `{stream}` failed"))
}

fn no_answer() -> Fault {
    Fault::new(FaultClass::Reconnect, "the server did not answer")
}
