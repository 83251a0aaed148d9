//! A server that comes late, goes away, and comes back: everything is handled, and no delivery is charged.

use std::time::Duration;

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::{Proxy, Server};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, until};

#[subscribe(stream = "jobs", group = "workers", block_ms = 500, concurrency = 2)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

const JOBS: usize = 200;

/// All jobs were handled once, although the server was in trouble meanwhile.
async fn all_once(place: &Place) {
    until("all have run", || place.journal.ended() >= JOBS).await;
    until("all are acked", || {
        place.pending("jobs", "workers").is_empty()
    })
    .await;
    place.journal.assert_once_each("job", JOBS);
    assert_eq!(place.journal.all().len(), JOBS);
    assert_eq!(place.length("jobs-dlq"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_waits_for_the_server() {
    let server = Server::start();
    let port = server.port();
    server.stop();
    let broker = rillkit::Broker::connect(&format!("redis://127.0.0.1:{port}"))
        .expect("a good URL")
        .with_handlers(handlers![handle])
        .with_state(Journal::default());
    let starting = tokio::spawn(async move { broker.start().await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!starting.is_finished());
    server.restart();
    let running = starting.await.expect("no panic").expect("started");
    let place = Place::on(&server);
    let groups = place.ask(&["XINFO", "GROUPS", "jobs"]).list();
    assert_eq!(groups.len(), 1, "it returns once its group is there");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_server_costs_no_delivery() {
    let server = Server::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let place = Place::on(&server);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish_many("jobs", "job", JOBS, "sleep:5").await;
    for ended in [20, 90] {
        until("some have run", || place.journal.ended() >= ended).await;
        server.stop();
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.restart();
    }
    all_once(&place.again(&server)).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_and_refused_connections_cost_no_delivery() {
    let server = Server::start();
    let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
    let broker = place.worker_at(&proxy.url(), handlers![handle]);
    let running = broker.start().await.expect("started");
    place.publish_many("jobs", "job", JOBS, "sleep:5").await;
    for ended in [10, 50, 90, 130] {
        until("some have run", || place.journal.ended() >= ended).await;
        proxy.refuse();
        proxy.cut();
        tokio::time::sleep(Duration::from_millis(200)).await;
        proxy.forward();
    }
    all_once(&place).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_went_silent_cost_no_delivery() {
    let server = Server::start();
    let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
    let broker = place.worker_at(&proxy.url(), handlers![handle]);
    let running = broker.start().await.expect("started");
    place.publish_many("jobs", "job", JOBS - 5, "sleep:2").await;
    until("some have run", || place.journal.ended() >= 20).await;
    proxy.black_hole(true);
    let connections = proxy.connections();
    until("it tries anew", || proxy.connections() > connections).await;
    // What was in the hole is gone with it.
    proxy.cut();
    proxy.forward();
    place.publish_many("jobs", "late", 5, "ok").await;
    until("all have run", || place.journal.ended() >= JOBS).await;
    until("all are acked", || {
        place.pending("jobs", "workers").is_empty()
    })
    .await;
    place.journal.assert_once_each("job", JOBS - 5);
    place.journal.assert_once_each("late", 5);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_costs_no_delivery() {
    let server = Server::start();
    let place = Place::on(&server);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish_many("jobs", "job", JOBS, "sleep:5").await;
    until("some have run", || place.journal.ended() >= 20).await;
    server.freeze();
    tokio::time::sleep(Duration::from_millis(800)).await;
    server.thaw();
    all_once(&place).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_connections_lose_nothing() {
    let server = Server::start();
    let place = Place::on(&server);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish_many("jobs", "job", JOBS, "sleep:10").await;
    while place.journal.ended() < JOBS - 20 {
        place.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    all_once(&place).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_for_a_while_is_waited_for() {
    let server = Server::start();
    let place = Place::on(&server);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish_many("jobs", "job", JOBS, "sleep:5").await;
    until("some have run", || place.journal.ended() >= 20).await;
    // Reads and acks are refused too.
    place.ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    place.ask(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    all_once(&place).await;
    running.stop().await;
}
