//! How fast the handlers are: how much is read ahead for them, and whether they are polled in place.

use std::time::Duration;

use crate::policy::Policy;

/// What is read ahead is started within about this time, so that a buffered entry does not age.
const AHEAD: Duration = Duration::from_millis(20);
/// The most that is read ahead.
const MOST_AHEAD: usize = 1500;
/// A poll that takes longer than this holds up the other handlers of the subscription.
const LONG_POLL: Duration = Duration::from_micros(500);
/// So many short polls in a row let a handler be polled in place.
const SHORT_POLLS: u32 = 32;

#[derive(Debug)]
pub(crate) struct Pace {
    concurrency: usize,
    reads_ahead: bool,
    /// The usual time from start to end, in seconds; the newest run counts an eighth.
    usual: Option<f64>,
    /// The usual time from there until its ack and commands are done, where a run waits for that.
    usual_commit: f64,
    /// Quick runs since the last slow one: what is read ahead grows with what was seen.
    quick: usize,
    short_polls: u32,
}

impl Pace {
    pub(crate) fn of(policy: &Policy) -> Self {
        // Without retries an entry that was read and not started would be taken for one whose
        // worker died in its only run.
        let reads_ahead = policy.max_retries != Some(0);
        Self::new(policy.concurrency as usize, reads_ahead)
    }

    pub(crate) fn new(concurrency: usize, reads_ahead: bool) -> Self {
        Self {
            concurrency,
            reads_ahead,
            usual: None,
            usual_commit: 0.0,
            quick: 0,
            short_polls: 0,
        }
    }

    /// Notes one run and the longest of its polls.
    pub(crate) fn note(&mut self, run: Duration, longest_poll: Duration) {
        let seconds = run.as_secs_f64();
        self.usual = Some(
            self.usual
                .map_or(seconds, |usual| usual + (seconds - usual) / 8.0),
        );
        self.quick = if run < AHEAD {
            self.quick.saturating_add(1)
        } else {
            0
        };
        self.short_polls = if longest_poll < LONG_POLL {
            self.short_polls.saturating_add(1)
        } else {
            0
        };
    }

    /// Notes how long the slot of a run was held for its ack.
    pub(crate) fn note_commit(&mut self, took: Duration) {
        self.usual_commit += (took.as_secs_f64() - self.usual_commit) / 8.0;
    }

    /// How many entries may be held beyond those that start at once.
    pub(crate) fn ahead(&self) -> usize {
        let Some(usual) = self.usual.filter(|_| self.reads_ahead) else {
            return 0;
        };
        // The cast saturates; a run of no time at all is an infinity.
        let startable = (AHEAD.as_secs_f64() / (usual + self.usual_commit)) as usize;
        startable
            .saturating_mul(self.concurrency)
            .min(self.quick)
            .min(MOST_AHEAD)
    }

    /// Whether a handler is polled once where it stands before it gets a task of its own.
    pub(crate) fn polls_in_place(&self) -> bool {
        self.short_polls >= SHORT_POLLS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(pace: &mut Pace, run: Duration, times: usize) {
        for _ in 0..times {
            pace.note(run, run);
        }
    }

    #[test]
    fn nothing_is_read_ahead_for_slow_or_unknown_handlers() {
        let mut pace = Pace::new(4, true);
        assert_eq!(pace.ahead(), 0);
        noted(&mut pace, Duration::from_millis(30), 100);
        assert_eq!(pace.ahead(), 0);
    }

    #[test]
    fn what_is_read_ahead_grows_with_what_was_seen() {
        let mut pace = Pace::new(1, true);
        noted(&mut pace, Duration::from_micros(1), 3);
        assert_eq!(pace.ahead(), 3);
        noted(&mut pace, Duration::from_micros(1), 10_000);
        assert_eq!(pace.ahead(), MOST_AHEAD);
        noted(&mut pace, Duration::from_secs(1), 1);
        assert_eq!(pace.ahead(), 0);
    }

    #[test]
    fn it_follows_what_is_done_in_some_20_ms() {
        let mut pace = Pace::new(8, true);
        noted(&mut pace, Duration::from_millis(2), 1000);
        assert!((72..=80).contains(&pace.ahead()), "{}", pace.ahead());
    }

    #[test]
    fn what_an_ack_takes_counts_where_a_run_waits_for_it() {
        let mut pace = Pace::new(1, true);
        noted(&mut pace, Duration::from_micros(1), 1000);
        for _ in 0..100 {
            pace.note_commit(Duration::from_millis(1));
        }
        assert!((18..=20).contains(&pace.ahead()), "{}", pace.ahead());
    }

    #[test]
    fn nothing_is_read_ahead_where_it_must_not_be() {
        let mut pace = Pace::new(1, false);
        noted(&mut pace, Duration::from_micros(1), 100);
        assert_eq!(pace.ahead(), 0);
    }

    #[test]
    fn many_short_polls_let_a_handler_be_polled_in_place_and_a_long_one_ends_it() {
        let mut pace = Pace::new(1, true);
        assert!(!pace.polls_in_place());
        noted(&mut pace, Duration::from_micros(5), 32);
        assert!(pace.polls_in_place());
        noted(&mut pace, Duration::from_millis(5), 1);
        assert!(!pace.polls_in_place());
    }
}
