//! What a handler may return, and how `?` can say more than "failed".

use std::fmt;
use std::time::Duration;

use crate::error_text::ErrorText;

/// Any error, boxed: what `?` makes of an error type, a `String` or a `&str`.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A handler's error together with what should become of the message.
///
/// Any error turns into one by `?` and is then a failed delivery, as in a handler that returns the
/// error itself. [`HandlerError::reject`] and [`HandlerError::retry_after`] say more, and
/// [`ResultExt`] lets `?` say it.
///
/// It is not a [`std::error::Error`] itself, so that every error can turn into it.
///
/// ```
/// use std::time::Duration;
/// use rillkit::{HandlerError, ResultExt, subscribe};
///
/// #[subscribe(stream = "jobs", group = "workers")]
/// async fn run_job(job: serde_json::Value) -> Result<(), HandlerError> {
///     let text = job["count"].as_str().ok_or("no count")?;
///     let count: u32 = text.parse().or_reject()?;
///     if count > 100 {
///         return Err(HandlerError::retry_after(Duration::from_secs(60), "busy"));
///     }
///     Ok(())
/// }
/// ```
pub struct HandlerError {
    class: Class,
    error: BoxError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Failed,
    RetryAfter(Duration),
    Reject,
}

impl HandlerError {
    /// No retry can help: to the DLQ, whatever `max_retries` says.
    pub fn reject(error: impl Into<BoxError>) -> Self {
        Self {
            class: Class::Reject,
            error: error.into(),
        }
    }

    /// Try again after `delay` instead of the delay of the attribute. It counts as a failed
    /// delivery all the same.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self {
            class: Class::RetryAfter(delay),
            error: error.into(),
        }
    }

    /// Whether it says that no retry can help; for tests of a handler.
    ///
    /// ```
    /// use rillkit::HandlerError;
    ///
    /// assert!(HandlerError::reject("bad input").is_reject());
    /// assert!(!HandlerError::from("not yet").is_reject());
    /// ```
    #[must_use]
    pub fn is_reject(&self) -> bool {
        self.class == Class::Reject
    }

    /// The delay that it asks for, where it does; for tests of a handler.
    ///
    /// ```
    /// use std::time::Duration;
    /// use rillkit::HandlerError;
    ///
    /// let busy = HandlerError::retry_after(Duration::from_secs(60), "busy");
    /// assert_eq!(busy.delay(), Some(Duration::from_secs(60)));
    /// ```
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        match self.class {
            Class::RetryAfter(delay) => Some(delay),
            Class::Failed | Class::Reject => None,
        }
    }

    /// The error itself.
    #[must_use]
    pub fn into_inner(self) -> BoxError {
        self.error
    }
}

impl<E: Into<BoxError>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self {
            class: Class::Failed,
            error: error.into(),
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerError")
            .field("class", &self.class)
            .field("error", &self.error)
            .finish()
    }
}

/// Lets `?` classify an error in a handler that returns `Result<(), HandlerError>`.
///
/// ```
/// use std::time::Duration;
/// use rillkit::{HandlerError, ResultExt};
///
/// fn read(path: &str) -> Result<u32, HandlerError> {
///     let text = std::fs::read_to_string(path).or_retry_after(Duration::from_secs(5))?;
///     text.trim().parse().or_reject()
/// }
/// # assert_eq!(read("no/such/file").unwrap_err().delay(), Some(Duration::from_secs(5)));
/// ```
pub trait ResultExt<T> {
    /// An error means that no retry can help.
    ///
    /// # Errors
    ///
    /// The error, classified.
    fn or_reject(self) -> Result<T, HandlerError>;

    /// An error means that the message should be tried again after `delay`.
    ///
    /// # Errors
    ///
    /// The error, classified.
    fn or_retry_after(self, delay: Duration) -> Result<T, HandlerError>;
}

impl<T, E: Into<BoxError>> ResultExt<T> for Result<T, E> {
    fn or_reject(self) -> Result<T, HandlerError> {
        self.map_err(HandlerError::reject)
    }

    fn or_retry_after(self, delay: Duration) -> Result<T, HandlerError> {
        self.map_err(|error| HandlerError::retry_after(delay, error))
    }
}

/// How a handler ended: what expansions hand to the worker.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Failed(ErrorText),
    RetryAfter(Duration, ErrorText),
    Rejected(ErrorText),
}

/// What a handler may return: `()`, or `Result<(), E>` with any error type.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "expected `()` or `Result<(), E>`",
    note = "`E` is anything that turns into a boxed error: an error type that is `Send + Sync`, `anyhow::Error`, `HandlerError`, `String` or `&str`"
)]
pub trait IntoOutcome {
    #[doc(hidden)]
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Done
    }
}

#[diagnostic::do_not_recommend]
impl<E: Into<HandlerError>> IntoOutcome for Result<(), E> {
    fn into_outcome(self) -> Outcome {
        let Err(error) = self else {
            return Outcome::Done;
        };
        let HandlerError { class, error } = error.into();
        let text = ErrorText::of(&error);
        match class {
            Class::Failed => Outcome::Failed(text),
            Class::RetryAfter(delay) => Outcome::RetryAfter(delay, text),
            Class::Reject => Outcome::Rejected(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_is_a_failed_delivery() {
        let io = Err::<(), _>(std::io::Error::other("disk full"));
        assert_eq!(io.into_outcome(), Outcome::Failed("disk full".into()));
        assert_eq!(
            Err::<(), _>("text").into_outcome(),
            Outcome::Failed("text".into())
        );
        assert_eq!(
            Err::<(), _>(String::new()).into_outcome(),
            Outcome::Failed("".into())
        );
        assert_eq!(Ok::<(), String>(()).into_outcome(), Outcome::Done);
    }

    #[test]
    fn the_question_mark_classifies() {
        fn reject() -> Result<(), HandlerError> {
            "x".parse::<u32>().or_reject()?;
            Ok(())
        }
        fn later() -> Result<(), HandlerError> {
            Err::<(), _>("busy").or_retry_after(Duration::from_secs(3))
        }
        assert_eq!(
            reject().into_outcome(),
            Outcome::Rejected("invalid digit found in string".into())
        );
        assert_eq!(
            later().into_outcome(),
            Outcome::RetryAfter(Duration::from_secs(3), "busy".into())
        );
    }
}
