//! What was promised of one message, against what became of it.

use crate::holdings::{Letter, milliseconds};
use crate::ledger::{Ended, Key, Ledger, Run};
use crate::plan::{Fate, Plan, fate};
use crate::schedule::Fault;
use crate::story::{Excuse, excuses};

/// A message, and what the run and the server know of it.
pub(crate) struct Case<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) plan: &'a Plan,
    pub(crate) key: &'a Key,
    pub(crate) id: &'a str,
    pub(crate) runs: &'a [Run],
    pub(crate) letters: &'a [Letter],
}

/// How a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Handled,
    Dead,
    /// Acked before a run that a kill ended or prevented: at most once, as asked for.
    LostAtMostOnce,
    Lost,
}

impl Case<'_> {
    pub(crate) fn end(&self) -> End {
        let good = |run: &Run| matches!(run.end, Some((_, Ended::Good)));
        if self.runs.iter().any(good) {
            End::Handled
        } else if !self.letters.is_empty() {
            End::Dead
        } else if self.plan.at_most_once && self.runs.len() <= 1 {
            End::LostAtMostOnce
        } else {
            End::Lost
        }
    }

    /// Runs after one that did not fail.
    pub(crate) fn repeats(&self) -> usize {
        let followed = self.runs.split_last().map_or(&[][..], |(_, before)| before);
        followed.iter().filter(|run| !self.failed(run)).count()
    }

    /// All that is wrong.
    pub(crate) fn wrongs(&self) -> Vec<String> {
        let mut wrongs = Vec::new();
        if self.end() == End::Lost {
            wrongs.push("it is lost: neither handled, nor dead, nor pending".to_owned());
        }
        if self.letters.len() > 1 && !self.was_destroyed() {
            wrongs.push(format!("it is dead {} times", self.letters.len()));
        }
        if self.plan.at_most_once && self.runs.len() > 1 && !self.was_destroyed() {
            wrongs.push("it was acked first, and ran more than once".to_owned());
        }
        wrongs.extend(self.runs.iter().filter_map(|run| self.wrong_run(run)));
        for (place, run) in self.runs.iter().enumerate() {
            let later = &self.runs[place + 1..];
            if let Some(next) = later.first() {
                wrongs.extend(self.wrong_repeat(run, next));
            }
            wrongs.extend(later.iter().filter_map(|next| self.wrong_pair(run, next)));
        }
        wrongs.extend(
            self.letters
                .iter()
                .filter_map(|letter| self.wrong_letter(letter)),
        );
        wrongs
    }

    fn excuses(&self, run: &Run, until: u64) -> Vec<Excuse> {
        excuses(self.ledger, self.plan, run, until)
    }

    /// Whether its group was destroyed at any time after it was published.
    fn was_destroyed(&self) -> bool {
        let published = milliseconds(self.id) * 1000;
        let mut troubles = self.ledger.troubles.iter();
        troubles.any(|trouble| trouble.fault == Fault::DestroyGroup && trouble.to >= published)
    }

    fn fate(&self, delivery: u64) -> Fate {
        fate(&self.key.0, self.key.1, delivery)
    }

    /// Whether the run failed because it was to fail.
    fn failed(&self, run: &Run) -> bool {
        match run.end {
            Some((_, Ended::Failed)) => true,
            Some((_, Ended::Dropped)) => self.fate(run.delivery) == Fate::Timeout,
            _ => false,
        }
    }

    /// A run by itself.
    fn wrong_run(&self, run: &Run) -> Option<String> {
        let worker = &self.ledger.workers[run.worker];
        if run.id != self.id {
            return Some(format!("it ran as {}, and is {}", run.id, self.id));
        }
        let fate = self.fate(run.delivery);
        let is_right = match run.end {
            None => worker.killed.is_some(),
            Some((_, Ended::Good)) => fate == Fate::Good,
            Some((_, Ended::Failed)) => matches!(fate, Fate::Err | Fate::Panic | Fate::Reject),
            Some((at, Ended::Dropped)) => {
                fate == Fate::Timeout || worker.told_to_stop.is_some_and(|told| told <= at)
            }
        };
        (!is_right).then(|| format!("delivery {} ended as it should not", run.delivery))
    }

    /// That `next` followed `run`.
    fn wrong_repeat(&self, run: &Run, next: &Run) -> Option<String> {
        let excuses = self.excuses(run, next.start);
        if excuses.contains(&Excuse::GroupDestroyed) {
            return None;
        }
        if !self.failed(run) {
            let unexcused = excuses.is_empty();
            return unexcused.then(|| format!("delivery {} was repeated", run.delivery));
        }
        let is_last = self
            .plan
            .max_retries
            .is_some_and(|most| run.delivery > most);
        if is_last || self.fate(run.delivery) == Fate::Reject && excuses.is_empty() {
            return Some(format!("it ran after its last delivery {}", run.delivery));
        }
        let waited = (next.start - run.start) as f64 / 1000.0;
        let early = waited < self.plan.delay_ms(run.delivery) - 5.0;
        (early && excuses.is_empty())
            .then(|| format!("delivery {} came after {waited} ms", next.delivery))
    }

    /// Any two runs: not at once, and not of one delivery.
    fn wrong_pair(&self, run: &Run, next: &Run) -> Option<String> {
        let excuses = self.excuses(run, next.start);
        let worker = &self.ledger.workers[run.worker];
        let end = match run.end {
            Some((end, _)) => end,
            None => worker.killed.unwrap_or(u64::MAX),
        };
        if end > next.start && !excuses.iter().any(|excuse| excuse.allows_two_at_once()) {
            return Some(format!(
                "deliveries {} and {} ran at once",
                run.delivery, next.delivery
            ));
        }
        let handed_back = excuses.contains(&Excuse::Stopped) && !self.failed(run);
        let is_same = run.delivery == next.delivery
            && !handed_back
            && !excuses.contains(&Excuse::GroupDestroyed);
        is_same.then(|| format!("delivery {} ran twice", run.delivery))
    }

    fn wrong_letter(&self, letter: &Letter) -> Option<String> {
        let Letter {
            reason, deliveries, ..
        } = letter;
        if self.was_destroyed() {
            return None;
        }
        let is_over = self.plan.max_retries.is_some_and(|most| *deliveries > most);
        if reason == "exhausted" {
            return if is_over {
                self.unexplained(letter)
            } else {
                Some(format!("it is exhausted after {deliveries} deliveries"))
            };
        }
        let fate = self.fate(*deliveries);
        let ran = self
            .runs
            .iter()
            .any(|run| run.delivery == *deliveries && self.failed(run));
        let is_right = fate.reason() == reason
            && match fate {
                Fate::Decode => self.runs.is_empty(),
                Fate::Reject => ran,
                _ => ran && is_over,
            };
        (!is_right).then(|| format!("it is dead by {reason} after {deliveries} deliveries"))
    }

    /// An exhausted message: each of its deliveries failed, or fell to a fault.
    fn unexplained(&self, letter: &Letter) -> Option<String> {
        let mut unseen = 0;
        for delivery in 1..=letter.deliveries {
            let mut runs = self.runs.iter().filter(|run| run.delivery == delivery);
            let is_last = delivery == letter.deliveries;
            if !self.runs.iter().any(|run| run.delivery == delivery) {
                unseen += 1;
            }
            let unexcused = |run: &Run| {
                (is_last || !self.failed(run)) && self.excuses(run, letter.at + 1000).is_empty()
            };
            if runs.any(unexcused) {
                return Some(format!(
                    "it is exhausted, and nothing excuses delivery {delivery}"
                ));
            }
        }
        let faults = self.deadly_faults(milliseconds(self.id) * 1000, letter.at);
        (unseen > faults).then(|| {
            format!(
                "{unseen} deliveries counted without a run, with {faults} faults that can do so"
            )
        })
    }

    /// Faults in this time that can leave a delivery counted and not run.
    fn deadly_faults(&self, from: u64, to: u64) -> usize {
        let lease = self.plan.lease_ms * 1000;
        let workers = self.ledger.workers.iter().map(|worker| {
            let killed = worker.killed.filter(|at| (from..=to).contains(at));
            let frozen = worker.frozen.iter();
            killed.iter().count()
                + frozen
                    .filter(|(begin, end)| *begin <= to && *end >= from)
                    .count()
        });
        let troubles = self.ledger.troubles.iter().filter(|trouble| {
            let is_long = trouble.to.saturating_sub(trouble.from) + 500_000 >= lease;
            trouble.from <= to
                && trouble.to >= from
                && is_long
                && !trouble.fault.only_ends_connections()
        });
        workers.sum::<usize>() + troubles.count()
    }
}
