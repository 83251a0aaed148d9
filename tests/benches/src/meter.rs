//! Counts handled messages and takes their times, in as little time as possible.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{OnceLock, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// How long all take.
    Drain,
    /// From the publishing of each to its handler.
    Latency,
    /// From the due time of each one's retry to its start.
    Retry {
        /// The delay of the first.
        delay: Duration,
        /// How much longer that of each next one is.
        step: Duration,
    },
}

/// What the handler has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// It has to fail and ask for a retry after this delay.
    RetryAfter(Duration),
}

/// The times of one run.
#[derive(Debug)]
pub struct Meter {
    kind: Kind,
    n: u64,
    base: Instant,
    calls: AtomicU64,
    distinct: AtomicU64,
    seen: Vec<AtomicU64>,
    first: AtomicU64,
    last: AtomicU64,
    marks: Vec<AtomicU64>,
    samples: Vec<AtomicI64>,
    done: Notify,
}

/// Handlers are functions, so the meter they report to is found here.
static CURRENT: OnceLock<RwLock<Arc<Meter>>> = OnceLock::new();

impl Meter {
    /// Makes it the one that handlers report to.
    #[must_use]
    pub fn start(kind: Kind, n: u64) -> Arc<Self> {
        let zeros = |n: u64| (0..n).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let each = if kind == Kind::Drain { 0 } else { n };
        let meter = Arc::new(Self {
            kind,
            n,
            base: Instant::now(),
            calls: AtomicU64::new(0),
            distinct: AtomicU64::new(0),
            seen: zeros(n / 64 + 1),
            first: AtomicU64::new(0),
            last: AtomicU64::new(0),
            marks: zeros(each),
            samples: (0..each).map(|_| AtomicI64::new(0)).collect(),
            done: Notify::new(),
        });
        let current = CURRENT.get_or_init(|| RwLock::new(Arc::clone(&meter)));
        *current.write().expect("no handler panics") = Arc::clone(&meter);
        meter
    }

    /// Reports a message to the meter of this run.
    #[must_use]
    pub fn report(id: u64) -> Answer {
        let current = CURRENT.get().expect("a meter was started");
        current.read().expect("no handler panics").handle(id)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.base.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn handle(&self, id: u64) -> Answer {
        let place = usize::try_from(id).unwrap_or(usize::MAX);
        let calls = self.calls.fetch_add(1, Relaxed);
        match self.kind {
            Kind::Drain if calls == 0 => self.first.store(self.now(), Relaxed),
            Kind::Drain => {}
            Kind::Latency => self.sample(place, self.marks[place].load(Relaxed)),
            Kind::Retry { delay, step } => {
                let delay = delay + step * u32::try_from(id).unwrap_or(u32::MAX);
                let due = self.now() + u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
                if self.marks[place]
                    .compare_exchange(0, due, Relaxed, Relaxed)
                    .is_ok()
                {
                    return Answer::RetryAfter(delay);
                }
                self.sample(place, self.marks[place].load(Relaxed));
            }
        }
        let bit = 1 << (id % 64);
        if self.seen[place / 64].fetch_or(bit, Relaxed) & bit == 0
            && self.distinct.fetch_add(1, Relaxed) + 1 == self.n
        {
            self.last.store(self.now(), Relaxed);
            self.done.notify_one();
        }
        Answer::Done
    }

    fn sample(&self, place: usize, since: u64) {
        let late = i64::try_from(self.now()).unwrap_or(i64::MAX)
            - i64::try_from(since).unwrap_or(i64::MAX);
        self.samples[place].store(late, Relaxed);
    }

    /// Notes that this message is published now.
    pub fn published(&self, id: u64) {
        if self.kind == Kind::Latency {
            self.marks[usize::try_from(id).unwrap_or(usize::MAX)].store(self.now(), Relaxed);
        }
    }

    /// Waits until every message was handled.
    pub async fn done(&self) {
        self.done.notified().await;
    }

    /// Runs of messages that had been handled before.
    #[must_use]
    pub fn repeats(&self) -> u64 {
        self.calls.load(Relaxed) - self.distinct.load(Relaxed)
    }

    /// From the first handler to the last.
    #[must_use]
    pub fn handled(&self) -> Duration {
        Duration::from_nanos(self.last.load(Relaxed) - self.first.load(Relaxed))
    }

    /// From the first handler to now.
    #[must_use]
    pub fn since_first(&self) -> Duration {
        Duration::from_nanos(self.now() - self.first.load(Relaxed))
    }

    /// The samples in milliseconds, sorted, without the first `skip`.
    #[must_use]
    pub fn sorted_ms(&self, skip: usize) -> Vec<f64> {
        let samples = self.samples[skip..]
            .iter()
            .map(|sample| sample.load(Relaxed));
        let mut samples: Vec<i64> = samples.collect();
        samples.sort_unstable();
        samples.into_iter().map(|ns| ns as f64 / 1e6).collect()
    }
}

/// The value below which this share of sorted samples lies.
#[must_use]
pub fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}
