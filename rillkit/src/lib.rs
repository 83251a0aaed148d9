//! Message handlers for Redis Streams: put [`#[subscribe]`](macro@subscribe) on an async function,
//! and RillKit reads, decodes, acks, retries, and moves what cannot be handled to a dead-letter
//! queue.
//!
//! ```no_run
//! use rillkit::{Message, subscribe};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct Job {
//!     name: String,
//! }
//!
//! #[subscribe(stream = "jobs", group = "workers", max_retries = 2)]
//! async fn run_job(job: Job, msg: Message) -> Result<(), std::io::Error> {
//!     println!("{} runs, delivery {}", job.name, msg.deliveries());
//!     std::fs::write("job.txt", job.name)
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), rillkit::Error> {
//!     rillkit::run().await
//! }
//! ```
//!
//! # Where to find what
//!
//! | to | look at |
//! | --- | --- |
//! | declare a handler, with all its settings | [`#[subscribe]`](macro@subscribe) |
//! | see the id, the fields, or the number of a delivery; ack, nack or reject | [`Message`] |
//! | have of the messages with one key one run done | `idempotent` of [`#[subscribe]`](macro@subscribe), [`Message::idempotency_key`] |
//! | share a value between handlers | [`State`] |
//! | change something in Redis exactly once for each message | [`Tx`] |
//! | say that no retry can help, or when the next one should be | [`HandlerError`], [`ResultExt`] |
//! | bind a stream's name to the type of its bodies | [`Stream`] |
//! | run all handlers of the program until it is told to stop | [`run`] |
//! | run some of them, here and now, and stop them | [`Broker`], [`Running`], [`handlers!`] |
//! | reach a server with certificates, sentinels, or credentials that change | [`Server`], [`Credentials`] |
//! | publish | [`Broker::publish`], [`Broker::publish_all`], [`Broker::publish_fields`] |
//! | publish again what may have arrived | [`Publish::id`] |
//! | publish later, see what waits, cancel it | [`Publish::delay`], [`Publish::at`], [`Broker::delayed`], [`Broker::cancel_delayed`] |
//! | keep a stream from growing for ever | [`Broker::trim`], [`Broker::trim_every`], [`Trim`] |
//! | tell an orchestrator how a worker is | [`Broker::health`], [`Health`] |
//! | move dead letters back | [`Broker::replay_dlq`] |
//! | see streams, groups and pending messages from outside | [`Broker::inspect`], [`inspect`] |
//! | count, look at, choose, work off or delete dead letters | [`Broker::dlq`], [`dlq`] |
//! | act on an error | [`Error::kind`], [`ErrorKind`] |
//! | test a handler | [`Message::detached`], [`State::new`], [`Tx::detached`], [`Broker::memory`], [`Running::drained`] |
//!
//! [`Body`], [`FromDelivery`], [`IntoOutcome`], [`Target`] and [`Source`] say what a handler may
//! take and return, and what a stream can be named by. They are not meant to be implemented.
//!
//! # What happens to a message
//!
//! 1. It is read for the group, and is from then on pending: Redis remembers who has it.
//! 2. The body is decoded. Where that fails it goes to the dead-letter queue at once.
//! 3. The handler runs. While it does, its lease is renewed, however long it takes.
//! 4. It ended well: the message is acked. It failed: the message stays pending, and is due again
//!    after its delay. It failed `max_retries + 1` times, or was rejected: to the dead-letter queue.
//!
//! When a process dies in between, the message is still pending, and another worker takes it over
//! once its lease has passed. So a message is handled at least once, and a handler should be able
//! to do its work again; what it does through a [`Tx`] is done once.
//!
//! # Tests without a server
//!
//! [`Broker::memory`] does in process what Redis does, on tokio's clock. With that clock paused,
//! retries take no time:
//!
//! ```
//! use rillkit::{Broker, Message, handlers, subscribe};
//!
//! #[subscribe(stream = "jobs", group = "workers", claim_idle_ms = 60_000)]
//! async fn run_job(_name: String, msg: Message) -> Result<(), &'static str> {
//!     if msg.deliveries() < 3 { Err("not yet") } else { Ok(()) }
//! }
//!
//! // #[tokio::test(start_paused = true)]
//! async fn the_third_delivery_is_good() {
//!     let broker = Broker::memory().with_handlers(handlers![run_job]);
//!     let running = broker.start().await.unwrap();
//!     broker.publish("jobs", "a").await.unwrap();
//!     running.drained().await.unwrap();
//!     running.stop().await;
//!     assert_eq!(broker.replay_dlq("jobs").await.unwrap(), 0);
//! }
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() { the_third_delivery_is_good().await }
//! ```
//!
//! # Features
//!
//! `tls`: `rediss://` and `rediss+sentinel://` URLs, through rustls. It brings a crypto provider (ring),
//! which is installed when the first connection is made, unless the process has one by then.
//!
//! `cli`: the program `rillkit`, for `cargo install`. The library is the same without it.

mod attempt;
mod backoff;
mod body;
mod broker;
mod credentials;
mod decide;
mod delayed;
mod demand;
pub mod dlq;
mod entry_id;
mod environment;
mod error;
mod error_text;
mod extract;
mod failed_delivery;
mod fields;
mod health;
mod history;
mod in_hand;
pub mod inspect;
mod intake;
#[cfg(feature = "internal-benches")]
#[doc(hidden)]
pub mod internals;
mod lane;
mod lease;
mod log;
mod message;
mod once;
mod outcome;
mod pace;
mod panic;
mod policy;
mod post;
mod promote;
mod publish;
mod pulse;
mod retries;
mod roster;
mod running;
mod safe_trim;
mod server;
mod settle;
mod signal;
mod store;
mod stream;
mod subscription;
mod supervisor;
mod takeover;
mod trim;
mod trimmer;
mod trouble;
mod tx;
mod waiting;
mod wire;
mod worker;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use rillkit_macros::subscribe;

pub use crate::body::Body;
pub use crate::broker::Broker;
pub use crate::credentials::Credentials;
pub use crate::delayed::{DelayedId, DelayedMessage, DelayedPage, ListDelayed};
pub use crate::dlq::ReplayDlq;
pub use crate::entry_id::EntryId;
pub use crate::error::{Error, ErrorKind};
pub use crate::extract::{FromDelivery, State};
pub use crate::failed_delivery::FailedDelivery;
pub use crate::fields::Fields;
pub use crate::health::{ConnectionState, HandlerHealth, Health, HealthVerdict};
pub use crate::message::Message;
pub use crate::outcome::{BoxError, HandlerError, IntoOutcome, ResultExt};
pub use crate::publish::{Delayed, Immediate, Publish, PublishAllError};
pub use crate::running::Running;
pub use crate::safe_trim::{Hold, HoldReason, SafeTrim, Trimmed};
pub use crate::server::Server;
pub use crate::stream::{Source, Stream, Target};
pub use crate::subscription::Subscription;
pub use crate::trim::Trim;
pub use crate::tx::{Tx, TxCommand};

/// Runs every handler that the program has registered, on the server that the environment names,
/// until SIGINT or SIGTERM; then stops gracefully. It is `Broker::from_env()?.run().await`.
///
/// ```no_run
/// #[rillkit::subscribe(stream = "greetings", group = "greeters")]
/// async fn greet(name: String) {
///     println!("hello {name}");
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), rillkit::Error> {
///     rillkit::run().await
/// }
/// ```
///
/// Handlers in a library crate are found if the program refers to that crate: write
/// `use that_crate as _;`.
///
/// # Errors
///
/// What no waiting can cure; see [`Broker::start`].
pub async fn run() -> Result<(), Error> {
    Broker::from_env()?.run().await
}

/// Lists handlers by the names of their functions, for
/// [`Broker::with_handlers`]: for tests, which run the handlers they are about, and for programs
/// that cannot rely on collection.
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

/// The README's code is compiled, and run where it can be.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
