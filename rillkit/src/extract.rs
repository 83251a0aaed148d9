//! What a handler's further parameters can be: each is taken from the delivery.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::message::Message;
use crate::tx::Tx;

/// A type that a handler's second and further parameters can have: [`Message`], [`State<T>`] or
/// [`Tx`].
#[diagnostic::on_unimplemented(
    message = "a handler's parameter cannot be taken from the delivery as `{Self}`",
    label = "only the first parameter is the body; this one must be `Message`, `State<T>` or `Tx`",
    note = "to read several values from the body, put them into one `Deserialize` type"
)]
pub trait FromDelivery: Sized + sealed::Sealed {
    /// Takes the value.
    #[doc(hidden)]
    fn from_delivery(message: &Message) -> Self;

    /// What the application has to provide for it, looked at when the broker starts.
    #[doc(hidden)]
    fn requirement() -> Option<Requirement> {
        None
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Message {}
    impl<T> Sealed for super::State<T> {}
    impl Sealed for super::Tx {}
}

impl FromDelivery for Message {
    fn from_delivery(message: &Message) -> Self {
        message.clone()
    }
}

/// Application state that handlers share, given to the broker with
/// [`Broker::with_state`](crate::Broker::with_state).
///
/// The start fails when a handler asks for a type that was not provided.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use rillkit::{Broker, State, subscribe};
///
/// #[derive(Default)]
/// struct Counter(AtomicU64);
///
/// #[subscribe(stream = "jobs", group = "workers")]
/// async fn count(_job: serde_json::Value, counter: State<Counter>) {
///     counter.0.fetch_add(1, Ordering::Relaxed);
/// }
///
/// let broker = Broker::memory().with_state(Counter::default());
/// ```
pub struct State<T>(Arc<T>);

impl<T> State<T> {
    /// Wraps a value, to call a handler in a unit test.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// The shared value itself.
    #[must_use]
    pub fn into_inner(self) -> Arc<T> {
        self.0
    }
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&self.0).finish()
    }
}

impl<T: Send + Sync + 'static> FromDelivery for State<T> {
    fn from_delivery(message: &Message) -> Self {
        match message.lane().states.get::<T>() {
            Some(value) => Self(value),
            // The start checks every requirement, so only a detached message comes here.
            None => panic!(
                "no `State<{}>` was provided: `broker.with_state(value)`",
                type_name::<T>()
            ),
        }
    }

    fn requirement() -> Option<Requirement> {
        Some(Requirement::State {
            id: TypeId::of::<T>(),
            name: type_name::<T>(),
        })
    }
}

/// What a handler needs.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// A state of this type.
    State { id: TypeId, name: &'static str },
    /// An ack that waits for the end of the run, with the commands that were queued.
    Tx,
}

/// The states that were provided, by type.
#[derive(Clone, Default)]
pub(crate) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// The name of the type that is required and was not provided.
    pub(crate) fn lacks(&self, requirement: Requirement) -> Option<&'static str> {
        match requirement {
            Requirement::State { id, name } => (!self.0.contains_key(&id)).then_some(name),
            Requirement::Tx => None,
        }
    }

    fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Arc::clone(self.0.get(&TypeId::of::<T>())?).downcast().ok()
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "States({})", self.0.len())
    }
}
