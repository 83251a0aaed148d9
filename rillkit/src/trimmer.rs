//! Trims a stream again and again while its broker runs.

use std::time::Duration;

use tokio::sync::watch;

use crate::log;
use crate::panic::{caught, contained};
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
            // A panic is not to end it in silence; the next trim is as far off as always.
            while let Err(panic) = caught(self.trim_always()).await {
                contained(|| log::trimming_panicked(self.trim.stream(), &panic));
            }
        };
        tokio::select! {
            () = trimming => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    async fn trim_always(&self) {
        let mut wait = self.every.mul_f64(fastrand::f64()).max(LEAST);
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Broker;

    /// Panics at its first line, as what writes lines may.
    struct PanicsOnce(std::sync::atomic::AtomicBool);

    impl tracing::Subscriber for PanicsOnce {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {
            let first = !self.0.swap(true, std::sync::atomic::Ordering::SeqCst);
            assert!(!first, "cannot write this");
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_trim_that_panics_is_not_the_last() {
        let _lines = tracing::subscriber::set_default(PanicsOnce(false.into()));
        let broker = Broker::memory();
        let trimmer = Trimmer::new(broker.trim("s").even_without_groups(), LEAST);
        let stop = watch::Sender::new(false);
        let task = tokio::spawn(trimmer.run(stop.subscribe()));
        for _ in 0..3 {
            broker.publish("s", "a body").await.unwrap();
            tokio::time::sleep(LEAST * 3).await;
            let left = broker.trim("s").even_without_groups().await.unwrap();
            assert_eq!(left.removed, 0, "it was removed before");
        }
        stop.send_replace(true);
        task.await.unwrap();
    }
}
