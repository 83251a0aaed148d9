//! A DLQ that cannot be written: the message stays pending, its handler does not run again, and it is dead as
//! soon as that is possible.

use std::time::Duration;

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::Server;
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, on_both_stores, until};

#[subscribe(
    stream = "jobs",
    group = "workers",
    max_retries = 1,
    claim_idle_ms = 100
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

/// Breaks the DLQ, lets a message fail to its end, and mends it.
async fn broken_and_mended(place: &Place, broken: &[&str], mended: &[&str]) {
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    assert!(!matches!(
        place.ask(broken),
        rillkit_servers::Reply::Error(_)
    ));
    let id = place.publish_raw("jobs", "job", "err");
    place.publish_raw("jobs", "good", "ok");
    until("both have run", || place.journal.ended() == 3).await;
    // Absence can only be looked for during some time: many leases.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(place.journal.deliveries("job"), [1, 2]);
    assert_eq!(place.journal.deliveries("good"), [1]);
    let pending = place.pending("jobs", "workers");
    assert_eq!(pending.len(), 1, "{pending:?}");
    assert_eq!((pending[0].0.as_str(), pending[0].2), (id.as_str(), 2));

    place.ask(mended);
    until("it is dead", || place.pending("jobs", "workers").is_empty()).await;
    let letters = place.letters("jobs-dlq").await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].get("x-original-id"), id);
    assert_eq!(letters[0].get("x-deliveries"), "2");
    assert_eq!(letters[0].get("x-error"), "bad input");
    assert_eq!(place.journal.deliveries("job"), [1, 2]);
    running.stop().await;
}

impl Place {
    /// Publishes where the server takes it from an administrator alone, in spite of its state.
    fn publish_raw(&self, stream: &str, name: &str, does: &str) -> String {
        let body = serde_json::to_string(&Job::new(name, does)).expect("JSON");
        self.ask(&["XADD", stream, "*", "data", &body]).text()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dlq_of_another_type() {
    let place = Place::redis();
    broken_and_mended(&place, &["SET", "jobs-dlq", "x"], &["DEL", "jobs-dlq"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dlq_that_may_not_be_written() {
    let server = Server::start();
    let place = Place::on(&server);
    place.ask(&["ACL", "SETUSER", "worker", "on", ">secret", "+@all", "~*"]);
    let url = format!("redis://worker:secret@127.0.0.1:{}", server.port());
    let running = place
        .worker_at(&url, handlers![handle])
        .start()
        .await
        .expect("started");
    // A start without this permission would fail.
    place.ask(&["ACL", "SETUSER", "worker", "resetkeys", "~jobs"]);
    place.publish_raw("jobs", "job", "err");
    until("it has run", || place.journal.ended() == 2).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(place.journal.deliveries("job"), [1, 2]);
    assert_eq!(place.pending("jobs", "workers").len(), 1);
    place.ask(&["ACL", "SETUSER", "worker", "~*"]);
    until("it is dead", || place.length("jobs-dlq") == 1).await;
    until("and left", || place.pending("jobs", "workers").is_empty()).await;
    assert_eq!(place.journal.deliveries("job"), [1, 2]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_memory_for_a_dead_letter() {
    let server = Server::start();
    let place = Place::on(&server);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "job", "sleep:300+reject").await;
    until("it runs", || place.journal.all().len() == 1).await;
    place.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    until("it has run", || place.journal.ended() == 1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(place.pending("jobs", "workers").len(), 1);
    place.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    until("it is dead", || place.length("jobs-dlq") == 1).await;
    until("and left", || place.pending("jobs", "workers").is_empty()).await;
    assert_eq!(place.journal.deliveries("job"), [1]);
    running.stop().await;
}

on_both_stores![an_error_is_capped_and_never_blank];

async fn an_error_is_capped_and_never_blank(place: Place) {
    let running = place
        .worker(handlers![long_winded])
        .start()
        .await
        .expect("started");
    place
        .broker
        .publish("words", &"ä".repeat(5000))
        .await
        .expect("published");
    place.broker.publish("words", "").await.expect("published");
    running.drained().await.expect("drained");
    let mut letters = place.letters("dead").await;
    letters.sort_by_key(|letter| letter.get("data") == "\"\"");
    assert_eq!(letters[0].get("x-error"), "ä".repeat(1000));
    assert!(!letters[1].get("x-error").trim().is_empty());
    running.stop().await;
}

#[subscribe(stream = "words", group = "workers", dlq = "dead", max_retries = 0)]
async fn long_winded(words: String) -> Result<(), String> {
    Err(words)
}
