//! One run of a handler: decode, call, poll; a panic or a timeout is a verdict like any other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::decide::Verdict;
use crate::message::Message;
use crate::outcome::Outcome;
use crate::panic;
use crate::subscription::{Call, HandlerFuture};

/// A handler that was called and has not ended.
pub(crate) struct Attempt {
    /// Gone once it has ended, so that a panic in its drop is caught as well.
    future: Option<HandlerFuture>,
}

impl Attempt {
    /// Decodes the entry and calls the handler; what ended already is a verdict.
    pub(crate) fn begin(call: Call, message: &Message) -> Result<Self, Verdict> {
        match catch_unwind(AssertUnwindSafe(|| call(message))) {
            Ok(Ok(future)) => Ok(Self {
                future: Some(future),
            }),
            Ok(Err(undecodable)) => Err(Verdict::Malformed(crate::error_text::capped(
                &undecodable.0,
            ))),
            Err(panic) => Err(Verdict::Panicked(panic::text(panic))),
        }
    }

    /// Goes on until the handler ends or `timeout` has passed. With the verdict comes the longest
    /// time that one poll took: a handler that computes, or blocks, does so there.
    pub(crate) async fn finish(self, timeout: Option<Duration>) -> (Verdict, Duration) {
        let mut timed = Timed {
            attempt: self,
            longest: Duration::ZERO,
        };
        let verdict = match timeout {
            None => (&mut timed).await,
            Some(limit) => tokio::time::timeout(limit, &mut timed)
                .await
                .unwrap_or(Verdict::TimedOut(limit)),
        };
        let panicked = timed.attempt.discard();
        (panicked.unwrap_or(verdict), timed.longest)
    }

    /// Drops what is left of the run.
    fn discard(&mut self) -> Option<Verdict> {
        let future = self.future.take()?;
        catch_unwind(AssertUnwindSafe(|| drop(future)))
            .err()
            .map(|panic| Verdict::Panicked(panic::text(panic)))
    }
}

impl Future for Attempt {
    type Output = Verdict;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Verdict> {
        let Some(future) = self.future.as_mut() else {
            return Poll::Pending;
        };
        let outcome = match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(outcome)) => outcome.into(),
            Err(panic) => Verdict::Panicked(panic::text(panic)),
        };
        Poll::Ready(self.discard().unwrap_or(outcome))
    }
}

impl From<Outcome> for Verdict {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::Done,
            Outcome::Failed(error) => Self::Failed(error),
            Outcome::RetryAfter(delay, error) => Self::RetryAfter(delay, error),
            Outcome::Rejected(error) => Self::Rejected(error),
        }
    }
}

struct Timed {
    attempt: Attempt,
    longest: Duration,
}

impl Future for Timed {
    type Output = Verdict;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Verdict> {
        let before = Instant::now();
        let poll = Pin::new(&mut self.attempt).poll(cx);
        self.longest = self.longest.max(before.elapsed());
        poll
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct PanicsInDrop;

    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }

    fn attempt(future: impl Future<Output = Outcome> + Send + 'static) -> Attempt {
        Attempt {
            future: Some(Box::pin(future)),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_end_of_a_run_is_a_verdict() {
        assert_eq!(
            attempt(async { Outcome::Done }).finish(None).await.0,
            Verdict::Done
        );
        let panics = attempt(async { panic!("oh {}", 1) });
        assert_eq!(
            panics.finish(None).await.0,
            Verdict::Panicked("oh 1".to_owned())
        );
        let limit = Duration::from_secs(1);
        let hangs = attempt(std::future::pending());
        assert_eq!(hangs.finish(Some(limit)).await.0, Verdict::TimedOut(limit));
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_a_drop_is_caught() {
        let guard = PanicsInDrop;
        let hangs = attempt(async move {
            let _guard = guard;
            std::future::pending().await
        });
        let (verdict, _) = hangs.finish(Some(Duration::from_secs(1))).await;
        assert_eq!(verdict, Verdict::Panicked("in drop".to_owned()));
    }

    #[tokio::test]
    async fn a_panic_whose_payload_panics_is_caught() {
        let panics = attempt(async { std::panic::panic_any(PanicsInDrop) });
        let (verdict, _) = panics.finish(None).await;
        assert_eq!(
            verdict,
            Verdict::Panicked("a panic without a message".to_owned())
        );
    }

    #[test]
    fn a_panic_in_the_decoder_is_caught() {
        let msg = Message::detached("s", "g", 1, [("data", "1")]);
        let begun = Attempt::begin(|_| panic!("bad decoder"), &msg);
        assert_eq!(
            begun.err(),
            Some(Verdict::Panicked("bad decoder".to_owned()))
        );
    }
}
