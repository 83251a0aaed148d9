//! Publishing: what is sent, and what comes back.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;

use crate::entry_id::EntryId;
use crate::error::{Error, ErrorKind};
use crate::fields::Fields;
use crate::store::{Fault, FaultClass, Store};
use crate::stream::Target;
use crate::subscription::check_name;
use crate::trim::Trim;
use crate::wire;

/// Messages in one round trip.
const ROUND_TRIP: usize = 10_000;

/// One message on its way: headers and a trim can be added, and awaiting it sends it.
///
/// See [`Broker::publish`](crate::Broker::publish).
#[must_use = "nothing is published until this is awaited"]
pub struct Publish<'a> {
    store: Store,
    largest: usize,
    entry: Result<(String, Fields), Error>,
    trim: Option<Trim>,
    borrowed: PhantomData<&'a ()>,
}

impl Publish<'_> {
    pub(crate) fn new<T: Serialize + ?Sized>(
        store: &Store,
        largest: usize,
        stream: &impl Target<T>,
        body: &T,
    ) -> Self {
        Self::of(store, largest, stream.stream_name(), fields(body)).trimming(stream.trim())
    }

    /// An entry whose fields are given, one at least: Redis refuses an entry without any.
    pub(crate) fn with_fields(store: &Store, largest: usize, stream: &str, fields: Fields) -> Self {
        let none = || {
            Error::new(
                ErrorKind::Input,
                "an entry without fields cannot be published: give it one",
            )
        };
        let fields = (!fields.is_empty()).then_some(fields).ok_or_else(none);
        Self::of(store, largest, stream, fields)
    }

    fn of(store: &Store, largest: usize, stream: &str, fields: Result<Fields, Error>) -> Self {
        let entry = named(stream).and_then(|()| Ok((stream.to_owned(), fields?)));
        Self {
            store: store.clone(),
            largest,
            entry,
            trim: None,
            borrowed: PhantomData,
        }
    }

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
                Err(why) => {
                    self.entry = Err(Error::new(
                        ErrorKind::Input,
                        format!("the name of a header {why}"),
                    ))
                }
            }
        }
        self
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
            let answers = self.store.publish(&stream, &[fields], self.trim).await;
            let answer =
                answers.and_then(|mut answers| answers.pop().unwrap_or_else(|| Err(no_answer())));
            answer.map_err(|fault| refused(&stream, &fault))
        })
    }
}

impl fmt::Debug for Publish<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = self.entry.as_ref().map(|(stream, _)| stream);
        f.debug_struct("Publish")
            .field("stream", &stream)
            .finish_non_exhaustive()
    }
}

/// Sends all in order, up to [`ROUND_TRIP`] in one round trip.
pub(crate) async fn all(
    store: &Store,
    largest: usize,
    stream: &str,
    trim: Option<Trim>,
    bodies: Result<Vec<Fields>, Error>,
) -> Result<Vec<EntryId>, PublishAllError> {
    let nothing = |error| PublishAllError {
        published: Vec::new(),
        error,
    };
    named(stream).map_err(nothing)?;
    let bodies = bodies.map_err(nothing)?;
    for body in &bodies {
        fits(stream, body, largest).map_err(nothing)?;
    }
    let mut published = Vec::with_capacity(bodies.len());
    for round in bodies.chunks(ROUND_TRIP) {
        let answers = match store.publish(stream, round, trim).await {
            Ok(answers) => answers,
            Err(fault) => {
                return Err(PublishAllError {
                    published,
                    error: refused(stream, &fault),
                });
            }
        };
        let mut refusal = None;
        for answer in answers {
            match answer {
                Ok(id) => published.push(id),
                Err(fault) => refusal = refusal.or(Some(fault)),
            }
        }
        if let Some(fault) = refusal {
            return Err(PublishAllError {
                published,
                error: refused(stream, &fault),
            });
        }
    }
    Ok(published)
}

/// Why [`Broker::publish_all`](crate::Broker::publish_all) did not publish everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishAllError {
    published: Vec<EntryId>,
    error: Error,
}

impl PublishAllError {
    /// What surely was published, all the same.
    #[must_use]
    pub fn published(&self) -> &[EntryId] {
        &self.published
    }

    /// What was wrong with the first that was not.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }
}

impl fmt::Display for PublishAllError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({} of the messages were published)",
            self.error,
            self.published.len()
        )
    }
}

impl std::error::Error for PublishAllError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<PublishAllError> for Error {
    fn from(error: PublishAllError) -> Self {
        Self::new(error.error.kind(), error.to_string())
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

fn named(stream: &str) -> Result<(), Error> {
    check_name(stream)
        .map_err(|why| Error::new(ErrorKind::Input, format!("the name of the stream {why}")))
}

/// Whether a message is small enough: found out before anything of it is sent.
fn fits(stream: &str, fields: &Fields, largest: usize) -> Result<(), Error> {
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

fn refused(stream: &str, fault: &Fault) -> Error {
    Error::from_fault(fault, &format!("publishing to `{stream}` failed"))
}

fn no_answer() -> Fault {
    Fault::new(FaultClass::Reconnect, "the server did not answer")
}
