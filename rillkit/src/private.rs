//! What expansions of `#[subscribe]` call, and nothing else. Not public API: it changes with any
//! release, together with `rillkit-macros`.

use std::future::Future;

pub use core::option::Option;
pub use core::result::Result;
pub use core::{file, line, module_path};
pub use inventory;

pub use crate::body::{Body, Decoded, Undecodable, Undecoded};
pub use crate::extract::{FromDelivery, Requirement};
pub use crate::message::Message;
pub use crate::outcome::{IntoOutcome, Outcome};
pub use crate::policy::AckPolicy;
pub use crate::stream::Stream;
pub use crate::subscription::{Call, HandlerFuture, Subscription};

/// A function that `#[subscribe]` was put on; its marker type has the function's name.
pub trait Handler {
    /// Its registration.
    const SUBSCRIPTION: &'static Subscription;
}

/// Where a handler's messages come from, and how its first parameter is made of one.
#[derive(Debug, Clone, Copy)]
pub struct Feed<T> {
    /// The stream's key.
    pub name: &'static str,
    /// The DLQ that the stream's constant names.
    pub dlq: Option<&'static str>,
    /// Decodes.
    pub body: fn(&Message) -> Result<T, Undecodable>,
}

/// The feed of a stream that is given by its name.
#[must_use]
pub const fn named<T: Body>(name: &'static str) -> Feed<T> {
    Feed {
        name,
        dlq: None,
        body: T::from_message,
    }
}

/// The feed of a stream that is given by its constant.
#[must_use]
pub const fn typed<T, K, S>(stream: Stream<S>) -> Feed<T>
where
    T: Body<Kind = K>,
    K: Reads<T, S>,
    S: ?Sized,
{
    Feed {
        name: stream.name(),
        dlq: stream.dlq_name(),
        body: T::from_message,
    }
}

/// Holds where a body `T` of this kind can be read from a stream that carries `S`.
pub trait Reads<T, S: ?Sized> {}

impl<T> Reads<T, T> for Decoded {}

impl<T, S: ?Sized> Reads<T, S> for Undecoded {}

/// How a further parameter is taken, and what it needs.
#[derive(Debug, Clone, Copy)]
pub struct Param<T> {
    /// Takes it.
    pub extract: fn(&Message) -> T,
    /// What the application has to provide.
    pub requirement: fn() -> Option<Requirement>,
}

/// A further parameter of this type.
#[must_use]
pub const fn param<T: FromDelivery>() -> Param<T> {
    Param {
        extract: T::from_delivery,
        requirement: T::requirement,
    }
}

/// What a key function may return.
#[diagnostic::on_unimplemented(
    message = "an idempotency key cannot be made of `{Self}`",
    label = "this function returns `{Self}`, which is no text",
    note = "it takes a reference to the handler's first parameter, and returns anything that has `to_string()`: a `String`, a `&str`, a number"
)]
pub trait IdempotencyKey {
    /// As text.
    fn into_text(self) -> String;
}

#[diagnostic::do_not_recommend]
impl<T: ToString> IdempotencyKey for T {
    fn into_text(self) -> String {
        self.to_string()
    }
}

/// Gives the message its key.
///
/// # Errors
///
/// An empty key: all messages that have it would be one.
pub fn key<K: IdempotencyKey>(message: &Message, key: K) -> Result<(), Undecodable> {
    let key = key.into_text();
    if key.is_empty() {
        return Err(Undecodable(
            "the body's idempotency key is empty".to_owned(),
        ));
    }
    message.set_key(key);
    Ok(())
}

/// The run of a handler whose parameters are all there.
pub fn run<F>(future: F, outcome: fn(F::Output) -> Outcome) -> HandlerFuture
where
    F: Future + Send + 'static,
{
    Box::pin(async move { outcome(future.await) })
}

/// How a run ended, from what the handler returned.
pub fn outcome<T: IntoOutcome>(output: T) -> Outcome {
    output.into_outcome()
}
