//! How long to wait before asking a server again that refused or was not there.

use std::time::Duration;

/// Growing waits with jitter, so that workers that lost a server together do not come back together.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    next: Duration,
    cap: Duration,
}

const FIRST: Duration = Duration::from_millis(50);

impl Backoff {
    /// For trouble that passes by itself.
    pub(crate) fn short() -> Self {
        Self {
            next: FIRST,
            cap: Duration::from_secs(3),
        }
    }

    /// For trouble that somebody has to mend.
    pub(crate) fn slow() -> Self {
        Self {
            next: Duration::from_secs(1),
            cap: Duration::from_secs(15),
        }
    }

    /// The next wait: between half of the step and all of it.
    pub(crate) fn wait(&mut self) -> Duration {
        let wait = self.next.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.next = (self.next * 2).min(self.cap);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_the_cap() {
        let mut backoff = Backoff::short();
        let waits: Vec<_> = (0..20).map(|_| backoff.wait()).collect();
        assert!(waits[0] <= FIRST && waits[0] >= FIRST / 2);
        assert!(
            waits[10..]
                .iter()
                .all(|wait| (1500..=3000).contains(&wait.as_millis()))
        );
    }
}
