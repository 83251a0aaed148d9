//! Lost replies and forgotten scripts: nothing is lost, and nothing is dead that should not be.

use std::time::Duration;

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::{Proxy, Server};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, until};

#[subscribe(
    stream = "jobs",
    group = "workers",
    claim_idle_ms = 300,
    block_ms = 500,
    concurrency = 2
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(
    stream = "first",
    group = "workers",
    dlq = "dead",
    claim_idle_ms = 500,
    ack_policy = ack_first
)]
async fn at_most_once(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

/// Loses one reply of `command` while there is work, and waits until everything is handled.
async fn lose(command: &str, does: &str) -> (Server, Place) {
    let server = Server::start();
    let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
    let broker = place.worker_at(&proxy.url(), handlers![handle]);
    let running = broker.start().await.expect("started");
    for round in 0..3 {
        proxy.lose_reply_of(command);
        let prefix = format!("round{round}-");
        place.publish_many("jobs", &prefix, 20, does).await;
        until("a reply is lost", || proxy.lost_replies() > round).await;
        until("all have run", || {
            let fresh = |number| !place.journal.runs(&format!("{prefix}{number}")).is_empty();
            (0..20).all(fresh) && place.pending("jobs", "workers").is_empty()
        })
        .await;
    }
    running.stop().await;
    (server, place)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_of_a_read_costs_no_delivery() {
    let (_server, place) = lose("XREADGROUP", "sleep:5").await;
    for round in 0..3 {
        place
            .journal
            .assert_once_each(&format!("round{round}-"), 20);
    }
    assert_eq!(place.length("jobs-dlq"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_of_an_ack_repeats_nothing() {
    let (_server, place) = lose("XACK", "sleep:5").await;
    for round in 0..3 {
        place
            .journal
            .assert_once_each(&format!("round{round}-"), 20);
    }
    assert_eq!(place.length("jobs-dlq"), 0);
}

/// A script is a claim here; one whose reply is lost was counted and not run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_of_a_claim_loses_nothing() {
    let (_server, place) = lose("EVALSHA", "err,ok").await;
    for round in 0..3 {
        for number in 0..20 {
            let deliveries = place.journal.deliveries(&format!("round{round}-{number}"));
            assert_eq!(deliveries.len(), 2, "{deliveries:?}");
            assert!(matches!(deliveries[1], 2 | 3), "{deliveries:?}");
        }
    }
    assert_eq!(place.length("jobs-dlq"), 0);
}

/// A script is a move to the DLQ here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_of_a_dead_letter_doubles_nothing() {
    let (_server, place) = lose("EVALSHA", "reject").await;
    let mut dead: Vec<_> = place.letters("jobs-dlq").await;
    assert_eq!(dead.len(), 60);
    dead.sort_by_key(|letter| letter.job());
    dead.dedup_by_key(|letter| letter.job());
    assert_eq!(dead.len(), 60);
    for round in 0..3 {
        place
            .journal
            .assert_once_each(&format!("round{round}-"), 20);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_of_an_ack_before_the_run_does_not_lose_the_run() {
    let server = Server::start();
    let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
    let broker = place.worker_at(&proxy.url(), handlers![at_most_once]);
    let running = broker.start().await.expect("started");
    proxy.lose_reply_of("EVALSHA");
    place.publish_many("first", "job", 10, "ok").await;
    until("all have run", || place.journal.ended() == 10).await;
    assert_eq!(proxy.lost_replies(), 1);
    place.journal.assert_once_each("job", 10);
    until("all are acked", || {
        place.pending("first", "workers").is_empty()
    })
    .await;
    assert_eq!(place.length("dead"), 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_the_server_forgets_are_loaded_again() {
    let server = Server::start();
    let place = Place::on(&server);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place
        .publish_many("jobs", "retried", 40, "sleep:10+err,ok")
        .await;
    place
        .publish_many("jobs", "dead", 40, "sleep:10+reject")
        .await;
    while place.journal.ended() < 100 {
        place.ask(&["SCRIPT", "FLUSH"]);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.drained().await.expect("drained");
    for number in 0..40 {
        assert_eq!(
            place.journal.deliveries(&format!("retried{number}")),
            [1, 2]
        );
    }
    place.journal.assert_once_each("dead", 40);
    assert_eq!(place.length("jobs-dlq"), 40);
    running.stop().await;
}
