//! What the workers handle, and what becomes of each message by its number alone. The handlers do it, and the
//! invariants expect it.

use std::time::Duration;

/// The settings of one stream's handler that the invariants depend on.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) stream: &'static str,
    pub(crate) max_retries: Option<u64>,
    pub(crate) lease_ms: u64,
    pub(crate) backoff: f64,
    pub(crate) max_backoff_ms: u64,
    pub(crate) at_most_once: bool,
}

pub(crate) const GROUP: &str = "workers";

pub(crate) const PLANS: [Plan; 5] = [
    plan("quick", Some(3), 1500),
    Plan {
        backoff: 2.0,
        max_backoff_ms: 3000,
        ..plan("retried", Some(4), 600)
    },
    plan("once", Some(0), 1000),
    plan("slow", None, 1000),
    Plan {
        at_most_once: true,
        ..plan("first", Some(3), 1000)
    },
];

const fn plan(stream: &'static str, max_retries: Option<u64>, lease_ms: u64) -> Plan {
    Plan {
        stream,
        max_retries,
        lease_ms,
        backoff: 1.0,
        max_backoff_ms: 900_000,
        at_most_once: false,
    }
}

impl Plan {
    /// After failed delivery `n` a message is not due before this.
    pub(crate) fn delay_ms(&self, delivery: u64) -> f64 {
        let factor = self.backoff.powi(i32::try_from(delivery).expect("few") - 1);
        (self.lease_ms as f64 * factor).min(self.max_backoff_ms as f64)
    }
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Good,
    Err,
    Panic,
    Timeout,
    Reject,
    /// It cannot be decoded and does not run at all.
    Decode,
}

impl Fate {
    /// The `x-reason` of its dead letter.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Good => "none",
            Self::Err => "error",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Reject => "rejected",
            Self::Decode => "decode",
        }
    }
}

/// How this delivery of this message ends.
pub(crate) fn fate(stream: &str, number: u64, delivery: u64) -> Fate {
    let until = |last: u64, fate| if delivery <= last { fate } else { Fate::Good };
    match (stream, number % 10) {
        ("quick", 7) if number % 50 == 7 => Fate::Reject,
        ("retried", 0) => Fate::Err,
        ("retried", 1) => Fate::Panic,
        ("retried", 2) => Fate::Timeout,
        ("retried", 3) => until(2, Fate::Err),
        ("retried", 4) => until(3, Fate::Panic),
        ("retried", 5) => until(1, Fate::Timeout),
        ("retried", 6) => Fate::Reject,
        ("retried", 7) => Fate::Decode,
        ("once", 0) => Fate::Err,
        ("once", 1) => Fate::Panic,
        ("slow", 0 | 4 | 8) => until(1, Fate::Err),
        _ => Fate::Good,
    }
}

/// How long a run takes.
pub(crate) fn length(stream: &str, number: u64) -> Duration {
    Duration::from_millis(match stream {
        "quick" => number % 10,
        "retried" => 20,
        "once" => 50,
        // Longer than its lease.
        "slow" => 2500,
        _ => 30,
    })
}
