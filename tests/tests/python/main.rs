//! Python clients that know redis-py and the rules of the wire, and nothing of this crate: they share a
//! group with our workers, and each side reads and replays what the other wrote.

mod script;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rillkit::{Broker, HandlerError, Message, Running, State, handlers, subscribe};
use rillkit_servers::{Reply, Server, wait_until};
use rillkit_tests::Job;
use serde_json::{Value, json};

use crate::script::Script;

/// What ran here.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<Run>>>);

/// One run, here or there.
#[derive(Debug, Clone)]
struct Run {
    name: String,
    delivery: u64,
    /// In seconds since 1970, for gaps between the runs of two processes.
    began: f64,
    ended: f64,
    /// The names of the entry's fields; empty for runs in Python.
    fields: Vec<String>,
}

#[subscribe(
    stream = "jobs",
    group = "workers",
    max_retries = 2,
    claim_idle_ms = 600,
    backoff = 2.0
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    let began = now();
    let result = job.run(&msg).await;
    let name = |(name, _): (&[u8], &[u8])| String::from_utf8_lossy(name).into_owned();
    journal.lock().push(Run {
        name: job.name,
        delivery: msg.deliveries(),
        began,
        ended: now(),
        fields: msg.fields().iter().map(name).collect(),
    });
    result
}

fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("after 1970").as_secs_f64()
}

impl Journal {
    fn lock(&self) -> MutexGuard<'_, Vec<Run>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, name: &str) -> Vec<Run> {
        let mut runs = self.lock().clone();
        runs.retain(|run| run.name == name);
        runs
    }
}

impl From<&Value> for Run {
    fn from(said: &Value) -> Self {
        let seconds = |name: &str| said[name].as_f64().expect("seconds");
        Self {
            name: said["name"].as_str().expect("a name").to_owned(),
            delivery: said["delivery"].as_u64().expect("a number"),
            began: seconds("began"),
            ended: seconds("ended"),
            fields: Vec::new(),
        }
    }
}

/// A server, and what ran on our side of it.
struct Place {
    server: Server,
    broker: Broker,
    journal: Journal,
}

impl Place {
    fn new() -> Self {
        let (server, journal) = (Server::start(), Journal::default());
        let broker = Broker::connect(&server.url()).expect("a good URL");
        let broker = broker
            .with_handlers(handlers![handle])
            .with_state(journal.clone());
        Self {
            server,
            broker,
            journal,
        }
    }

    async fn start(&self) -> Running {
        self.broker.start().await.expect("started")
    }

    async fn publish(&self, name: &str, does: &str) -> String {
        let published = self.broker.publish("jobs", &Job::new(name, does)).await;
        published.expect("published").to_string()
    }

    /// A Python worker that ends after so many runs.
    fn python(&self, runs: usize) -> Script {
        let (url, runs) = (self.server.url(), runs.to_string());
        Script::start("worker.py", &[&url, "python", &runs])
    }

    fn letters(&self) -> Vec<Value> {
        Script::run("letters.py", &[&self.server.url()])
    }

    fn pending(&self) -> usize {
        let rows = ["XPENDING", "jobs", "workers", "-", "+", "1000"];
        self.server.command(&rows).list().len()
    }

    /// The names of the fields of the newest entry.
    fn newest_fields(&self) -> Vec<String> {
        let newest = ["XREVRANGE", "jobs", "+", "-", "COUNT", "1"];
        let flat = self.server.command(&newest)[0][1].list();
        flat.iter().step_by(2).map(Reply::text).collect()
    }
}

/// The delay after a failed delivery, in seconds.
fn delay(delivery: u64) -> f64 {
    0.6 * 2f64.powi(i32::try_from(delivery).expect("small") - 1)
}

