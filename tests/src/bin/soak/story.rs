//! Why a run may not have been the last of its message, and all that is known about one message.

use std::fmt::Write;

use crate::ledger::{Key, Ledger, Run, Trouble};
use crate::plan::Plan;
use crate::schedule::Fault;

/// What a worker needs beyond a trouble to be back: a connection, and the machine's own time.
const RECONNECT: u64 = 300_000;
/// How much of the surroundings a story tells.
const AROUND: u64 = 5_000_000;

/// What excuses that a message ran again by `until`, although this run did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excuse {
    Killed,
    Frozen,
    /// Away from the server for so long that the lease may be over.
    CutOff,
    /// A stop took it out of the run.
    Stopped,
    GroupDestroyed,
}

impl Excuse {
    /// Whether the run may go on while another worker has the message.
    pub(crate) fn allows_two_at_once(self) -> bool {
        matches!(self, Self::Frozen | Self::CutOff | Self::GroupDestroyed)
    }
}

pub(crate) fn excuses(ledger: &Ledger, plan: &Plan, run: &Run, until: u64) -> Vec<Excuse> {
    let worker = &ledger.workers[run.worker];
    let lease = plan.lease_ms * 1000;
    // It was in hand for at most so long before.
    let from = run.start - lease;
    let overlap = |begin: u64, end: u64| end.min(until).checked_sub(begin.max(from));
    let mut excuses = Vec::new();
    if worker.killed.is_some_and(|at| at <= until) {
        excuses.push(Excuse::Killed);
    }
    if worker
        .frozen
        .iter()
        .any(|(begin, end)| overlap(*begin, *end).is_some())
    {
        excuses.push(Excuse::Frozen);
    }
    let reaches = |trouble: &&Trouble| trouble.way.is_none_or(|way| way == worker.way);
    let troubles: Vec<_> = ledger.troubles.iter().filter(reaches).collect();
    let away: u64 = troubles
        .iter()
        .filter(|trouble| !matches!(trouble.fault, Fault::OutOfMemory | Fault::DestroyGroup))
        .filter_map(|trouble| {
            let length = overlap(trouble.from, trouble.to)?;
            let is_short = trouble.fault.only_ends_connections();
            Some(RECONNECT + if is_short { 0 } else { length })
        })
        .sum();
    if away >= lease / 2 {
        excuses.push(Excuse::CutOff);
    }
    if let Some(told) = worker.told_to_stop.filter(|told| *told <= until) {
        let stopped = worker.stopped.unwrap_or(u64::MAX);
        let in_trouble = troubles
            .iter()
            .any(|trouble| trouble.from <= stopped && trouble.to >= told);
        if in_trouble || run.end.is_some_and(|(at, _)| at >= told) {
            excuses.push(Excuse::Stopped);
        }
    }
    let destroyed = |trouble: &&Trouble| {
        trouble.fault == Fault::DestroyGroup && trouble.to >= run.start && trouble.from <= until
    };
    if ledger.troubles.iter().any(|trouble| destroyed(&trouble)) {
        excuses.push(Excuse::GroupDestroyed);
    }
    excuses
}

/// Who ran it when, and which faults were around.
pub(crate) fn story(ledger: &Ledger, key: &Key, wrong: &str) -> String {
    let runs = ledger.runs.get(key).map_or(&[][..], Vec::as_slice);
    let mut story = format!("{} {}: {wrong}\n", key.0, key.1);
    let _ = writeln!(story, "    published: {:?}", ledger.published.get(key));
    let Some(first) = runs.first() else {
        story.push_str("    it never ran");
        return story;
    };
    let at = |time: u64| {
        if time == u64::MAX {
            return "never".to_owned();
        }
        format!("{:+.3}", (time as f64 - first.start as f64) / 1e6)
    };
    let last = runs
        .iter()
        .map(|run| run.end.map_or(run.start, |(end, _)| end));
    let (from, to) = (
        first.start - AROUND,
        last.max().unwrap_or(first.start) + AROUND,
    );
    for run in runs {
        let end = run.end.map(|(end, how)| format!("{how:?} at {}", at(end)));
        let _ = writeln!(
            story,
            "    delivery {} of {} by worker {} at {}, ended: {end:?}",
            run.delivery,
            run.id,
            run.worker,
            at(run.start)
        );
    }
    for (number, worker) in ledger.workers.iter().enumerate() {
        let moments = [
            ("was killed", worker.killed),
            ("was told to stop", worker.told_to_stop),
            ("has stopped", worker.stopped),
        ];
        for (what, time) in moments {
            if let Some(time) = time.filter(|time| (from..=to).contains(time)) {
                let _ = writeln!(story, "    worker {number} {what} at {}", at(time));
            }
        }
        for (begin, end) in &worker.frozen {
            if *begin <= to && *end >= from {
                let (begin, end) = (at(*begin), at(*end));
                let _ = writeln!(
                    story,
                    "    worker {number} was frozen from {begin} to {end}"
                );
            }
        }
    }
    for trouble in &ledger.troubles {
        if trouble.from <= to && trouble.to >= from {
            let whom: Vec<_> = (0..ledger.workers.len())
                .filter(|number| {
                    trouble
                        .way
                        .is_none_or(|way| way == ledger.workers[*number].way)
                })
                .filter(|number| runs.iter().any(|run| run.worker == *number))
                .collect();
            let _ = writeln!(
                story,
                "    {:?} from {} to {}, for workers {whom:?} of these",
                trouble.fault,
                at(trouble.from),
                at(trouble.to)
            );
        }
    }
    story
}
