//! How a command ends when it does not end well: its words, and its exit code.

use std::io;

use rillkit::{Error, ErrorKind};

#[derive(Debug)]
pub(crate) enum Failure {
    /// The server refused, or something that was named is not there.
    Failed(String),
    /// What was asked cannot be understood.
    Usage(String),
    /// The server cannot be reached.
    Unreachable(String),
    /// There is something to mend, and it has been said.
    Findings,
    /// Whoever read the output has gone, as `head` does: nothing is wrong.
    Closed,
}

impl Failure {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
            Self::Findings => 4,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Failed(text) | Self::Usage(text) | Self::Unreachable(text) => Some(text),
            Self::Findings | Self::Closed => None,
        }
    }

    /// The same, with what had been done until then.
    pub(crate) fn after(self, done: &str) -> Self {
        let more = |text: String| format!("{text} ({done})");
        match self {
            Self::Failed(text) => Self::Failed(more(text)),
            Self::Unreachable(text) => Self::Unreachable(more(text)),
            other => other,
        }
    }

    /// A stream that is not there.
    pub(crate) fn no_stream(stream: &str) -> Self {
        let stream = stream.escape_debug();
        Self::Failed(format!(
            "there is no stream `{stream}`; `rillkit stats` lists those that are there"
        ))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error.kind() {
            ErrorKind::NotSent => Self::Unreachable(format!(
                "{text}; start the server, or say where it is with `--url` or `REDIS_URL`"
            )),
            ErrorKind::Url => Self::Usage(text),
            _ => Self::Failed(text),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(format!("cannot write the output: {error}")),
        }
    }
}
