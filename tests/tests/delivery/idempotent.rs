//! Idempotent handlers: of the messages with one key, one run is done, and never are there two at a time.

use std::time::Duration;

use rillkit::{HandlerError, Message, Running, State, Tx, handlers, subscribe};
use rillkit_servers::{Server, wait_until};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, on_both_stores, until};
use crate::process::Process;

#[rustfmt::skip]
macro_rules! handler {
    ($name:ident, $stream:literal $(, $key:ident = $value:expr)*) => {
        #[subscribe(
            stream = $stream,
            group = "workers",
            dlq = "dead",
            claim_idle_ms = 300,
            $($key = $value),*
        )]
        async fn $name(
            job: Job,
            msg: Message,
            journal: State<Journal>,
        ) -> Result<(), HandlerError> {
            act(job, msg, journal).await
        }
    };
}
handler!(handle, "jobs", concurrency = 4, idempotent = true);
handler!(single, "single", idempotent = true);
handler!(by_name, "by_name", concurrency = 4, idempotent = name);
handler!(
    only_once,
    "only_once",
    max_retries = 0,
    concurrency = 2,
    idempotent = true
);
handler!(
    short,
    "short",
    concurrency = 4,
    idempotent = true,
    idempotent_for_ms = 1500
);
handler!(
    too_short,
    "too_short",
    max_retries = 4,
    idempotent = true,
    idempotent_for_ms = 1499
);

fn name(job: &Job) -> &str {
    &job.name
}

#[subscribe(
    stream = "ack_first",
    group = "workers",
    ack_policy = ack_first,
    concurrency = 4,
    idempotent
)]
async fn acked_first(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(
    stream = "ack_always",
    group = "workers",
    ack_policy = ack_always,
    idempotent
)]
async fn acked_always(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(
    stream = "manual",
    group = "workers",
    ack_policy = manual,
    claim_idle_ms = 300,
    idempotent
)]
async fn by_marks(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(
    stream = "counted",
    group = "workers",
    claim_idle_ms = 300,
    max_retries = 1,
    concurrency = 4,
    idempotent
)]
async fn counted(
    job: Job,
    msg: Message,
    tx: Tx,
    journal: State<Journal>,
) -> Result<(), HandlerError> {
    tx.rpush("done", &job.name);
    if job.name == "bad" {
        // The list is no number.
        tx.incr_by("done", 1);
    }
    act(job, msg, journal).await
}

/// Publishes a job with this `rk-id`.
async fn publish(place: &Place, stream: &'static str, key: &str, name: &str, does: &str) -> String {
    let body = serde_json::to_string(&Job::new(name, does)).expect("JSON");
    let fields = [("data", body.as_str()), ("rk-id", key)];
    let published = place.broker.publish_fields(stream, fields).await;
    published.expect("published").to_string()
}

fn duplicates(running: &Running) -> u64 {
    let handlers = running.health().handlers;
    handlers.iter().map(|handler| handler.duplicates).sum()
}

/// No two runs overlap.
#[track_caller]
fn assert_one_at_a_time(journal: &Journal) {
    let runs = journal.all();
    for pair in runs.windows(2) {
        let end = pair[0].end.expect("an ended run");
        assert!(end <= pair[1].start, "two at a time: {runs:?}");
    }
}

on_both_stores![
    a_hundred_duplicates_run_once,
    a_failed_run_lets_another_message_run,
    every_key_runs_by_itself,
    a_key_is_made_of_the_body,
    what_is_acked_is_done_by_every_policy,
    a_dead_letter_that_is_replayed_runs,
    a_key_is_done_for_its_lifetime,
    a_duplicate_waits_without_retries_too,
    a_message_that_waits_is_handed_back_uncharged,
    a_lifetime_below_the_redeliveries_is_refused,
];

async fn a_hundred_duplicates_run_once(place: Place) {
    let mut workers = Vec::new();
    for _ in 0..2 {
        let worker = place.worker(handlers![handle]).start().await;
        workers.push(worker.expect("started"));
    }
    for number in 0..100 {
        publish(&place, "jobs", "k", &format!("job{number}"), "sleep:100").await;
    }
    workers[0].drained().await.expect("drained");
    // And later.
    publish(&place, "jobs", "k", "later", "ok").await;
    workers[0].drained().await.expect("drained");
    assert_eq!(place.journal.all().len(), 1);
    assert_eq!(workers.iter().map(duplicates).sum::<u64>(), 100);
    for worker in workers {
        worker.stop().await;
    }
    assert!(place.letters("dead").await.is_empty());
}

