//! Messages that are to be added later.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{Delayed, Publish, Tries, fits, passes, refused};
use crate::delayed::DelayedId;
use crate::error::Error;
use crate::fields::Fields;
use crate::store::{Due, Later, Store};
use crate::trim::Trim;

impl<'a> Publish<'a> {
    /// Publishes the message when this time has passed, by the server's clock. Awaiting it keeps the
    /// message and gives back the name by which it can be found
    /// ([`Broker::delayed`](crate::Broker::delayed)) and cancelled
    /// ([`Broker::cancel_delayed`](crate::Broker::cancel_delayed)).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// # let broker = rillkit::Broker::memory();
    /// let hour = Duration::from_secs(3600);
    /// let reminder = broker.publish("reminders", "ada").delay(hour).await?;
    /// assert!(broker.cancel_delayed("reminders", &reminder).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// Until then it is no entry, and no group sees it. Whoever runs adds it when it is due: a broker
    /// that was started with a handler for the stream, in any process, or this broker, in the
    /// background, while a clone of it lives. Where none of these runs it is added when one does.
    /// The move is one step on the server: of many that try, one adds it, and one that dies on the
    /// way leaves it where it was. A worker looks for what others have delayed every two seconds, so
    /// that a shorter delay may be late when its publisher is gone by then.
    ///
    /// With an [`id`](Self::id), that id is its name, and it is safe to delay it again: while one of
    /// that id waits, and for the time that the id is remembered after it was added, nothing is
    /// replaced and nothing added. Without one, a lost answer is [`Unknown`](crate::ErrorKind::Unknown).
    ///
    /// Messages that are due at one millisecond are added in the order of their names.
    ///
    /// What waits is in the keys `rk:{<stream>}:delayed` and `rk:{<stream>}:delayed:bodies`, and
    /// nowhere else: deleting them loses it, and so does a server that evicts keys when its memory is
    /// full (`maxmemory-policy` other than `noeviction`).
    pub fn delay(self, delay: Duration) -> Publish<'a, Delayed> {
        self.due(Due::In(delay))
    }

    /// Publishes the message at this time by the server's clock, at once when it is past; see
    /// [`delay`](Self::delay).
    pub fn at(self, time: SystemTime) -> Publish<'a, Delayed> {
        self.due(Due::At(time))
    }

    fn due(self, due: Due) -> Publish<'a, Delayed> {
        Publish {
            when: Delayed(due),
            store: self.store,
            promoters: self.promoters,
            largest: self.largest,
            entry: self.entry,
            trim: self.trim,
            once: self.once,
        }
    }
}

impl<'a> IntoFuture for Publish<'a, Delayed> {
    type Output = Result<DelayedId, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (stream, fields) = self.entry?;
            fits(&stream, &fields, self.largest)?;
            passes(&stream, &fields)?;
            self.trim.map_or(Ok(()), Trim::check)?;
            let id = match &self.once {
                Some(once) => DelayedId::given(&once.id),
                None => DelayedId::made_up(),
            };
            let later = Later {
                id: id.as_str().to_owned(),
                due: self.when.0,
                remembered: self.once.map(|once| once.lifetime),
                trim: self.trim,
            };
            if let Some(left) = keep(&self.store, &stream, &fields, &later).await? {
                Arc::clone(self.promoters).note(&self.store, &stream, left);
            }
            Ok(id)
        })
    }
}

/// Has the server keep the message; in how long it is due, or nothing when it was added before.
async fn keep(
    store: &Store,
    stream: &str,
    fields: &Fields,
    later: &Later,
) -> Result<Option<Duration>, Error> {
    let mut tries = Tries::new();
    loop {
        match store.publish_later(stream, fields, later).await {
            Ok(left) => return Ok(left),
            // Without a lasting id it may have been added by the next try, and would come twice.
            Err(fault) if later.remembered.is_none() => return Err(refused(stream, &fault)),
            Err(fault) => {
                let again = tries.after(fault).await;
                again.map_err(|fault| refused(stream, &fault))?;
            }
        }
    }
}
