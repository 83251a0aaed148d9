//! Handlers whose acks delete.

use rillkit::{Broker, ErrorKind, HandlerError, Message, State, Tx, handlers, subscribe};
use rillkit_servers::{Server, wait_until};
use rillkit_tests::Job;

use crate::lines::Lines;
use crate::place::{Journal, Place, act, on_both_stores, until};
use crate::process::Process;

#[subscribe(
    stream = "jobs",
    group = "workers",
    claim_idle_ms = 200,
    max_retries = 1,
    concurrency = 4,
    delete_on_ack = true
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(stream = "always", group = "workers", ack_policy = ack_always, delete_on_ack = true)]
async fn ack_always(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(stream = "first", group = "workers", ack_policy = ack_first, delete_on_ack = true)]
async fn ack_first(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(stream = "jobs", group = "workers", claim_idle_ms = 200, delete_on_ack = even_with_other_groups)]
async fn handle_even_so(
    job: Job,
    msg: Message,
    journal: State<Journal>,
) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(
    stream = "counted",
    group = "workers",
    claim_idle_ms = 200,
    delete_on_ack = true
)]
async fn count(
    job: Job,
    msg: Message,
    tx: Tx,
    journal: State<Journal>,
) -> Result<(), HandlerError> {
    tx.incr_by("runs", 1);
    act(job, msg, journal).await
}

#[subscribe(stream = "jobs", group = "audit")]
async fn audit(_job: Job) {}

on_both_stores![
    nothing_that_has_ended_stays_on_the_stream,
    a_stream_with_other_groups_is_refused_unless_told,
    what_is_meant_for_another_group_stays,
    what_is_acked_with_its_effects_goes_too,
];

async fn left(broker: &Broker, stream: &str) -> u64 {
    let look = broker.trim(stream).even_without_groups().dry_run();
    let look = look.await.expect("looked at");
    look.removed + look.left
}

async fn nothing_that_has_ended_stays_on_the_stream(place: Place) {
    let broker = place.worker(handlers![handle, ack_always, ack_first]);
    let running = broker.start().await.expect("started");
    for (stream, prefix) in [("jobs", "quick"), ("always", "a"), ("first", "f")] {
        place.publish_many(stream, prefix, 300, "ok").await;
    }
    // Longer than half a lease, so that the ack is fenced.
    for does in [
        "err,ok",
        "err",
        "reject",
        "ack_now",
        "sleep:150",
        "panic,sleep:1",
        "nack,ack",
    ] {
        place.publish("jobs", does, does).await;
    }
    for does in ["err", "ack_now+err", "reject"] {
        place.publish("always", does, does).await;
        place.publish("first", does, does).await;
    }
    broker
        .publish_fields("jobs", [("data", "no JSON")])
        .await
        .expect("published");
    let many = (0..4_000).map(|number| (format!("f{number}"), "v"));
    broker
        .publish_fields("jobs", many)
        .await
        .expect("published");
    running.drained().await.expect("drained");
    for stream in ["jobs", "always", "first"] {
        assert_eq!(left(&broker, stream).await, 0, "{stream}");
    }
    running.stop().await;
    let dead: Vec<_> = place.letters("jobs-dlq").await;
    let mut reasons: Vec<_> = dead.iter().map(|letter| letter.get("x-reason")).collect();
    reasons.sort();
    assert_eq!(reasons, ["decode", "decode", "error", "rejected"]);
    assert_eq!(place.journal.deliveries("err,ok"), [1, 2]);
    place.journal.assert_once_each("quick", 300);
}

async fn a_stream_with_other_groups_is_refused_unless_told(place: Place) {
    let both = place.worker(handlers![handle, audit]).start().await;
    let error = both.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Handlers);
    for words in [
        "`audit`",
        "delete_on_ack.rs:",
        "stream `jobs`",
        "even_with_other_groups",
        "broker.trim",
    ] {
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
    // Another program's group.
    place
        .worker(handlers![audit])
        .start()
        .await
        .expect("started")
        .stop()
        .await;
    let alone = place.worker(handlers![handle]);
    let again = alone.start().await.expect_err("refused");
    assert_eq!(
        (again.kind(), again.to_string()),
        (error.kind(), error.to_string())
    );
    let groups = alone
        .trim("jobs")
        .dry_run()
        .await
        .expect("looked at")
        .groups;
    // In process the report of an empty stream has no groups.
    assert!(groups <= 1, "a refused start leaves no group behind");
    let told = place.worker(handlers![handle_even_so, audit]);
    let running = told.start().await.expect("started");
    place.publish("jobs", "one", "ok").await;
    running.drained().await.expect("drained");
    assert_eq!(left(&told, "jobs").await, 0);
    running.stop().await;
}

