//! What can go wrong outside a handler: one error type, and the kind a program may act on.
//!
//! Errors of handlers are in [`outcome`](crate::HandlerError); what the server answers is sorted in
//! `store`.

use std::fmt;

use crate::store::{Fault, FaultClass};

/// An error of the broker: what is wrong, what was expected, what to do.
///
/// The text never holds a password. Match on [`Error::kind`] to act on it.
///
/// ```
/// use rillkit::{Broker, ErrorKind};
///
/// async fn publish(broker: &Broker) -> Result<(), rillkit::Error> {
///     match broker.publish("jobs", "a body").await {
///         // Surely not published: nobody gets it twice when it is sent again.
///         Err(error) if matches!(error.kind(), ErrorKind::NotSent | ErrorKind::Refused) => {
///             broker.publish("jobs", "a body").await?;
///         }
///         // May have been published.
///         Err(error) => return Err(error),
///         Ok(_id) => {}
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kinds of [`Error`].
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A URL or an environment variable that cannot be understood, or that this build lacks a
    /// feature for.
    Url,
    /// The registered handlers cannot be started as they are.
    Handlers,
    /// The server answered something that no waiting cures: a wrong password, a missing
    /// permission, a key of another type.
    Config,
    /// A body that cannot be written as JSON, or a name or header that cannot be used.
    Input,
    /// A message with more bytes than [`Broker::largest_message`](crate::Broker::largest_message)
    /// allows, or one with more than 3900 fields that has an [`id`](crate::Publish::id) or a
    /// [`delay`](crate::Publish::delay). Nothing was sent.
    TooLarge,
    /// The command was surely not carried out: nothing was published, moved or acked.
    NotSent,
    /// The connection failed after the command had left: it may or may not have been carried out.
    Unknown,
    /// The server refused for now (out of memory, loading, read-only, ...), and nothing was done.
    Refused,
    /// The message is no longer this consumer's: its lease was lost, or it was settled before.
    LeaseLost,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// What a fault of the store means to whoever asked: what was to be done, and why it was not.
    pub(crate) fn from_fault(fault: &Fault, what: &str) -> Self {
        let (kind, outcome) = match fault.class {
            FaultClass::Wait | FaultClass::EnsureGroup => (ErrorKind::Refused, "nothing was done"),
            FaultClass::Unreachable => (ErrorKind::NotSent, "nothing was sent"),
            FaultClass::Reconnect => (ErrorKind::Unknown, "it may have been carried out"),
            FaultClass::Config => (ErrorKind::Config, "nothing was done"),
        };
        Self::new(kind, format!("{what}: {fault}; {outcome}"))
    }

    /// What a program may act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// As `Display`: `fn main() -> Result<(), rillkit::Error>` prints its error this way, and a person
/// reads it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
