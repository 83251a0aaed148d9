//! What health tells of a worker that is well, waits for its server, is refused, or has frozen.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rillkit::{
    Broker, ConnectionState, HandlerError, HandlerHealth, HealthVerdict, Message, State, handlers,
    subscribe,
};
use rillkit_servers::Server;
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, until};

const BLOCK_MS: u64 = 100;

#[subscribe(stream = "jobs", group = "workers", block_ms = BLOCK_MS)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

/// Holds a thread until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().expect("never poisoned") = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut open = self.0.0.lock().expect("never poisoned");
        while !*open {
            open = self.0.1.wait(open).expect("never poisoned");
        }
    }
}

/// A slot is free while one waits, so that reads go on.
#[subscribe(
    stream = "gates",
    group = "workers",
    block_ms = BLOCK_MS,
    concurrency = 2
)]
async fn wait_at_the_gate(_job: Job, gate: State<Gate>) {
    gate.pass();
}

fn only_handler(broker: &Broker) -> HandlerHealth {
    let mut handlers = broker.health().handlers;
    assert_eq!(handlers.len(), 1);
    handlers.remove(0)
}

async fn until_it_is(broker: &Broker, verdict: HealthVerdict) {
    until(&format!("it is {verdict:?}"), || {
        broker.health().verdict == verdict
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_nothing_to_do_is_healthy() {
    let place = Place::redis();
    let broker = place.worker(handlers![handle]);
    assert_eq!(
        broker.health().verdict,
        HealthVerdict::NotReady,
        "nothing runs"
    );
    let running = broker.start().await.expect("started");
    let clone = broker.clone();
    until("reads are answered", || {
        only_handler(&clone).last_read.is_some()
    })
    .await;
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_millis(10 * BLOCK_MS) {
        assert_eq!(running.health().verdict, HealthVerdict::Healthy);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(only_handler(&broker).last_handled, None);
    place.publish("jobs", "one", "ok").await;
    running.drained().await.expect("drained");
    until("its end is noted", || {
        let health = only_handler(&broker);
        health.last_handled.is_some() && health.in_hand == 0
    })
    .await;
    let health = only_handler(&broker);
    assert_eq!(
        (health.handler, health.stream, health.group),
        ("handle", "jobs", "workers")
    );
    assert_eq!(health.connection, ConnectionState::Connected);
    assert_eq!((health.lost_leases, health.last_error), (0, None));
    running.stop().await;
    assert_eq!(broker.health().handlers, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_in_hand_shows_how_old_it_is() {
    let place = Place::redis();
    let broker = place.worker(handlers![handle]);
    let running = broker.start().await.expect("started");
    place.publish("jobs", "slow", "sleep:60000").await;
    until("it has been in hand for a while", || {
        let health = only_handler(&broker);
        health.in_hand == 1 && health.oldest_in_hand >= Some(Duration::from_millis(3 * BLOCK_MS))
    })
    .await;
    assert_eq!(running.health().verdict, HealthVerdict::Healthy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_makes_it_not_ready_and_not_dead() {
    let server = Server::start();
    let place = Place::on(&server);
    let broker = place.worker(handlers![handle]);
    let running = broker.start().await.expect("started");
    until_it_is(&broker, HealthVerdict::Healthy).await;
    server.stop();
    until("it has tried for a while", || {
        let health = only_handler(&broker);
        assert_ne!(health.verdict, HealthVerdict::Unhealthy, "{health:?}");
        let down = Duration::from_millis(20 * BLOCK_MS);
        matches!(health.connection, ConnectionState::Reconnecting(since) if since > down)
    })
    .await;
    let health = only_handler(&broker);
    assert_eq!(health.verdict, HealthVerdict::NotReady);
    let (error, _) = health.last_error.expect("an error");
    assert!(error.contains("cannot reach redis"), "{error}");
    server.restart();
    until_it_is(&broker, HealthVerdict::Healthy).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_waits_for_the_server_is_not_ready() {
    let server = Server::start();
    let broker = Place::on(&server).worker(handlers![handle]);
    server.stop();
    let starting = tokio::spawn({
        let broker = broker.clone();
        async move { broker.start().await }
    });
    until("it tries", || {
        let health = broker.health();
        assert_eq!(health.verdict, HealthVerdict::NotReady);
        let mut handlers = health.handlers.iter();
        handlers.any(|handler| matches!(handler.connection, ConnectionState::Reconnecting(_)))
    })
    .await;
    server.restart();
    let running = starting.await.expect("no panic").expect("started");
    assert_eq!(broker.health().verdict, HealthVerdict::Healthy);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_that_is_taken_away_makes_it_unhealthy_until_it_is_given_back() {
    let server = Server::start();
    let place = Place::on(&server);
    let broker = place.worker(handlers![handle]);
    let running = broker.start().await.expect("started");
    until_it_is(&broker, HealthVerdict::Healthy).await;
    place.ask(&["ACL", "SETUSER", "default", "-xreadgroup"]);
    let began = std::time::Instant::now();
    until_it_is(&broker, HealthVerdict::Unhealthy).await;
    assert!(began.elapsed() < Duration::from_secs(10));
    let health = only_handler(&broker);
    assert!(
        matches!(health.connection, ConnectionState::Refused(_)),
        "{health:?}"
    );
    let (error, _) = health.last_error.expect("an error");
    assert!(
        error.starts_with("NOPERM") && error.contains("xreadgroup"),
        "{error}"
    );
    place.ask(&["ACL", "SETUSER", "default", "+xreadgroup"]);
    until_it_is(&broker, HealthVerdict::Healthy).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_to_ack_that_is_taken_away_makes_it_unhealthy() {
    let server = Server::start();
    let place = Place::on(&server);
    let broker = place.worker(handlers![handle]);
    let running = broker.start().await.expect("started");
    place.ask(&["ACL", "SETUSER", "default", "-xack"]);
    place.publish("jobs", "one", "ok").await;
    until_it_is(&broker, HealthVerdict::Unhealthy).await;
    place.ask(&["ACL", "SETUSER", "default", "+xack"]);
    until_it_is(&broker, HealthVerdict::Healthy).await;
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("one"), [1]);
    running.stop().await;
}

/// The only thread of the runtime is held: no loop goes round, and nobody there can be asked.
#[test]
fn a_frozen_runtime_makes_it_unhealthy() {
    let (place, gate) = (Place::redis(), Gate::default());
    let broker = place
        .worker(handlers![wait_at_the_gate])
        .with_state(gate.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let stop = Arc::new(tokio::sync::Notify::new());
    let worker = std::thread::spawn({
        let (broker, stop) = (broker.clone(), Arc::clone(&stop));
        move || {
            runtime.block_on(async {
                let running = broker.start().await.expect("started");
                stop.notified().await;
                running.stop().await;
            });
        }
    });
    rillkit_servers::wait_until("it is healthy", || {
        broker.health().verdict == HealthVerdict::Healthy
    });
    let body = serde_json::to_string(&Job::new("one", "ok")).expect("JSON");
    place.ask(&["XADD", "gates", "*", "data", &body]);
    rillkit_servers::wait_until("it is unhealthy", || {
        broker.health().verdict == HealthVerdict::Unhealthy
    });
    assert_eq!(only_handler(&broker).stalled, Some("reading"));
    gate.open();
    rillkit_servers::wait_until("it is healthy again", || {
        broker.health().verdict == HealthVerdict::Healthy
    });
    stop.notify_one();
    worker.join().expect("no panic");
}