async fn a_failed_run_lets_another_message_run(place: Place) {
    let running = place.worker(handlers![handle]).start().await;
    let running = running.expect("started");
    publish(&place, "jobs", "k", "one", "sleep:50+err,sleep:50+ok").await;
    publish(&place, "jobs", "k", "other", "sleep:50+err,sleep:50+ok").await;
    running.drained().await.expect("drained");
    assert_one_at_a_time(&place.journal);
    // Both fail once, and the first retry is good.
    let deliveries: Vec<_> = place.journal.all().iter().map(|run| run.delivery).collect();
    assert_eq!(deliveries, [1, 1, 2]);
    assert_eq!(duplicates(&running), 1);
    running.stop().await;
}

async fn every_key_runs_by_itself(place: Place) {
    let running = place.worker(handlers![handle]).start().await;
    let running = running.expect("started");
    for number in 0..200 {
        let key = format!("k{number}");
        publish(&place, "jobs", &key, &format!("job{number}"), "ok").await;
        // Without a key each entry is its own.
        place.publish("jobs", &format!("free{number}"), "ok").await;
    }
    running.drained().await.expect("drained");
    place.journal.assert_once_each("job", 200);
    place.journal.assert_once_each("free", 200);
    assert_eq!(duplicates(&running), 0);
    running.stop().await;
}

async fn a_key_is_made_of_the_body(place: Place) {
    let running = place.worker(handlers![by_name]).start().await;
    let running = running.expect("started");
    for key in ["a", "b", "c"] {
        publish(&place, "by_name", key, "job", "sleep:20").await;
        publish(&place, "by_name", "one", key, "sleep:20").await;
    }
    publish(&place, "by_name", "d", "", "ok").await;
    running.drained().await.expect("drained");
    for (name, runs) in [("job", 1), ("a", 1), ("b", 1), ("c", 1), ("", 0)] {
        assert_eq!(place.journal.runs(name).len(), runs, "{name}");
    }
    running.stop().await;
    let letters = place.letters("dead").await;
    assert_eq!(letters.len(), 1);
    let error = "the body's idempotency key is empty";
    assert_eq!(letters[0].get("x-error"), error);
}

async fn what_is_acked_is_done_by_every_policy(place: Place) {
    let handlers = handlers![acked_first, acked_always, by_marks, handle];
    let running = place.worker(handlers).start().await.expect("started");
    for (stream, does) in [
        ("ack_first", "sleep:50+err"),
        ("ack_always", "err"),
        ("manual", "ack"),
        ("jobs", "ack_now+err"),
    ] {
        for number in 0..3 {
            publish(&place, stream, "k", &format!("{stream}{number}"), does).await;
        }
    }
    running.drained().await.expect("drained");
    let mut streams: Vec<_> = place
        .journal
        .all()
        .into_iter()
        .map(|run| run.name)
        .collect();
    for name in &mut streams {
        name.pop();
    }
    streams.sort();
    assert_eq!(streams, ["ack_always", "ack_first", "jobs", "manual"]);
    assert_eq!(duplicates(&running), 8);
    running.stop().await;
}

async fn a_dead_letter_that_is_replayed_runs(place: Place) {
    let running = place.worker(handlers![handle]).start().await;
    let running = running.expect("started");
    publish(&place, "jobs", "k", "job", "reject").await;
    running.drained().await.expect("drained");
    let replayed = running_replay(&place).await;
    assert_eq!(replayed, 1);
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("job"), [1, 1]);
    assert_eq!(duplicates(&running), 0);
    running.stop().await;
}

async fn running_replay(place: &Place) -> usize {
    let broker = place.worker(handlers![handle]);
    broker.replay_dlq("jobs").await.expect("replayed")
}

