//! What a handler wants done in Redis together with the ack of its message.
//!
//! A [`Tx`] only queues. When that is carried out, the worker decides; how, `store::commits` says.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::error::Error;
use crate::extract::{FromDelivery, Requirement};
use crate::log;
use crate::message::Message;
use crate::publish;
use crate::store::effect::{Command, Effect, Part};
use crate::store::redis::effects;
use crate::stream::Target;

/// Commands that are carried out together with the ack of the message, in one step on the server:
/// exactly once, however often the message is delivered.
///
/// A handler asks for it with a parameter of this type. What it queues is applied, in order, when the
/// run ends well and the message is acked, if the message is then still this consumer's at this
/// delivery. A run that fails, is nacked, rejected or cancelled, or whose worker dies, applies
/// nothing. The slot of the run is free again when the server has answered, so that with
/// `concurrency = 1` a handler finds in Redis what the message before has left there.
///
/// ```
/// use rillkit::{Tx, subscribe};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Payment {
///     account: String,
///     cents: i64,
/// }
///
/// #[subscribe(stream = "payments", group = "ledger")]
/// async fn book(payment: Payment, tx: Tx) -> Result<(), rillkit::Error> {
///     tx.hincr_by("balances", &payment.account, payment.cents);
///     tx.command("LPUSH").key("journal").arg(&payment.account).queue();
///     tx.publish("receipts", &payment.account)?;
///     Ok(())
/// }
/// ```
///
/// The server does not undo. What can be seen beforehand is looked at before the first command: the
/// types of the keys, and whether there is memory. A command that fails all the same stops those
/// behind it, and the message goes to the dead-letter queue with the reason `tx` and an error that
/// says which command it was; it is never run again by itself.
///
/// In a cluster all keys must be in the slot of the stream: `{jobs}:total` for the stream `jobs`. The
/// in-process store knows the commands that have a method here, and no others.
///
/// It does not go with `ack_policy = ack_first`, nor with [`Message::ack_now`]: both ack before the
/// run has ended.
#[derive(Clone)]
pub struct Tx {
    message: Message,
}

/// What was queued, until the run ends.
#[derive(Default)]
pub(crate) struct Queue(Mutex<Queued>);

#[derive(Default)]
struct Queued {
    effects: Vec<Effect>,
    closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Queued> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was queued; nothing is taken in any more.
    pub(crate) fn close(&self) -> Vec<Effect> {
        let mut queued = self.lock();
        queued.closed = true;
        std::mem::take(&mut queued.effects)
    }
}

impl Tx {
    /// One that came from no message, to call a handler in a unit test: [`queued`](Self::queued)
    /// tells what it did.
    ///
    /// ```
    /// use rillkit::Tx;
    ///
    /// async fn count(name: String, tx: Tx) {
    ///     tx.incr_by(&format!("count:{name}"), 1);
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let tx = Tx::detached();
    /// count("a".to_owned(), tx.clone()).await;
    /// assert_eq!(tx.queued(), ["INCRBY count:a 1"]);
    /// # });
    /// ```
    #[must_use]
    pub fn detached() -> Self {
        let message = Message::detached("detached", "detached", 1, [("data", "null")]);
        Self::from_delivery(&message)
    }

    /// What was queued so far, each command on a line as one would type it.
    #[must_use]
    pub fn queued(&self) -> Vec<String> {
        let queued = self.message.queue().lock();
        queued.effects.iter().map(effects::line).collect()
    }

    /// Adds `by` to the number at `key` (`INCRBY`).
    pub fn incr_by(&self, key: &str, by: i64) {
        let key = key.to_owned();
        self.push(Effect::IncrBy { key, by });
    }

    /// Writes `value` to `key` (`SET`).
    pub fn set(&self, key: &str, value: impl AsRef<[u8]>) {
        self.push(Effect::Set {
            key: key.to_owned(),
            value: value.as_ref().to_vec(),
            lasts: None,
        });
    }

    /// Writes `value` to `key`, which is gone after `lasts` (`SET .. PX`, in milliseconds).
    pub fn set_for(&self, key: &str, value: impl AsRef<[u8]>, lasts: Duration) {
        self.push(Effect::Set {
            key: key.to_owned(),
            value: value.as_ref().to_vec(),
            lasts: Some(lasts),
        });
    }

    /// Deletes `key` (`DEL`).
    pub fn del(&self, key: &str) {
        let key = key.to_owned();
        self.push(Effect::Del { key });
    }

    /// Writes a field of the hash at `key` (`HSET`).
    pub fn hset(&self, key: &str, field: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.push(Effect::HSet {
            key: key.to_owned(),
            field: field.as_ref().to_vec(),
            value: value.as_ref().to_vec(),
        });
    }

