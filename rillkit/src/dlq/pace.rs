//! So many steps in a second, and no more.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::error::{Error, ErrorKind};

/// How much that was missed is caught up with. Timers are no finer than a millisecond, so that many
/// steps in a second need some of it.
const SLACK: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Pace {
    period: Duration,
    due: Instant,
}

impl Pace {
    pub(super) fn per_second(steps: f64) -> Result<Self, Error> {
        let period = Duration::try_from_secs_f64(1.0 / steps).ok();
        let period = period.filter(|_| steps > 0.0).ok_or_else(|| {
            let text = format!("a rate of {steps} in a second is none: give a number above 0");
            Error::new(ErrorKind::Input, text)
        })?;
        Ok(Self {
            period,
            due: Instant::now(),
        })
    }

    /// Waits until the next step may be done.
    pub(super) async fn wait(&mut self) {
        let now = Instant::now();
        if self.due > now {
            sleep_until(self.due).await;
        } else if let Some(earliest) = now.checked_sub(SLACK) {
            self.due = self.due.max(earliest);
        }
        self.due += self.period;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn steps_keep_their_rate() {
        for (rate, steps) in [(10.0, 5), (5000.0, 5001)] {
            let (mut pace, began) = (Pace::per_second(rate).unwrap(), Instant::now());
            for _ in 0..steps {
                pace.wait().await;
            }
            let took = began.elapsed().as_secs_f64();
            let expected = f64::from(steps - 1) / rate;
            assert!(
                (expected..expected + 0.01).contains(&took),
                "{rate}: {took}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_missed_is_not_caught_up_with() {
        let mut pace = Pace::per_second(100.0).unwrap();
        tokio::time::advance(Duration::from_secs(60)).await;
        let began = Instant::now();
        for _ in 0..111 {
            pace.wait().await;
        }
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }

    #[test]
    fn a_rate_must_be_one() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300] {
            let refused = Pace::per_second(rate).map(|pace| pace.period);
            if rate == f64::INFINITY {
                assert_eq!(refused, Ok(Duration::ZERO));
            } else {
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::Input, "{rate}");
            }
        }
    }
}
