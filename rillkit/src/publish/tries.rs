//! Publishing again what is safe to repeat: an answer was lost, and nobody knows what it said.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::store::{Fault, FaultClass};

/// How long a publication is tried again.
const PATIENCE: Duration = Duration::from_secs(10);

/// The tries of one publication.
pub(super) struct Tries {
    began: Instant,
    backoff: Backoff,
    /// The answer of one was lost: it may have been carried out.
    unknown: bool,
}

impl Tries {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            backoff: Backoff::short(),
            unknown: false,
        }
    }

    /// Returns when it is time to try again.
    ///
    /// # Errors
    ///
    /// With what the caller is to be told, when there is no use in it.
    pub(super) async fn after(&mut self, fault: Fault) -> Result<(), Fault> {
        self.unknown |= fault.class == FaultClass::Reconnect;
        match told(fault.class, self.unknown, self.began.elapsed()) {
            Some(class) => Err(Fault { class, ..fault }),
            None => {
                sleep(self.backoff.wait()).await;
                Ok(())
            }
        }
    }
}

/// What the caller is told of this fault; nothing when it is to be tried again.
fn told(class: FaultClass, unknown: bool, trying: Duration) -> Option<FaultClass> {
    if !unknown {
        return Some(class);
    }
    // What was lost may have been carried out, whatever was answered since.
    (class == FaultClass::Config || trying >= PATIENCE).then_some(FaultClass::Reconnect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lost_answer_is_asked_for_again_and_not_for_ever() {
        use FaultClass::{Config, Reconnect, Unreachable, Wait};
        let (soon, late) = (PATIENCE / 2, PATIENCE);
        for (class, unknown, trying, expected) in [
            (Wait, false, soon, Some(Wait)),
            (Unreachable, false, soon, Some(Unreachable)),
            (Config, false, soon, Some(Config)),
            (Reconnect, true, soon, None),
            (Unreachable, true, soon, None),
            (Wait, true, soon, None),
            (Config, true, soon, Some(Reconnect)),
            (Reconnect, true, late, Some(Reconnect)),
            (Unreachable, true, late, Some(Reconnect)),
            (Wait, true, late, Some(Reconnect)),
        ] {
            assert_eq!(
                told(class, unknown, trying),
                expected,
                "{class:?} {unknown}"
            );
        }
    }
}
