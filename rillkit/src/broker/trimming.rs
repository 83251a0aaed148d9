//! What keeps a stream from growing for ever, and whom it may hurt.

use std::time::Duration;

use super::Broker;
use crate::policy::DeleteOnAck;
use crate::post::Post;
use crate::safe_trim::SafeTrim;
use crate::store::Fault;
use crate::stream::Source;
use crate::trimmer::Trimmer;

impl Broker {
    /// Removes from the old end of a stream what all its groups have read and acked, and says what
    /// holds the rest back. Never what a group has not read or has pending: each step on the server
    /// looks at all groups first. What a group was never meant to read, since it began behind it,
    /// counts as read.
    ///
    /// A stream without a group is left as it is, unless
    /// [`even_without_groups`](SafeTrim::even_without_groups) says otherwise.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rillkit::Error> {
    /// # let broker = rillkit::Broker::memory();
    /// let trimmed = broker.trim("jobs").await?;
    /// if let Some(hold) = trimmed.held_back_by() {
    ///     println!("{hold}");
    /// }
    /// // The newest thousand stay in any case, and a group that nobody needs does not count.
    /// broker.trim("jobs").keep(1_000).ignoring(["old-reports"]).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// When the server cannot be asked or refuses; what steps before had removed is gone.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a constant or a name is what callers have"
    )]
    pub fn trim(&self, stream: impl Source) -> SafeTrim {
        SafeTrim::new(&self.store, stream.stream_name())
    }

    /// Trims a stream every so often while the handlers run, from the start on: what
    /// [`trim`](Self::trim) does, with what `how` adds to it. Each process that is started this way
    /// does it, at moments of its own; where there is nothing to remove, that costs the server next
    /// to nothing. What goes wrong is logged and tried again; what was removed is logged at the
    /// level DEBUG.
    ///
    /// ```
    /// use std::time::Duration;
    /// use rillkit::Broker;
    ///
    /// let broker = Broker::memory()
    ///     .trim_every(Duration::from_secs(60), "jobs", |trim| trim.keep(1_000));
    /// # let _ = broker;
    /// ```
    #[must_use]
    pub fn trim_every(
        mut self,
        every: Duration,
        stream: impl Source,
        how: impl FnOnce(SafeTrim) -> SafeTrim,
    ) -> Self {
        let trim = how(self.trim(stream));
        self.settings_mut().trimmers.push(Trimmer::new(trim, every));
        self
    }

    /// Other groups of the stream, if what this handler acks is deleted and they were not accepted.
    pub(super) async fn endangered(&self, post: &Post) -> Result<Vec<String>, Fault> {
        if post.policy().delete_on_ack != DeleteOnAck::Alone {
            return Ok(Vec::new());
        }
        let groups = self.store.groups(post.consumer.stream).await?;
        let others = groups.into_iter().map(|(name, _)| name);
        Ok(others.filter(|name| *name != post.consumer.group).collect())
    }
}
