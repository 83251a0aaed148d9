//! RillKit: annotate an async function, and it handles the messages of a Redis Stream.
//!
//! The crate's guide is in the README; this page lists what there is.

mod attempt;
mod backoff;
mod body;
mod broker;
mod decide;
mod demand;
mod dlq;
mod environment;
mod error;
mod extract;
mod in_hand;
mod intake;
mod lane;
mod lease;
mod log;
mod message;
mod outcome;
mod pace;
mod policy;
mod post;
mod publish;
mod retries;
mod settle;
mod signal;
mod store;
mod stream;
mod subscription;
mod takeover;
mod wire;
mod worker;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use rillkit_macros::subscribe;

pub use crate::body::Body;
pub use crate::broker::{Broker, Running};
pub use crate::dlq::ReplayDlq;
pub use crate::error::{Error, ErrorKind};
pub use crate::extract::{FromDelivery, State};
pub use crate::message::{EntryId, Fields, Message};
pub use crate::outcome::{BoxError, HandlerError, IntoOutcome, ResultExt};
pub use crate::publish::{Publish, PublishAllError};
pub use crate::stream::{Source, Stream, Target};
pub use crate::subscription::Subscription;

/// Runs every handler that the program has registered, on the server that the environment names,
/// until SIGINT or SIGTERM; then stops gracefully. It is `Broker::from_env()?.run().await`.
///
/// # Errors
///
/// What no waiting can cure; see [`Broker::start`].
pub async fn run() -> Result<(), Error> {
    Broker::from_env()?.run().await
}

/// Lists handlers by the names of their functions, for programs that cannot rely on collection.
///
/// ```
/// use rillkit::{Broker, handlers, subscribe};
///
/// mod mail {
///     #[rillkit::subscribe(stream = "mails", group = "senders")]
///     pub async fn send(_mail: serde_json::Value) {}
/// }
///
/// #[subscribe(stream = "jobs", group = "workers")]
/// async fn run_job(_job: serde_json::Value) {}
///
/// let broker = Broker::memory().with_handlers(handlers![run_job, mail::send]);
/// ```
#[macro_export]
macro_rules! handlers {
    ($($handler:path),* $(,)?) => {
        [$(<$handler as $crate::__private::Handler>::SUBSCRIPTION),*]
    };
}
