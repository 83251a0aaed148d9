//! A panic, as a value: where one ends a task it must not end silently.

use std::any::Any;
use std::future::poll_fn;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Runs a future to its end, or to its panic. Nothing that it may have left half done is looked at
/// again before it was put in order: that is for the caller to see to.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    let mut future = pin!(future);
    poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(text(panic))),
        },
    )
    .await
}

/// Runs this and lets no panic out: for a log line about a panic, which may be what panics.
pub(crate) fn contained(run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        text(panic);
    }
}

/// What a panic said. Anything else than a text is left alone: it may panic again when it is dropped.
pub(crate) fn text(panic: Box<dyn Any + Send>) -> String {
    let other = match panic.downcast::<String>() {
        Ok(text) => return *text,
        Err(other) => other,
    };
    match other.downcast::<&str>() {
        Ok(text) => (*text).to_owned(),
        Err(other) => {
            let _ = ManuallyDrop::new(other);
            "a panic without a message".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_future_ends_or_panics() {
        contained(|| panic!("nobody hears this"));
        assert_eq!(caught(async { 1 }).await, Ok(1));
        let panics = async {
            tokio::task::yield_now().await;
            panic!("oh {}", 2)
        };
        assert_eq!(caught::<_>(panics).await, Err::<(), _>("oh 2".to_owned()));
    }
}