async fn what_is_meant_for_another_group_stays(place: Place) {
    let broker = place.worker(handlers![handle_even_so]);
    let running = broker.start().await.expect("started");
    let body = serde_json::to_string(&Job::new("other", "ok")).expect("JSON");
    let fields = [("data", body.as_str()), ("rk-for-group", "audit")];
    broker
        .publish_fields("jobs", fields)
        .await
        .expect("published");
    place.publish("jobs", "ours", "ok").await;
    running.drained().await.expect("drained");
    assert_eq!(left(&broker, "jobs").await, 1);
    assert!(place.journal.runs("other").is_empty());
    running.stop().await;
}

async fn what_is_acked_with_its_effects_goes_too(place: Place) {
    let broker = place.worker(handlers![count]);
    let running = broker.start().await.expect("started");
    for does in ["ok", "err,ok", "reject"] {
        place.publish("counted", does, does).await;
    }
    running.drained().await.expect("drained");
    assert_eq!(broker.peek("runs").await.expect("looked at"), ["2"]);
    assert_eq!(left(&broker, "counted").await, 0);
    running.stop().await;
}

/// Every entry that is still there is unread or pending.
#[track_caller]
fn assert_nothing_acked_is_left(place: &Place, stream: &str) {
    let pending = place.pending(stream, "workers").len();
    let group = place.ask(&["XINFO", "GROUPS", stream])[0].list();
    let mut fields = group.chunks(2);
    let last = fields.find(|field| field[0].text() == "last-delivered-id");
    let last = last.expect("a position")[1].text();
    let read = place.ask(&["XRANGE", stream, "-", &last]).list().len();
    assert_eq!(read, pending);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_worker_that_is_killed_leaves_nothing_acked_behind() {
    let place = Place::redis();
    place.publish_many("deleted", "job", 1000, "sleep:1").await;
    for ended in [150, 350] {
        let mut worker = Process::start(&place, "deleted");
        wait_until("some have run", || worker.ended().len() >= ended);
        worker.kill();
        assert!(
            !place.pending("deleted", "workers").is_empty(),
            "it was killed in the middle"
        );
        assert_nothing_acked_is_left(&place, "deleted");
    }
    let mut last = Process::start(&place, "deleted");
    wait_until("everything is handled", || place.length("deleted") == 0);
    assert_eq!(place.pending("deleted", "workers"), []);
    last.kill();
    assert_eq!(place.length("deleted-dlq"), 0);
}

#[tokio::test]
async fn what_a_deleting_handler_needs_is_named_at_the_start() {
    let server = Server::start();
    let place = Place::on(&server);
    for (missing, named) in [("-xdel", "`XDEL` on `jobs`"), ("-xinfo", "xinfo")] {
        place.ask(&["ACL", "SETUSER", "default", "+@all", missing]);
        let started = place.worker(handlers![handle]).start().await;
        let error = started.expect_err(missing);
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains(named), "{error}");
        let keeps = place.worker(handlers![audit]).start().await;
        keeps.expect("started").stop().await;
        place.ask(&["ACL", "SETUSER", "default", "+@all"]);
        place.ask(&["DEL", "jobs"]);
    }
}

/// An ack that does not reach the server is repeated, and deletes then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ack_that_is_refused_for_a_while_deletes_in_the_end() {
    let server = Server::start();
    let place = Place::on(&server);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "warm", "ok").await;
    running.drained().await.expect("drained");
    place.ask(&["ACL", "SETUSER", "default", "-xack"]);
    place.publish("jobs", "one", "ok").await;
    until("it cannot be acked", || {
        running.health().handlers[0].last_error.is_some()
    })
    .await;
    assert_eq!(place.length("jobs"), 1);
    place.ask(&["ACL", "SETUSER", "default", "+xack"]);
    until("it is gone", || place.length("jobs") == 0).await;
    running.drained().await.expect("drained");
    running.stop().await;
}

#[tokio::test]
async fn a_group_that_comes_later_is_warned_about_once() {
    let (place, lines) = (Place::redis(), Lines::listen());
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.ask(&["XGROUP", "CREATE", "jobs", "late", "0"]);
    until("it is said", || !lines.with(" WARN ").is_empty()).await;
    // Handled meanwhile, and looked at again.
    place.publish("jobs", "one", "later:1000,ok").await;
    running.drained().await.expect("drained");
    running.stop().await;
    let said = lines.with("`late`");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("would delete messages of stream `jobs`"),
        "{said:?}"
    );
    assert_eq!(place.length("jobs"), 0);
}
