//! What was done by a tool that broke off.

use std::fmt;

use crate::error::Error;

/// Why a tool did not do all, and what it had done until then. It can be run again: what was moved
/// or deleted is not met a second time.
///
/// `?` makes an [`Error`] of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished<R> {
    report: R,
    error: Error,
}

impl<R> Unfinished<R> {
    pub(super) fn new(report: R, error: Error) -> Self {
        Self { report, error }
    }

    /// What surely was done.
    #[must_use]
    pub fn report(&self) -> &R {
        &self.report
    }

    /// What went wrong then.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }
}

impl<R> fmt::Display for Unfinished<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<R: fmt::Debug> std::error::Error for Unfinished<R> {}

impl<R> From<Unfinished<R>> for Error {
    fn from(unfinished: Unfinished<R>) -> Self {
        unfinished.error
    }
}
