//! A stream's name bound to the type of its bodies.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use crate::entry_id::EntryId;
use crate::trim::Trim;

/// A stream and the type of the bodies on it, so that publisher and handler agree at compile time.
///
/// ```
/// use rillkit::{Stream, subscribe};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Invoice {
///     number: u32,
/// }
///
/// const INVOICES: Stream<Invoice> = Stream::new("invoices").dlq("invoices-failed");
///
/// #[subscribe(stream = INVOICES, group = "senders")]
/// async fn send(invoice: Invoice) {
///     println!("{}", invoice.number);
/// }
///
/// # async fn publish(broker: rillkit::Broker) -> Result<(), rillkit::Error> {
/// broker.publish(INVOICES, &Invoice { number: 1 }).await?;
/// # Ok(()) }
/// ```
pub struct Stream<T: ?Sized> {
    name: &'static str,
    dlq: Option<&'static str>,
    trim: Option<Trim>,
    body: PhantomData<fn() -> T>,
}

impl<T: ?Sized> Stream<T> {
    /// The stream of this name. An empty name is refused when the broker starts.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            dlq: None,
            trim: None,
            body: PhantomData,
        }
    }

    /// Names another dead-letter stream than `<stream>-dlq`.
    #[must_use]
    pub const fn dlq(self, name: &'static str) -> Self {
        Self {
            dlq: Some(name),
            ..self
        }
    }

    /// Has each publish keep the newest `length` messages or a few more, and drop what is older,
    /// handled or not; see [`Trim`]. Of several such settings the last counts, and one of a single
    /// publish goes over it. Neither replays nor dead letters trim.
    ///
    /// ```
    /// use rillkit::Stream;
    ///
    /// const EVENTS: Stream<String> = Stream::new("events").maxlen(100_000);
    /// # assert!(EVENTS.trim().is_some());
    /// ```
    ///
    /// # Panics
    ///
    /// With a length of 0, for a constant at compile time.
    #[must_use]
    pub const fn maxlen(self, length: u64) -> Self {
        assert!(length > 0, "`maxlen` must be at least 1");
        self.trimmed(Trim::MaxLen(length))
    }

    /// Has each publish keep exactly the newest `length` messages: as [`maxlen`](Self::maxlen), at
    /// a higher cost for the server.
    ///
    /// # Panics
    ///
    /// With a length of 0, for a constant at compile time.
    #[must_use]
    pub const fn maxlen_exact(self, length: u64) -> Self {
        assert!(length > 0, "`maxlen_exact` must be at least 1");
        self.trimmed(Trim::MaxLenExact(length))
    }

    /// Has each publish drop messages with a lower id than this; see [`maxlen`](Self::maxlen).
    #[must_use]
    pub const fn minid(self, id: EntryId) -> Self {
        self.trimmed(Trim::MinId(id))
    }

    /// Has each publish drop messages that are older than this by the server's clock; see
    /// [`maxlen`](Self::maxlen).
    #[must_use]
    pub const fn max_age(self, age: Duration) -> Self {
        self.trimmed(Trim::MaxAge(age))
    }

    const fn trimmed(self, trim: Trim) -> Self {
        Self {
            trim: Some(trim),
            ..self
        }
    }

    /// The stream's key in Redis.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The dead-letter stream that was given, if one was.
    #[must_use]
    pub const fn dlq_name(&self) -> Option<&'static str> {
        self.dlq
    }

    /// What each publish trims, if it does.
    #[must_use]
    pub const fn trim(&self) -> Option<Trim> {
        self.trim
    }
}

impl<T: ?Sized> Clone for Stream<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Stream<T> {}

impl<T: ?Sized> fmt::Debug for Stream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("name", &self.name)
            .field("dlq", &self.dlq)
            .field("trim", &self.trim)
            .finish()
    }
}

/// Where a message can be published: a [`Stream`] constant of the body's type, or a name.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a stream that carries `{T}`",
    label = "expected a stream name or a `Stream<{T}>` constant",
    note = "a `Stream<A>` constant takes bodies of type `A` alone"
)]
pub trait Target<T: ?Sized>: target::Sealed {
    /// The stream's key in Redis.
    fn stream_name(&self) -> &str;

    /// What each publish trims, when the constant says so.
    fn trim(&self) -> Option<Trim> {
        None
    }
}

impl<T: ?Sized> Target<T> for Stream<T> {
    fn stream_name(&self) -> &str {
        self.name
    }

    fn trim(&self) -> Option<Trim> {
        self.trim
    }
}

impl<T: ?Sized> Target<T> for &str {
    fn stream_name(&self) -> &str {
        self
    }
}

impl<T: ?Sized> Target<T> for &String {
    fn stream_name(&self) -> &str {
        self
    }
}

/// A stream whose dead letters can be asked for: a [`Stream`] constant of any type, or a name.
pub trait Source: target::Sealed {
    /// What an edited body is checked against: the constant, or a name, which takes any.
    type Bodies;

    /// The stream's key in Redis.
    fn stream_name(&self) -> &str;
    /// The dead-letter stream, when the constant names one.
    fn dlq_name(&self) -> Option<&'static str>;

    /// What each publish trims, when the constant says so.
    fn trim(&self) -> Option<Trim> {
        None
    }
}

impl<T: ?Sized> Source for Stream<T> {
    type Bodies = Self;

    fn stream_name(&self) -> &str {
        self.name
    }

    fn dlq_name(&self) -> Option<&'static str> {
        self.dlq
    }

    fn trim(&self) -> Option<Trim> {
        self.trim
    }
}

impl Source for &str {
    type Bodies = &'static str;

    fn stream_name(&self) -> &str {
        self
    }

    fn dlq_name(&self) -> Option<&'static str> {
        None
    }
}

impl Source for &String {
    type Bodies = &'static str;

    fn stream_name(&self) -> &str {
        self
    }

    fn dlq_name(&self) -> Option<&'static str> {
        None
    }
}

mod target {
    pub trait Sealed {}
    impl<T: ?Sized> Sealed for super::Stream<T> {}
    impl Sealed for &str {}
    impl Sealed for &String {}
}
