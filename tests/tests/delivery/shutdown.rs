//! Stops: by signal, by call, with the server gone, and with runs that do not end.

use std::time::Duration;

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::{Server, wait_until};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, on_both_stores, until};
use crate::process::Process;

#[subscribe(stream = "jobs", group = "workers", concurrency = 4)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

/// One fails and waits three seconds for its retry, quick ones make the worker read ahead, a slow one holds
/// it up, and others stand behind it.
async fn busy(place: &Place) -> Process {
    place.publish("deploy", "waiting", "err,ok").await;
    place.publish_many("deploy", "before", 100, "ok").await;
    place.publish("deploy", "slow", "sleep:700").await;
    place.publish_many("deploy", "behind", 50, "ok").await;
    let worker = Process::start(place, "deploy");
    worker.wait_for("start slow 1");
    worker
}

#[tokio::test]
async fn at_a_signal_the_running_one_ends_and_the_rest_is_handed_back() {
    let place = Place::redis();
    let mut one = busy(&place).await;
    one.signal("TERM");
    assert!(one.wait().success());
    assert!(one.has_said("end slow 1"));
    let pending = place.pending("deploy", "workers");
    let counts: Vec<_> = pending
        .iter()
        .map(|(_, _, deliveries)| *deliveries)
        .collect();
    // Only the waiting one was ever run; nothing more was started after the signal.
    assert_eq!(counts.iter().sum::<i64>(), 1, "{pending:?}");
    assert_eq!(one.started().len(), 102);
    let consumers = place
        .ask(&["XINFO", "CONSUMERS", "deploy", "workers"])
        .list();
    assert!(
        consumers.len() <= 1,
        "the worker's own consumer is gone: {consumers:?}"
    );

    let other = Process::start(&place, "deploy");
    wait_until("the rest is handled", || other.ended().len() == 51);
    for (name, delivery) in other.started() {
        assert_eq!(delivery, if name == "waiting" { 2 } else { 1 }, "{name}");
    }
    wait_until("all is acked", || {
        place.pending("deploy", "workers").is_empty()
    });
    assert_eq!(place.length("deploy-dlq"), 0);
}

#[tokio::test]
async fn after_a_kill_nothing_is_dead_that_was_never_run() {
    let place = Place::redis();
    let mut one = busy(&place).await;
    one.kill();
    let other = Process::start(&place, "deploy");
    wait_until("the rest is handled", || {
        other.has_said("end slow 2") && other.ended().len() >= 52
    });
    wait_until("all is acked", || {
        place.pending("deploy", "workers").is_empty()
    });
    assert_eq!(place.length("deploy-dlq"), 0);
    let behind = other
        .ended()
        .iter()
        .filter(|(name, _)| name.starts_with("behind"))
        .count();
    assert_eq!(behind, 50);
}

#[tokio::test]
async fn a_run_that_outlasts_the_grace_is_handed_back_uncharged() {
    let place = Place::redis();
    let mut one = Process::with(&place, "deploy", &[("GRACE_MS", "300")]);
    place.publish("deploy", "job", "sleep:15000").await;
    one.wait_for("start job 1");
    one.signal("INT");
    assert!(one.wait().success());
    assert!(!one.has_said("end job 1"));
    let other = Process::start(&place, "deploy");
    other.wait_for("start job 1");
    let pending = place.pending("deploy", "workers");
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0].2, 1);
    assert_eq!(place.length("deploy-dlq"), 0);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let place = Place::redis();
    let mut worker = Process::start(&place, "deploy");
    place.publish("deploy", "job", "hang").await;
    worker.wait_for("start job 1");
    worker.signal("TERM");
    // Two signals that are pending together are one.
    wait_until("the second signal ends it", || {
        if worker.has_ended() {
            return true;
        }
        worker.signal("INT");
        std::thread::sleep(Duration::from_millis(50));
        false
    });
    assert_eq!(worker.wait().code(), Some(130));
    assert!(!worker.has_said("end job 1"));
    let pending = place.pending("deploy", "workers");
    assert_eq!(pending.len(), 1, "others find it when the lease is over");
}

#[tokio::test]
async fn a_signal_ends_the_wait_for_a_server() {
    let server = Server::start();
    let place = Place::on(&server);
    server.stop();
    let mut worker = Process::start(&place, "deploy");
    // It listens to signals before anything else can be seen of it.
    wait_until("the signal ends it", || {
        worker.has_ended() || {
            worker.signal("TERM");
            std::thread::sleep(Duration::from_millis(50));
            false
        }
    });
    let status = worker.wait();
    assert!(status.success() || status.code().is_none(), "{status}");
}

on_both_stores![stopping_hands_back_and_ends];

async fn stopping_hands_back_and_ends(place: Place) {
    let broker = place
        .worker(handlers![handle])
        .grace(Duration::from_millis(200));
    let running = broker.start().await.expect("started");
    place.publish("jobs", "long", "hang,hang,hang").await;
    place.publish("jobs", "short", "sleep:100").await;
    until("both run", || place.journal.all().len() == 2).await;
    running.stop().await;
    assert!(
        place.journal.all().iter().all(|run| run.end.is_some()),
        "no handler runs"
    );

    let running = broker.start().await.expect("started again");
    until("it runs again", || place.journal.runs("long").len() == 2).await;
    assert_eq!(place.journal.deliveries("long"), [1, 1]);
    assert_eq!(place.journal.deliveries("short"), [1]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_without_a_server_returns() {
    let server = Server::start();
    let place = Place::on(&server);
    let broker = place
        .worker(handlers![handle])
        .grace(Duration::from_millis(300));
    let running = broker.start().await.expect("started");
    place.publish("jobs", "long", "hang").await;
    place.publish("jobs", "short", "sleep:100").await;
    until("both run", || place.journal.all().len() == 2).await;
    server.stop();
    let stop = tokio::time::timeout(Duration::from_secs(15), running.stop());
    stop.await.expect("it returns");
    assert!(
        place.journal.all().iter().all(|run| run.end.is_some()),
        "no handler runs"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_stop_nothing_is_sent_to_the_server() {
    let server = Server::start();
    let place = Place::on(&server);
    let broker = place.worker(handlers![handle]);
    let running = broker.start().await.expect("started");
    place.publish_many("jobs", "job", 50, "sleep:10").await;
    until("some run", || place.journal.ended() > 10).await;
    running.stop().await;
    let runs = place.journal.all().len();

    let mut monitor = server.connect();
    assert_eq!(
        monitor.command(&["MONITOR"]).expect("an answer").text(),
        "OK"
    );
    // Absence can only be looked for during some time.
    tokio::time::sleep(Duration::from_millis(700)).await;
    server.command(&["PING", "the end"]);
    let mut seen = Vec::new();
    while !seen
        .last()
        .is_some_and(|line: &String| line.contains("the end"))
    {
        seen.push(monitor.receive().expect("a line").text());
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(place.journal.all().len(), runs);
    let consumers = place.ask(&["XINFO", "CONSUMERS", "jobs", "workers"]).list();
    assert!(consumers.len() <= 1, "{consumers:?}");
    let pending = place.pending("jobs", "workers");
    assert!(
        pending.iter().all(|(_, _, deliveries)| *deliveries == 0),
        "{pending:?}"
    );
    drop(broker);
}