    /// Adds `by` to the number in a field of the hash at `key` (`HINCRBY`).
    pub fn hincr_by(&self, key: &str, field: impl AsRef<[u8]>, by: i64) {
        self.push(Effect::HIncrBy {
            key: key.to_owned(),
            field: field.as_ref().to_vec(),
            by,
        });
    }

    /// Adds `member` to the set at `key` (`SADD`).
    pub fn sadd(&self, key: &str, member: impl AsRef<[u8]>) {
        self.push(Effect::SAdd {
            key: key.to_owned(),
            member: member.as_ref().to_vec(),
        });
    }

    /// Removes `member` from the set at `key` (`SREM`).
    pub fn srem(&self, key: &str, member: impl AsRef<[u8]>) {
        self.push(Effect::SRem {
            key: key.to_owned(),
            member: member.as_ref().to_vec(),
        });
    }

    /// Gives `member` of the sorted set at `key` this score (`ZADD`).
    pub fn zadd(&self, key: &str, member: impl AsRef<[u8]>, score: f64) {
        self.push(Effect::ZAdd {
            key: key.to_owned(),
            member: member.as_ref().to_vec(),
            score,
        });
    }

    /// Adds `value` to the end of the list at `key` (`RPUSH`).
    pub fn rpush(&self, key: &str, value: impl AsRef<[u8]>) {
        self.push(Effect::RPush {
            key: key.to_owned(),
            value: value.as_ref().to_vec(),
        });
    }

    /// Lets `key` be gone after this time (`PEXPIRE`, in milliseconds).
    pub fn expire(&self, key: &str, after: Duration) {
        self.push(Effect::Expire {
            key: key.to_owned(),
            after,
        });
    }

    /// Publishes `body` to another stream (`XADD`), as [`Broker::publish`](crate::Broker::publish)
    /// does; what a constant says about trimming holds here too.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Input`](crate::ErrorKind::Input): a body that cannot be written as JSON, or a
    /// stream's name that cannot be used.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a constant or a name is what callers have"
    )]
    pub fn publish<T: Serialize + ?Sized>(
        &self,
        stream: impl Target<T>,
        body: &T,
    ) -> Result<(), Error> {
        let (stream, trim) = (stream.stream_name().to_owned(), stream.trim());
        publish::named(&stream)?;
        let fields = publish::fields(body)?;
        self.push(Effect::Publish {
            stream,
            fields,
            trim,
        });
        Ok(())
    }

    /// Any command by its name, on Redis alone. It is queued by [`TxCommand::queue`].
    ///
    /// One that cannot be run in a script of the server's (blocking ones, subscriptions, `SELECT`, ..)
    /// is refused when the run has ended.
    pub fn command(&self, name: &str) -> TxCommand<'_> {
        TxCommand {
            tx: self,
            command: Command {
                name: name.to_owned(),
                parts: Vec::new(),
            },
        }
    }

    fn push(&self, effect: Effect) {
        let mut queued = self.message.queue().lock();
        if queued.closed {
            drop(queued);
            return log::queued_too_late(&self.message.lane().consumer, self.message.id());
        }
        queued.effects.push(effect);
    }
}

impl FromDelivery for Tx {
    fn from_delivery(message: &Message) -> Self {
        // It is there from now on, so that `ack_now` knows.
        message.queue();
        Self {
            message: message.clone(),
        }
    }

    fn requirement() -> Option<Requirement> {
        Some(Requirement::Tx)
    }
}

/// The values are what users must not find in a log.
impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queued = self.message.queue().lock();
        let names: Vec<_> = queued.effects.iter().map(effects::name).collect();
        f.debug_tuple("Tx").field(&names).finish()
    }
}

/// A command on its way into a [`Tx`]: its keys and other arguments in their order.
///
/// ```
/// let tx = rillkit::Tx::detached();
/// tx.command("LPUSH").key("recent").arg("a").queue();
/// tx.command("LTRIM").key("recent").arg("0").arg("99").queue();
/// assert_eq!(tx.queued(), ["LPUSH recent a", "LTRIM recent 0 99"]);
/// ```
#[must_use = "a command is queued by `queue()`"]
pub struct TxCommand<'a> {
    tx: &'a Tx,
    command: Command,
}

impl TxCommand<'_> {
    /// A key: the server has to be told which arguments are keys.
    pub fn key(mut self, key: &str) -> Self {
        self.command.parts.push(Part::Key(key.to_owned()));
        self
    }

    /// Any other argument.
    pub fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.command.parts.push(Part::Arg(arg.as_ref().to_vec()));
        self
    }

    /// Queues it.
    pub fn queue(self) {
        self.tx.push(Effect::Other(self.command));
    }
}

impl fmt::Debug for TxCommand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TxCommand")
            .field(&self.command.name)
            .finish()
    }
}
