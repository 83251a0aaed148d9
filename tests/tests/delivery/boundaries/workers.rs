//! What workers do: reads, acks, claims, touches, dead letters and hand-backs.

use rillkit_servers::{Proxy, Server, wait_until};

use super::{Boundary, add, is_settled, script, word};
use crate::place::{Letter, Place};
use crate::process::Process;

/// What is broken first in the life of a job.
struct Step {
    stream: &'static str,
    /// What the job does on each delivery.
    does: &'static str,
    /// A word of the command, where it has no script. A start asks for permissions with commands of the
    /// same names, and ids of no entry.
    command: &'static str,
    script: Option<&'static str>,
    /// How often it is dead.
    dead: Counts,
    before: Before,
    /// How often the job may run at each boundary.
    runs: Counts,
}

/// What is done before or beside the worker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// Another consumer has read the job and is never seen again.
    ReadByTheDead,
    /// The worker is told to stop while the job waits for its retry.
    Stopped,
}

/// A number for each boundary.
struct Counts {
    reply_lost: usize,
    request_lost: usize,
    killed_before: usize,
    killed_after: usize,
}

const fn counts(
    reply_lost: usize,
    request_lost: usize,
    killed_before: usize,
    killed_after: usize,
) -> Counts {
    Counts {
        reply_lost,
        request_lost,
        killed_before,
        killed_after,
    }
}

/// Of the reads it is the word for new entries.
const READ_NEW: &str = ">";
/// The first command that names the entry is its ack, unless the run takes long.
const ITS_ID: &str = "";

const PLAIN: Step = Step {
    stream: "jobs",
    does: "ok",
    command: "",
    script: None,
    dead: counts(0, 0, 0, 0),
    before: Before::Nothing,
    runs: counts(1, 1, 1, 1),
};

const READ: Step = Step {
    command: READ_NEW,
    ..PLAIN
};
/// What was handed to a worker that died may have run: it is dead.
const ONLY_READ: Step = Step {
    stream: "once",
    command: READ_NEW,
    runs: counts(1, 1, 1, 0),
    dead: counts(0, 0, 0, 1),
    ..PLAIN
};
const ONLY_ACK: Step = Step {
    stream: "once",
    command: ITS_ID,
    dead: counts(0, 0, 1, 0),
    ..PLAIN
};
/// A worker that dies before its ack has arrived repeats a run that was done.
const ACK: Step = Step {
    command: ITS_ID,
    runs: counts(1, 1, 2, 1),
    ..PLAIN
};
/// At most once: an ack that was carried out for a worker that died is all that there is.
const ACK_FIRST: Step = Step {
    stream: "first",
    script: script!("ack"),
    runs: counts(1, 1, 1, 0),
    ..PLAIN
};
const RETRY: Step = Step {
    does: "err,ok",
    script: script!("take"),
    runs: counts(2, 2, 2, 2),
    ..PLAIN
};
const RETRY_TOUCH: Step = Step {
    does: "sleep:60+err,ok",
    script: script!("touch"),
    runs: counts(2, 2, 2, 2),
    ..PLAIN
};
const RENEWAL: Step = Step {
    does: "sleep:1500",
    script: script!("touch"),
    runs: counts(1, 1, 2, 2),
    ..PLAIN
};
const DEAD_LETTER: Step = Step {
    does: "reject",
    script: script!("dead_letter"),
    dead: counts(1, 1, 1, 1),
    runs: counts(1, 1, 2, 1),
    ..PLAIN
};
const TAKE_OVER: Step = Step {
    script: script!("take"),
    before: Before::ReadByTheDead,
    ..PLAIN
};
const HAND_BACK: Step = Step {
    does: "later:1500,ok",
    script: script!("give"),
    before: Before::Stopped,
    runs: counts(2, 2, 2, 2),
    ..PLAIN
};

const BEGIN: Step = Step {
    stream: "idempotent",
    script: script!("begin"),
    ..PLAIN
};
const KEEP: Step = Step {
    does: "sleep:1500",
    script: script!("keep"),
    runs: counts(1, 1, 2, 2),
    ..BEGIN
};
/// What was marked as done is acked.
const FINISH: Step = Step {
    script: script!("finish"),
    runs: counts(1, 1, 2, 1),
    ..BEGIN
};
/// The retry is of the same entry, so that nothing of the first run is in its way.
const ABANDON: Step = Step {
    does: "err,ok",
    script: script!("abandon"),
    runs: counts(2, 2, 2, 2),
    ..BEGIN
};

impl Boundary {
    fn of(self, counts: &Counts) -> usize {
        match self {
            Self::ReplyLost => counts.reply_lost,
            Self::RequestLost => counts.request_lost,
            Self::KilledBefore => counts.killed_before,
            Self::KilledAfter => counts.killed_after,
        }
    }
}

