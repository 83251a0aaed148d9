//! Where the tools work: the letters of one stream in one dead-letter queue.

use super::letter::Letter;
use crate::error::Error;
use crate::store::{Fault, Store};

#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub(super) store: Store,
    /// Whose letters these are.
    pub(super) stream: String,
    /// The dead-letter queue's key.
    pub(super) name: String,
    /// Bytes of the largest message that may be published.
    pub(super) largest: usize,
}

impl Queue {
    /// Whether a letter is this stream's: several may share a queue.
    pub(super) fn owns(&self, letter: &Letter) -> bool {
        letter
            .stream_bytes()
            .is_none_or(|stream| stream == self.stream.as_bytes())
    }

    pub(super) fn cannot_look(&self, fault: &Fault) -> Error {
        let what = format!("looking at the dead letters in `{}` failed", self.name);
        Error::from_fault(fault, &what)
    }
}