/// Each delivery once, in order, and none before it was due.
#[track_caller]
fn assert_by_the_rules(runs: &mut [Run], deliveries: u64) {
    runs.sort_by_key(|run| run.delivery);
    let numbers: Vec<_> = runs.iter().map(|run| run.delivery).collect();
    assert_eq!(numbers, (1..=deliveries).collect::<Vec<_>>(), "{runs:?}");
    for pair in runs.windows(2) {
        let gap = pair[1].began - pair[0].ended;
        // The server counts from the hand-out of a short run, and its answer may have been on its way
        // for a while. Half of a delay is the one before.
        let least = delay(pair[0].delivery) * 0.7;
        assert!(gap >= least, "{gap} in {pair:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_worker_and_ours_share_a_group() {
    let place = Place::new();
    let running = place.start().await;
    let python = place.python(usize::MAX >> 1);
    let kinds = [("ok", 1), ("err,ok", 2), ("err,err,ok", 3), ("err", 3)];
    for round in 0..25 {
        for (does, _) in kinds {
            place.publish(&format!("{does} {round}"), does).await;
        }
        // New work for both, for a while.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    running.drained().await.expect("drained");
    assert_eq!(place.pending(), 0);
    running.stop().await;
    // Python tells of a run after it has settled it.
    let runs = 25 * kinds.iter().map(|(_, deliveries)| deliveries).sum::<u64>();
    wait_until("every run is told", || {
        (python.said().len() + place.journal.lock().len()) as u64 >= runs
    });

    let theirs: Vec<Run> = python.said().iter().map(Run::from).collect();
    let ours = place.journal.lock().clone();
    assert!(!theirs.is_empty() && !ours.is_empty());
    let all = [theirs, ours].concat();
    for round in 0..25 {
        for (does, deliveries) in kinds {
            let name = format!("{does} {round}");
            let mut runs = all.clone();
            runs.retain(|run| run.name == name);
            assert_by_the_rules(&mut runs, deliveries);
        }
    }
    let letters = place.letters();
    let mut dead: Vec<_> = letters
        .iter()
        .map(|letter| &letter["data"]["name"])
        .collect();
    dead.sort_by_key(|name| name.to_string());
    dead.dedup();
    assert_eq!((letters.len(), dead.len()), (25, 25));
    for letter in &letters {
        assert_eq!(letter["x-error"], "bad input");
        assert_eq!(letter["x-deliveries"], "3");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_on_one_side_goes_on_at_the_other_by_the_same_formula() {
    let place = Place::new();
    place.publish("job", "err").await;
    let first = place.python(1).end();
    let running = place.start().await;
    wait_until("it has failed here", || !place.journal.of("job").is_empty());
    running.stop().await;
    let third = place.python(1).end();

    let mut runs = place.journal.of("job");
    runs.extend(first.iter().chain(&third).map(Run::from));
    assert_by_the_rules(&mut runs, 3);
    assert_eq!(runs[1].fields, ["data"], "the second was ours");
    assert_eq!(place.pending(), 0);
    assert_eq!(place.letters()[0]["x-deliveries"], "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_reads_our_dead_letters() {
    let place = Place::new();
    let id = place.publish("job", "err").await;
    let running = place.start().await;
    running.drained().await.expect("drained");
    running.stop().await;
    let letters = place.letters();
    let letter = letters[0].as_object().expect("fields");
    assert_eq!(letters.len(), 1);
    for (name, value) in [
        ("data", json!({"name": "job", "does": "err"})),
        ("x-original-id", json!(id)),
        ("x-stream", json!("jobs")),
        ("x-group", json!("workers")),
        ("x-error", json!("bad input")),
        ("x-deliveries", json!("3")),
    ] {
        assert_eq!(letter[name], value, "{name}");
    }
    assert!(
        letter
            .keys()
            .all(|name| name == "data" || name.starts_with("x-"))
    );
    let attempts = letter["x-attempts"].as_array().expect("a list");
    let numbers: Vec<_> = attempts.iter().map(|attempt| &attempt["n"]).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_replays_our_dead_letters() {
    let place = Place::new();
    place.publish("job", "err,err,err,ok").await;
    let running = place.start().await;
    running.drained().await.expect("drained");
    assert_eq!(place.letters().len(), 1);
    assert_eq!(Script::run("replay.py", &[&place.server.url()]), [1]);
    assert_eq!(place.newest_fields(), ["data"]);
    running.drained().await.expect("drained");
    running.stop().await;
    let runs = place.journal.of("job");
    let deliveries: Vec<_> = runs.iter().map(|run| run.delivery).collect();
    assert_eq!(deliveries, [1, 2, 3, 1, 2, 3]);
    assert!(runs.iter().all(|run| run.fields == ["data"]));
    // The letter of the second end has each field once.
    let letters = place.server.command(&["XRANGE", "jobs-dlq", "-", "+"]);
    let mut names: Vec<_> = letters[0][1]
        .list()
        .iter()
        .step_by(2)
        .map(|name| name.text())
        .collect();
    assert_eq!(letters.list().len(), 1);
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_replay_the_dead_letters_that_python_wrote() {
    let place = Place::new();
    let id = place.publish("job", "err").await;
    place.python(3).end();
    assert_eq!(place.pending(), 0);
    let letters = place.letters();
    assert_eq!(letters[0]["x-original-id"], id);
    let seen = place.broker.dlq("jobs").list().await.expect("letters");
    let letter = &seen.letters[0];
    assert_eq!(letter.original_id().map(|id| id.to_string()), Some(id));
    assert_eq!(
        (letter.error(), letter.deliveries()),
        (Some("bad input"), Some(3))
    );
    assert_eq!((letter.reason(), letter.attempts()), (None, vec![]));

    assert_eq!(place.broker.replay_dlq("jobs").await, Ok(1));
    assert_eq!(place.letters(), [] as [Value; 0]);
    assert_eq!(place.newest_fields(), ["data", "rk-replays"]);
    let running = place.start().await;
    running.drained().await.expect("drained");
    running.stop().await;
    let runs = place.journal.of("job");
    let deliveries: Vec<_> = runs.iter().map(|run| run.delivery).collect();
    assert_eq!(deliveries, [1, 2, 3]);
    assert_eq!(runs[0].fields, ["data", "rk-replays"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_side_decodes_what_the_other_publishes() {
    let place = Place::new();
    let theirs = "grüße \u{1f680} \"quoted\"\n";
    let id = Script::run("publish.py", &[&place.server.url(), theirs, "ok"]);
    let running = place.start().await;
    running.drained().await.expect("drained");
    running.stop().await;
    let runs = place.journal.of(theirs);
    assert_eq!((runs.len(), runs[0].delivery), (1, 1));
    assert!(id[0].is_string());

    let ours = "größe \u{1f389} \\ \u{7} \"quoted\"";
    place.publish(ours, "ok").await;
    let said = place.python(1).end();
    assert_eq!(said[0]["name"], ours);
    assert_eq!(
        (&said[0]["delivery"], &said[0]["error"]),
        (&json!(1), &json!(null))
    );
    assert_eq!(place.pending(), 0);
}
