//! What happened: who ran what when, which processes lived, what was published, and which faults there were. All
//! times are microseconds of the one clock that all processes of a machine share.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::schedule::Fault;

/// The time.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.expect("after 1970").as_micros()).expect("before the year 500000")
}

/// One message: its stream and the number in its body.
pub(crate) type Key = (String, u64);

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) runs: BTreeMap<Key, Vec<Run>>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) troubles: Vec<Trouble>,
    pub(crate) published: BTreeMap<Key, Published>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Good,
    Failed,
    /// Cancelled: by its time limit, or by a stop.
    Dropped,
}

/// One run of a handler.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) worker: usize,
    pub(crate) id: String,
    pub(crate) delivery: u64,
    pub(crate) start: u64,
    pub(crate) end: Option<(u64, Ended)>,
}

/// The life of one worker process.
#[derive(Debug, Default, Clone)]
pub(crate) struct Worker {
    /// The way to the server that it goes.
    pub(crate) way: usize,
    pub(crate) killed: Option<u64>,
    pub(crate) told_to_stop: Option<u64>,
    pub(crate) stopped: Option<u64>,
    /// From and to.
    pub(crate) frozen: Vec<(u64, u64)>,
}

/// Something between workers and the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trouble {
    pub(crate) fault: Fault,
    /// The way that it is on; `None` is the server itself.
    pub(crate) way: Option<usize>,
    pub(crate) from: u64,
    /// Not over yet is the end of time.
    pub(crate) to: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Published {
    /// With this id.
    Surely(String),
    /// The answer was lost.
    Perhaps,
    /// The publisher was told that it is not there.
    Not,
}

impl Ledger {
    /// Notes what worker number `worker` says.
    ///
    /// # Panics
    /// When it is not what a worker says.
    pub(crate) fn note(&mut self, worker: usize, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        let [kind, stream, id, number, delivery, at, how @ ..] = &words[..] else {
            panic!("worker {worker} says `{line}`");
        };
        let parse = |word: &str| word.parse::<u64>().expect("a number");
        let runs = self
            .runs
            .entry(((*stream).into(), parse(number)))
            .or_default();
        let (delivery, at) = (parse(delivery), parse(at));
        if *kind == "start" {
            runs.push(Run {
                worker,
                id: (*id).into(),
                delivery,
                start: at,
                end: None,
            });
            return;
        }
        let ended = match how {
            ["good"] => Ended::Good,
            ["failed"] => Ended::Failed,
            ["dropped"] => Ended::Dropped,
            _ => panic!("worker {worker} says `{line}`"),
        };
        let is_it =
            |run: &&mut Run| run.worker == worker && run.delivery == delivery && run.end.is_none();
        let run = runs.iter_mut().rfind(is_it).expect("it has started");
        run.end = Some((at, ended));
    }

    /// The same in the order of time, for those who look at it.
    pub(crate) fn sort(&mut self) {
        for runs in self.runs.values_mut() {
            runs.sort_by_key(|run| run.start);
        }
    }
}
