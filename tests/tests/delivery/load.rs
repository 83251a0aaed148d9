//! What workers cost the server: when there is nothing to do, and when there is very much.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::{Reply, Server, wait_until};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, until};
use crate::process::Process;

#[subscribe(stream = "jobs", group = "workers")]
async fn with_defaults(
    job: Job,
    msg: Message,
    journal: State<Journal>,
) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

/// All commands that were carried out, also those of scripts.
fn commands(place: &Place) -> u64 {
    let statistics = place.ask(&["INFO", "commandstats"]).text();
    let calls = |line: &str| -> u64 {
        let calls = line.split(['=', ',']).nth(1).expect("a number of calls");
        calls.parse().expect("a number")
    };
    statistics
        .lines()
        .filter(|line| line.starts_with("cmdstat_"))
        .map(calls)
        .sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_idle_workers_ask_at_most_150_times_a_second() {
    const SECONDS: u64 = 5;
    let server = Server::start();
    let place = Place::on(&server);
    let mut workers = Vec::new();
    for _ in 0..50 {
        let worker = place.worker(handlers![with_defaults]);
        workers.push(worker.start().await.expect("started"));
    }
    place.publish_many("jobs", "job", 100, "ok").await;
    workers[0].drained().await.expect("drained");
    // Nothing happens from now on.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = commands(&place);
    tokio::time::sleep(Duration::from_secs(SECONDS)).await;
    let asked = commands(&place) - before;
    println!("{} commands a second", asked / SECONDS);
    assert!(
        asked <= 150 * SECONDS,
        "{} commands a second",
        asked / SECONDS
    );
    for worker in workers {
        worker.stop().await;
    }
}

/// Ten thousand entries of 100 KiB, of which a slow handler gets through a few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_handler_holds_few_of_many_heavy_messages() {
    const HEAVY: usize = 100 << 10;
    let server = Server::start();
    let place = Place::on(&server);
    let worker = Process::start(&place, "jobs");
    wait_until("it waits for messages", || place.blocked_reads() == 1);
    let before = worker.resident();
    let does = format!("sleep:100{}", "+ok".repeat(HEAVY / 3));
    let body = serde_json::to_string(&Job::new("job", does)).expect("JSON");
    let fill = "for i = 1, 10000 do redis.call('XADD', KEYS[1], '*', 'data', ARGV[1]) end";
    place.ask(&["EVAL", fill, "1", "jobs", &body]);
    let (mut pending, mut resident) = (0, before);
    wait_until("100 are handled", || {
        pending = pending.max(place.pending("jobs", "workers").len());
        resident = resident.max(worker.resident());
        worker.ended().len() >= 100
    });
    // Four that run, and as many whose acks are under way and that are read ahead.
    assert!(pending <= 12, "{pending} were pending");
    let grown = (resident - before) >> 10;
    assert!(grown < 64, "{grown} MiB more");
}

#[subscribe(
    stream = "many",
    group = "workers",
    claim_idle_ms = 1000,
    concurrency = 64
)]
async fn counts(_body: u32, msg: Message, handled: State<Arc<AtomicUsize>>) {
    assert_eq!(msg.deliveries(), 2);
    handled.fetch_add(1, Ordering::SeqCst);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_entries_of_a_dead_consumer_are_drained_without_a_slow_command() {
    const COUNT: usize = 100_000;
    let server = Server::start();
    let place = Place::on(&server);
    let fill = "for i = 1, 1000 do redis.call('XADD', KEYS[1], '*', 'data', i) end";
    for _ in 0..COUNT / 1000 {
        place.ask(&["EVAL", fill, "1", "many"]);
    }
    place.ask(&["XGROUP", "CREATE", "many", "workers", "0"]);
    // In a script, which keeps the answer to itself.
    let read = "redis.call('XREADGROUP', 'GROUP', 'workers', 'gone', 'COUNT', ARGV[1], 'STREAMS', KEYS[1], '>')";
    place.ask(&["EVAL", read, "1", "many", &COUNT.to_string()]);
    let pending = || place.ask(&["XPENDING", "many", "workers"])[0].int();
    assert_eq!(pending(), COUNT as i64);
    // What takes longer than 10 ms.
    place.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "10000"]);
    place.ask(&["CONFIG", "SET", "slowlog-max-len", "10000"]);
    place.ask(&["SLOWLOG", "RESET"]);
    let handled = Arc::new(AtomicUsize::new(0));
    let broker = rillkit::Broker::connect(&place.url).expect("a good URL");
    let broker = broker.with_handlers(handlers![counts]);
    let running = broker
        .with_state(Arc::clone(&handled))
        .start()
        .await
        .expect("started");
    until("all are handled", || {
        handled.load(Ordering::SeqCst) == COUNT
    })
    .await;
    until("nothing is pending", || pending() == 0).await;
    let slow = place.ask(&["SLOWLOG", "GET", "10"]).list();
    let command = |entry: &Reply| (entry[2].int(), entry[3][0].text());
    let slow: Vec<_> = slow.iter().map(command).collect();
    // A busy machine may take the server's processor away now and then. There are about a thousand claims, and as
    // many looks: were they slow by themselves, most of them would be.
    let claims = COUNT as i64 / 100;
    let (count, most) = (place.ask(&["SLOWLOG", "LEN"]).int(), claims / 10);
    assert!(count <= most, "{count}, the last in microseconds: {slow:?}");
    assert_eq!(place.length("many-dlq"), 0);
    running.stop().await;
}

/// The server closes the connection of a client that needs too much memory: here, for an answer with more than
/// one of these entries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_that_are_too_large_together_get_through_one_by_one() {
    let server = Server::start();
    let place = Place::on(&server);
    let has_limit = !matches!(
        place.ask(&["CONFIG", "SET", "maxmemory-clients", "5mb"]),
        Reply::Error(_)
    );
    let name = "x".repeat(3 << 20);
    for number in 0..6 {
        place
            .publish("huge", &format!("{number}{name}"), "ok")
            .await;
    }
    let running = place
        .worker(handlers![huge])
        .start()
        .await
        .expect("started");
    until("all are handled", || place.journal.ended() == 6).await;
    running.drained().await.expect("drained");
    assert_eq!(place.journal.all().len(), 6);
    assert!(place.journal.all().iter().all(|run| run.delivery == 1));
    assert_eq!(place.length("huge-dlq"), 0);
    let statistics = place.ask(&["INFO", "stats"]).text();
    let was_closed = !statistics.contains("evicted_clients:0\r");
    assert!(was_closed || !has_limit, "{statistics}");
    running.stop().await;
}

#[subscribe(
    stream = "huge",
    group = "workers",
    claim_idle_ms = 500,
    concurrency = 8
)]
async fn huge(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}
