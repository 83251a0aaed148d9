//! The signals that ask a worker to stop.

use crate::error::{Error, ErrorKind};

/// SIGINT and SIGTERM, from the moment of listening on.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    pub(crate) fn listen() -> Result<Self, Error> {
        use tokio::signal::unix::{SignalKind, signal};
        let failed = |error: std::io::Error| {
            Error::new(
                ErrorKind::Config,
                format!("the signals that stop the broker cannot be listened to: {error}"),
            )
        };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
        })
    }

    /// Waits for one of them.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn listen() -> Result<Self, Error> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}

/// The second signal: whoever sends it does not want to wait for anything, a blocked handler least
/// of all, which the end of the runtime would wait for.
#[allow(clippy::exit, reason = "the process is to end now")]
pub(crate) fn end_at_once() -> ! {
    std::process::exit(130)
}
