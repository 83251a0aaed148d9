//! How soon something starts, and how little is asked of an idle server. The block time here is long.

use std::time::{Duration, Instant};

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::Server;
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, until};

#[subscribe(
    stream = "jobs",
    group = "workers",
    claim_idle_ms = 300,
    block_ms = 20_000
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(stream = "jobs", group = "quiet")]
async fn with_defaults(
    job: Job,
    msg: Message,
    journal: State<Journal>,
) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

const WELL_BELOW_THE_BLOCK_TIME: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_waits_for_a_blocked_read() {
    let place = Place::redis();
    let began = Instant::now();
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    assert!(
        began.elapsed() < WELL_BELOW_THE_BLOCK_TIME,
        "a start does not wait for traffic"
    );
    tokio::time::sleep(Duration::from_millis(500)).await;

    let published = Instant::now();
    place.publish("jobs", "job", "err,ok").await;
    until("it has run", || place.journal.ended() >= 1).await;
    assert!(published.elapsed() < Duration::from_secs(2));
    until("it has run again", || place.journal.ended() == 2).await;
    until("it is acked", || {
        place.pending("jobs", "workers").is_empty()
    })
    .await;
    assert!(published.elapsed() < WELL_BELOW_THE_BLOCK_TIME);
    let gaps = place.journal.gaps("job");
    assert!(gaps[0] >= Duration::from_millis(300), "{gaps:?}");

    let stopping = Instant::now();
    running.stop().await;
    assert!(
        stopping.elapsed() < WELL_BELOW_THE_BLOCK_TIME,
        "nor does a stop"
    );
}

fn calls(place: &Place, command: &str) -> u64 {
    let statistics = place.ask(&["INFO", "commandstats"]).text();
    let line = statistics
        .lines()
        .find_map(|line| line.strip_prefix(command));
    let calls = line.and_then(|line| line.split(['=', ',']).nth(1));
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

#[tokio::test]
async fn a_start_waits_for_no_message() {
    let place = Place::redis();
    let starting = Instant::now();
    let running = place.worker(handlers![handle]).start().await;
    assert!(starting.elapsed() < WELL_BELOW_THE_BLOCK_TIME);
    running.expect("started").stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_asks_little() {
    let server = Server::start();
    let place = Place::on(&server);
    let running = place
        .worker(handlers![with_defaults])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "job", "ok").await;
    until("it has run", || place.journal.ended() == 1).await;
    let reads = calls(&place, "cmdstat_xreadgroup:");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(calls(&place, "cmdstat_xreadgroup:") - reads <= 2);
    assert!(calls(&place, "cmdstat_xpending:") <= 20);
    assert_eq!(calls(&place, "cmdstat_xautoclaim:"), 0);
    running.stop().await;
}
