//! What a broker publishes, at once and later.

use serde::Serialize;

use super::Broker;
use crate::delayed::ListDelayed;
use crate::entry_id::EntryId;
use crate::error::Error;
use crate::publish::{self, Publish, PublishAllError};
use crate::stream::{Source, Target};

impl Broker {
    #[cfg(test)]
    pub(crate) fn promoters(&self) -> std::sync::Arc<crate::promote::Promoters> {
        std::sync::Arc::clone(&self.promoters)
    }

    /// Publishes a message, as JSON in the field `data`; gives back its entry id.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// # let broker = rillkit::Broker::memory();
    /// let id = broker.publish("jobs", &["a", "b"]).header("trace", "17").await?;
    /// # let _ = id; Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The [`kind`](Error::kind) says whether the message was surely not published
    /// ([`NotSent`](crate::ErrorKind::NotSent), [`Refused`](crate::ErrorKind::Refused)), or may
    /// have been ([`Unknown`](crate::ErrorKind::Unknown)): the connection broke before the answer
    /// came. It is never published again behind the caller's back, unless an [`id`](Publish::id)
    /// makes that safe.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a constant or a name is what callers have"
    )]
    pub fn publish<T: Serialize + ?Sized>(&self, stream: impl Target<T>, body: &T) -> Publish<'_> {
        let largest = self.settings.largest;
        Publish::new(&self.store, &self.promoters, largest, &stream, body)
    }

    /// Publishes an entry with exactly these fields, in order, and no body of its own: what a
    /// program writes that is no RillKit, or what a test of an undecodable entry needs. A body
    /// goes into the field `data`, as JSON.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// # let broker = rillkit::Broker::memory();
    /// broker.publish_fields("jobs", [("data", r#"{"name":"a"}"#), ("origin", "import")]).await?;
    /// # let nothing: [(&str, &str); 0] = [];
    /// # let error = broker.publish_fields("jobs", nothing).await.unwrap_err();
    /// # assert_eq!(error.kind(), rillkit::ErrorKind::Input);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`publish`](Self::publish); no fields at all are refused.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a constant or a name is what callers have"
    )]
    pub fn publish_fields<N: Into<Vec<u8>>, V: Into<Vec<u8>>>(
        &self,
        stream: impl Source,
        fields: impl IntoIterator<Item = (N, V)>,
    ) -> Publish<'_> {
        let fields = fields
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Publish::with_fields(
            &self.store,
            &self.promoters,
            self.settings.largest,
            stream.stream_name(),
            fields,
        )
        .trimming(stream.trim())
    }

    /// Publishes many messages, in order, ten thousand in one round trip; gives back their entry
    /// ids.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::PublishAllError> {
    /// # let broker = rillkit::Broker::memory();
    /// let ids = broker.publish_all("jobs", ["one", "two"]).await?;
    /// assert_eq!(ids.len(), 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`publish`](Self::publish); the error holds the ids of those that were published
    /// all the same.
    pub async fn publish_all<'b, T: Serialize + ?Sized + 'b>(
        &self,
        stream: impl Target<T>,
        bodies: impl IntoIterator<Item = &'b T>,
    ) -> Result<Vec<EntryId>, PublishAllError> {
        let bodies = bodies.into_iter().map(publish::fields).collect();
        publish::all(
            &self.store,
            self.settings.largest,
            stream.stream_name(),
            stream.trim(),
            bodies,
        )
        .await
    }

    /// Looks at the messages that wait for a stream until they are due, the soonest first: up to
    /// 100, or as [`count`](ListDelayed::count) says, from the first on, or behind one
    /// ([`after`](ListDelayed::after)).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// # let broker = rillkit::Broker::memory();
    /// broker.publish("reminders", "ada").delay(Duration::from_secs(60)).await?;
    /// let mut page = broker.delayed("reminders").count(10).await?;
    /// println!("{} wait", page.total);
    /// while let Some(last) = page.messages.last() {
    ///     for message in &page.messages {
    ///         println!("{} with {:?}", message.id, message.fields.text("data"));
    ///     }
    ///     page = broker.delayed("reminders").count(10).after(last).await?;
    /// }
    /// # Ok(()) }
    /// ```
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a constant or a name is what callers have"
    )]
    pub fn delayed(&self, stream: impl Source) -> ListDelayed {
        ListDelayed::new(&self.store, stream.stream_name())
    }

    /// Takes a message back that was [delayed](Publish::delay). With `true` it waited, and nobody
    /// gets it; with `false` there is none of that name, or it is on its stream already.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// # let broker = rillkit::Broker::memory();
    /// let hour = Duration::from_secs(3600);
    /// broker.publish("orders", "cancel it unpaid").id("order-42").delay(hour).await?;
    /// assert!(broker.cancel_delayed("orders", "order-42").await?);
    /// assert!(!broker.cancel_delayed("orders", "order-42").await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// When the server cannot be asked. After [`Unknown`](crate::ErrorKind::Unknown) it may be
    /// cancelled; cancelling it again makes sure of it.
    pub async fn cancel_delayed(
        &self,
        stream: impl Source,
        id: impl AsRef<str>,
    ) -> Result<bool, Error> {
        let (stream, id) = (stream.stream_name(), id.as_ref());
        let cancelled = self.store.cancel_delayed(stream, id).await;
        cancelled.map_err(|fault| {
            let what = format!("cancelling the delayed message `{}`", id.escape_debug());
            Error::from_fault(&fault, &format!("{what} of `{stream}` failed"))
        })
    }
}
