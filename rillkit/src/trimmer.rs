//! Trims a stream again and again while its broker runs.

use std::time::Duration;

use tokio::sync::watch;

use crate::log;
use crate::safe_trim::SafeTrim;

/// What is trimmed, and how often.
#[derive(Debug, Clone)]
pub(crate) struct Trimmer {
    trim: SafeTrim,
    every: Duration,
}

/// The shortest time between two trims.
const LEAST: Duration = Duration::from_millis(100);

impl Trimmer {
    pub(crate) fn new(trim: SafeTrim, every: Duration) -> Self {
        Self {
            trim,
            every: every.max(LEAST),
        }
    }

    /// Trims until the stop. Every worker of the stream does it, each at moments of its own: one that
    /// finds nothing to remove costs the server no more than a few reads.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let trimming = async {
            let mut wait = self.every.mul_f64(fastrand::f64());
            let mut failing = false;
            loop {
                tokio::time::sleep(wait).await;
                match self.trim.run().await {
                    Ok(trimmed) => {
                        log::trimmed(self.trim.stream(), &trimmed);
                        failing = false;
                    }
                    // Once until it works again; the workers tell what is wrong with the server.
                    Err(error) if !std::mem::replace(&mut failing, true) => {
                        log::cannot_trim(&error);
                    }
                    Err(_) => {}
                }
                wait = self.every.mul_f64(0.75 + fastrand::f64() / 2.0);
            }
        };
        tokio::select! {
            () = trimming => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
}
