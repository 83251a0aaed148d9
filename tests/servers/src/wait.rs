//! Waiting for a condition instead of sleeping.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything in this crate may take before it counts as hung.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Returns once `condition` holds.
///
/// # Panics
/// With `what` (say it as "three entries are pending") when it does not hold within 20 seconds.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(
            Instant::now() < deadline,
            "waited {PATIENCE:?} in vain until {what}"
        );
        thread::sleep(Duration::from_millis(2));
    }
}