async fn a_key_is_done_for_its_lifetime(place: Place) {
    let running = place.worker(handlers![short]).start().await;
    let running = running.expect("started");
    publish(&place, "short", "k", "one", "ok").await;
    running.drained().await.expect("drained");
    let done = tokio::time::Instant::now();
    let mut number = 0;
    while place.journal.all().len() < 2 {
        number += 1;
        publish(&place, "short", "k", &format!("job{number}"), "ok").await;
        running.drained().await.expect("drained");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The marker is a little older than what was seen of it.
    assert!(done.elapsed() >= Duration::from_millis(1300));
    assert!(number > 1);
    running.stop().await;
}

async fn a_duplicate_waits_without_retries_too(place: Place) {
    let running = place.worker(handlers![only_once]).start().await;
    let running = running.expect("started");
    publish(&place, "only_once", "k", "one", "sleep:1000").await;
    publish(&place, "only_once", "k", "other", "ok").await;
    running.drained().await.expect("drained");
    assert_eq!(place.journal.all().len(), 1);
    assert_eq!(duplicates(&running), 1);
    running.stop().await;
    assert!(place.letters("dead").await.is_empty());
}

async fn a_message_that_waits_is_handed_back_uncharged(place: Place) {
    let first = place.worker(handlers![single]).start().await;
    let first = first.expect("started");
    publish(&place, "single", "k", "one", "sleep:5000+err,sleep:50").await;
    until("it runs", || !place.journal.all().is_empty()).await;
    let second = place.worker(handlers![single]).start().await;
    let second = second.expect("started");
    publish(&place, "single", "k", "other", "sleep:50").await;
    until("it is in hand", || second.health().handlers[0].in_hand == 1).await;
    second.stop().await;
    let third = place.worker(handlers![single]).start().await;
    let third = third.expect("started");
    third.drained().await.expect("drained");
    assert_one_at_a_time(&place.journal);
    // Whoever of the two is good first; the other does not run any more.
    let runs = place.journal.all();
    assert_eq!(runs.len(), 2, "{runs:?}");
    let other = place.journal.deliveries("other");
    assert!(other.is_empty() || other == [1], "{runs:?}");
    first.stop().await;
    third.stop().await;
}

async fn a_lifetime_below_the_redeliveries_is_refused(place: Place) {
    let started = place.worker(handlers![too_short]).start().await;
    let error = started.expect_err("refused").to_string();
    assert!(
        error.contains("`idempotent_for_ms`")
            && error.contains("1499")
            && error.contains("1500 ms"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_of_what_is_in_progress_is_charged_no_delivery() {
    let place = Place::redis();
    let start = async || place.worker(handlers![single]).start().await;
    let (one, other) = (
        start().await.expect("started"),
        start().await.expect("started"),
    );
    let first = publish(&place, "single", "k", "first", "sleep:2000").await;
    until("it runs", || !place.journal.all().is_empty()).await;
    let second = publish(&place, "single", "k", "second", "ok").await;
    until("both are pending", || {
        place.pending("single", "workers").len() == 2
    })
    .await;
    // For many leases, whose marker is kept as well.
    let marker = "rk:{single}:once:workers:k";
    while place.journal.ended() == 0 {
        for (id, _, deliveries) in place.pending("single", "workers") {
            assert!(id == first || id == second);
            assert_eq!(deliveries, 1, "{id}");
        }
        let says = place.ask(&["GET", marker]).text();
        assert!(says.starts_with(&format!("run {first} 1 ")), "{says}");
        assert!((1..=300).contains(&place.ask(&["PTTL", marker]).int()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    one.drained().await.expect("drained");
    assert_eq!(place.journal.all().len(), 1);
    assert_eq!(place.ask(&["GET", marker]).text(), format!("done {first}"));
    let left = place.ask(&["PTTL", marker]).int();
    assert!((86_000_000..=86_400_000).contains(&left), "{left}");
    one.stop().await;
    other.stop().await;
}

/// The server answers, and has no room for a marker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_marked_does_not_run() {
    let server = Server::start();
    let place = Place::on(&server);
    let start = async || place.worker(handlers![single]).start().await;
    let running = start().await.expect("started");
    let other = start().await.expect("started");
    publish(&place, "single", "first", "first", "sleep:500").await;
    until("it runs", || !place.journal.all().is_empty()).await;
    for number in 0..20 {
        let name = format!("job{number}");
        publish(&place, "single", &name, &name, "ok").await;
    }
    place.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    until("the first has ended", || {
        place.journal.runs("first")[0].end.is_some()
    })
    .await;
    let ran = place.journal.all().len();
    // For many leases.
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        let pending = place.pending("single", "workers");
        assert!(pending.len() > 1, "nothing is acked, and more is read");
        let charged = pending.iter().find(|(_, _, deliveries)| *deliveries > 1);
        assert_eq!(charged, None);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(place.journal.all().len(), ran, "nothing has run");
    place.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("first"), [1]);
    place.journal.assert_once_each("job", 20);
    running.stop().await;
    other.stop().await;
}

/// No waiting cures it, and the others need not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_marker_that_cannot_be_read_holds_up_nobody_else() {
    let place = Place::redis();
    let running = place.worker(handlers![single]).start().await;
    let running = running.expect("started");
    let marker = "rk:{single}:once:workers:bad";
    place.ask(&["RPUSH", marker, "a list"]);
    let id = publish(&place, "single", "bad", "bad", "ok").await;
    for number in 0..20 {
        let name = format!("job{number}");
        publish(&place, "single", &name, &name, "ok").await;
    }
    until("the others have run", || place.journal.ended() == 20).await;
    until("they are acked", || {
        place.pending("single", "workers").len() == 1
    })
    .await;
    let pending = place.pending("single", "workers");
    assert_eq!((&pending[0].0, pending[0].2), (&id, 1));
    let error = running.health().handlers[0].last_error.clone();
    assert!(error.expect("an error").0.contains("WRONGTYPE"));
    place.ask(&["DEL", marker]);
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("bad"), [1]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_run_whose_worker_was_killed_is_taken_over() {
    let place = Place::redis();
    let mut one = Process::start(&place, "idempotent");
    publish(&place, "idempotent", "k", "job", "sleep:60000,sleep:500").await;
    one.wait_for("start job 1");
    one.kill();
    let other = Process::start(&place, "idempotent");
    other.wait_for("start job 2");
    for number in 0..5 {
        publish(&place, "idempotent", "k", &format!("again{number}"), "ok").await;
    }
    wait_until("all is acked", || {
        other.has_said("end job 2") && place.pending("idempotent", "workers").is_empty()
    });
    assert_eq!(other.started(), [("job".to_owned(), 2)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn of_many_messages_of_a_killed_worker_one_of_each_key_is_done() {
    let place = Place::redis();
    let mut one = Process::start(&place, "idempotent");
    for number in 0..200 {
        let key = format!("k{}", number % 50);
        publish(&place, "idempotent", &key, &key, "sleep:20").await;
    }
    wait_until("some have run", || one.ended().len() >= 10);
    one.kill();
    let other = Process::start(&place, "idempotent");
    wait_until("all is acked", || {
        let group = place.ask(&["XINFO", "GROUPS", "idempotent"])[0].list();
        let last = place.ask(&["XREVRANGE", "idempotent", "+", "-", "COUNT", "1"])[0][0].clone();
        group.contains(&last) && place.pending("idempotent", "workers").is_empty()
    });
    let mut ended = [one.ended(), other.ended()].concat();
    ended.sort();
    let all = ended.len();
    ended.dedup_by_key(|(name, _)| name.clone());
    assert_eq!(ended.len(), 50);
    // Of the two that were acked as the process ended, nobody knows.
    assert!(all <= 52, "{all} runs have ended");
}

/// Frozen for longer than its lease, its message is another's, and so is the key. What it does when it
/// wakes counts for nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_worker_that_was_frozen_does_not_run_a_key_that_is_done() {
    let place = Place::redis();
    let one = Process::start(&place, "idempotent");
    publish(&place, "idempotent", "k", "job", "sleep:1000+err,sleep:500").await;
    one.wait_for("start job 1");
    one.freeze();
    let other = Process::start(&place, "idempotent");
    other.wait_for("start job 2");
    one.signal("CONT");
    for number in 0..5 {
        publish(&place, "idempotent", "k", &format!("again{number}"), "ok").await;
    }
    other.wait_for("end job 2");
    wait_until("all is acked", || {
        place.pending("idempotent", "workers").is_empty()
    });
    assert_eq!(one.started(), [("job".to_owned(), 1)]);
    assert_eq!(other.started(), [("job".to_owned(), 2)]);
    let marker = place.ask(&["GET", "rk:{idempotent}:once:workers:k"]);
    assert!(marker.text().starts_with("done "));
}

/// The commands, the key and the ack are one step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_done_together_with_the_commands_of_its_run() {
    let place = Place::redis();
    let mut workers = Vec::new();
    for _ in 0..2 {
        let worker = place.worker(handlers![counted]).start().await;
        workers.push(worker.expect("started"));
    }
    for number in 0..50 {
        let (key, name) = (format!("k{}", number % 10), format!("job{number}"));
        publish(&place, "counted", &key, &name, "sleep:20+err,sleep:20").await;
    }
    workers[0].drained().await.expect("drained");
    assert_eq!(place.ask(&["LLEN", "done"]).int(), 10);
    assert_eq!(workers.iter().map(duplicates).sum::<u64>(), 40);
    let marker = place.ask(&["GET", "rk:{counted}:once:workers:k0"]);
    assert!(marker.text().starts_with("done "));

    // Commands that cannot be applied end in the DLQ, and let go of their key.
    publish(&place, "counted", "bad", "bad", "ok").await;
    workers[0].drained().await.expect("drained");
    assert_eq!(place.length("counted-dlq"), 1);
    assert!(
        place
            .ask(&["GET", "rk:{counted}:once:workers:bad"])
            .is_nil()
    );
    publish(&place, "counted", "bad", "good", "ok").await;
    workers[0].drained().await.expect("drained");
    assert_eq!(place.journal.runs("good").len(), 1);
    for worker in workers {
        worker.stop().await;
    }
}