async fn break_at(step: &Step, boundary: Boundary) {
    let server = Server::start();
    let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
    let stream = step.stream;
    let id = add(&place, stream, step.does);
    let command = if step.command == ITS_ID {
        &id
    } else {
        step.command
    };
    let word = word(&place, command, step.script);
    if step.before == Before::ReadByTheDead {
        place.ask(&["XGROUP", "CREATE", stream, "workers", "0"]);
        let read = [
            "XREADGROUP",
            "GROUP",
            "workers",
            "gone",
            "STREAMS",
            stream,
            ">",
        ];
        assert!(!place.ask(&read).is_nil());
    }
    boundary.set(&proxy, &word);
    let url = proxy.url();
    let mut one = Process::with(&place, stream, &[("REDIS_URL", &url), ("GRACE_MS", "500")]);
    if step.before == Before::Stopped {
        one.wait_for("end job 1");
        one.signal("TERM");
    }
    boundary.wait_for(&proxy);
    let mut workers = Vec::new();
    if boundary.kills() {
        one.kill();
    }
    if boundary.kills() || step.before == Before::Stopped {
        workers.push(Process::start(&place, stream));
    }
    if step.before == Before::Stopped && !boundary.kills() {
        assert!(one.wait().success());
    }
    workers.push(one);
    wait_until(&format!("it is settled after {boundary:?}"), || {
        is_settled(&place, stream)
    });

    let allowed = boundary.of(&step.runs);
    wait_until(&format!("it has run after {boundary:?}"), || {
        let runs: usize = workers.iter().map(|worker| worker.started().len()).sum();
        runs >= allowed
    });
    // What they said is complete then.
    workers.iter_mut().for_each(Process::kill);
    let mut runs: Vec<_> = workers.iter().flat_map(Process::started).collect();
    assert_eq!(runs.len(), allowed, "{boundary:?}: {runs:?}");
    let count = runs.len();
    runs.sort();
    runs.dedup();
    assert_eq!(
        runs.len(),
        count,
        "{boundary:?}: a delivery ran twice: {runs:?}"
    );
    assert_eq!(place.length(stream), 1, "{boundary:?}");
    let letters = place.letters(&format!("{stream}-dlq")).await;
    assert_eq!(
        letters.len(),
        boundary.of(&step.dead),
        "{boundary:?}: {letters:?}"
    );
    let is_unasked = |letter: &Letter| letter.get("x-reason") == "exhausted";
    assert!(
        step.stream == "once" || !letters.iter().any(is_unasked),
        "{letters:?}"
    );
}

macro_rules! at_every_boundary {
    ($($test:ident: $step:ident),* $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
        async fn $test() {
            for boundary in Boundary::ALL {
                break_at(&$step, boundary).await;
            }
        })*
    };
}

at_every_boundary![
    a_read: READ,
    a_read_without_retries: ONLY_READ,
    an_ack_without_retries: ONLY_ACK,
    an_ack: ACK,
    an_ack_before_the_run: ACK_FIRST,
    the_claim_of_a_retry: RETRY,
    the_touch_of_a_failed_run: RETRY_TOUCH,
    the_renewal_of_a_lease: RENEWAL,
    a_dead_letter: DEAD_LETTER,
    a_take_over: TAKE_OVER,
    a_hand_back: HAND_BACK,
    the_begin_of_a_key: BEGIN,
    the_renewal_of_a_key: KEEP,
    the_end_of_a_key: FINISH,
    a_key_that_is_let_go: ABANDON,
];

/// The claim of the last delivery was carried out, and its answer lost: it has not run, so it is not used up,
/// although others look for messages that are.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_claim_of_a_last_delivery_whose_answer_is_lost_is_not_charged() {
    for _ in 0..5 {
        let server = Server::start();
        let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
        let word = word(&place, "", script!("take"));
        add(&place, "jobs", "err,err,err,ok");
        let url = proxy.url();
        let one = Process::with(&place, "jobs", &[("REDIS_URL", &url)]);
        one.wait_for("end job 3");
        let others: Vec<_> = (0..3).map(|_| Process::start(&place, "jobs")).collect();
        proxy.lose_reply_of(&word);
        Boundary::ReplyLost.wait_for(&proxy);
        wait_until("it is settled", || is_settled(&place, "jobs"));
        assert_eq!(
            place.length("jobs-dlq"),
            0,
            "it is dead without its last run"
        );
        assert!(
            one.has_said("end job 4") || others.iter().any(|other| other.has_said("end job 4"))
        );
    }
}
