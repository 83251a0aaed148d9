//! Entries of consumers that are gone: each is taken over once, by whoever is there, and however many there
//! are.

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::{Proxy, Server, wait_until};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, until};
use crate::process::Process;

#[subscribe(
    stream = "jobs",
    group = "workers",
    claim_idle_ms = 300,
    concurrency = 4
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(
    stream = "named",
    group = "workers",
    claim_idle_ms = 300,
    consumer = "fixed"
)]
async fn named(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

/// A consumer that reads everything and is never seen again.
fn read_and_die(place: &Place, stream: &str, consumer: &str) {
    place.ask(&["XGROUP", "CREATE", stream, "workers", "0"]);
    let read = [
        "XREADGROUP",
        "GROUP",
        "workers",
        consumer,
        "STREAMS",
        stream,
        ">",
    ];
    assert!(!place.ask(&read).is_nil());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_ten_workers_one_takes_over() {
    let place = Place::redis();
    place.publish("jobs", "job", "sleep:1500").await;
    read_and_die(&place, "jobs", "gone");
    let mut workers = Vec::new();
    for _ in 0..10 {
        let worker = place.worker(handlers![handle]);
        workers.push(worker.start().await.expect("started"));
    }
    workers[0].drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("job"), [2]);
    for worker in workers {
        worker.stop().await;
    }
}

/// Each run ends its process, and all others look for what is due: one takes it, once a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn of_ten_workers_one_takes_over_in_each_lease() {
    let place = Place::redis();
    let mut workers: Vec<_> = (0..10).map(|_| Process::start(&place, "single")).collect();
    place.publish("single", "poison", "abort").await;
    wait_until("it is dead", || place.length("single-dlq") == 1);
    workers.iter_mut().for_each(Process::kill);
    let mut started: Vec<_> = workers.iter().flat_map(Process::started).collect();
    started.sort();
    let expected: Vec<_> = (1..=3)
        .map(|delivery| ("poison".to_owned(), delivery))
        .collect();
    assert_eq!(started, expected);
    let letters = place.letters("single-dlq").await;
    assert_eq!(letters[0].get("x-reason"), "exhausted");
    assert!(place.pending("single", "workers").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_entries_are_taken_over() {
    let place = Place::redis();
    place.publish_many("jobs", "job", 3000, "ok").await;
    read_and_die(&place, "jobs", "gone");
    let one = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    let other = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "new", "ok").await;
    one.drained().await.expect("drained");
    let mut runs = place.journal.all();
    assert_eq!(runs.len(), 3001);
    runs.retain(|run| run.delivery == 2);
    runs.sort_by(|one, other| one.name.cmp(&other.name));
    runs.dedup_by(|one, other| one.name == other.name);
    assert_eq!(runs.len(), 3000);
    assert_eq!(place.length("jobs-dlq"), 0);
    one.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_given_name_takes_over_what_it_had_before() {
    let place = Place::redis();
    place.publish_many("named", "job", 5, "ok").await;
    read_and_die(&place, "named", "fixed");
    let running = place
        .worker(handlers![named])
        .start()
        .await
        .expect("started");
    running.drained().await.expect("drained");
    for number in 0..5 {
        assert_eq!(place.journal.deliveries(&format!("job{number}")), [2]);
    }
    assert!(
        place
            .journal
            .all()
            .iter()
            .all(|run| run.consumer == "fixed")
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twins_of_one_name_do_not_run_what_the_other_runs() {
    let place = Place::redis();
    let one = place
        .worker(handlers![named])
        .start()
        .await
        .expect("started");
    let other = place
        .worker(handlers![named])
        .start()
        .await
        .expect("started");
    place.publish_many("named", "job", 4, "sleep:900").await;
    one.drained().await.expect("drained");
    place.journal.assert_once_each("job", 4);
    one.stop().await;
    other.stop().await;
}

/// The server hands a message to a frozen process, whose read waits there; another runs it meanwhile.
#[tokio::test]
async fn what_was_read_for_a_frozen_worker_is_not_run_late() {
    let server = Server::start();
    let place = Place::on(&server);
    let frozen = Process::start(&place, "single");
    wait_until("it waits for messages", || place.blocked_reads() == 1);
    frozen.freeze();
    place.publish("single", "job", "sleep:1500").await;
    wait_until("it is read", || {
        place.pending("single", "workers").len() == 1
    });
    let other = Process::start(&place, "single");
    other.wait_for("start job 2");
    frozen.signal("CONT");
    other.wait_for("end job 2");
    wait_until("it is acked", || {
        place.pending("single", "workers").is_empty()
    });
    place.publish_many("single", "next", 2, "ok").await;
    wait_until("both are handled", || {
        frozen.ended().len() + other.ended().len() == 3
    });
    assert!(
        frozen.started().iter().all(|(name, _)| name != "job"),
        "{:?}",
        frozen.said()
    );
    assert_eq!(place.length("single-dlq"), 0);
}

/// The answer to a read is on its way for longer than the lease; another worker runs the message meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_and_arrives_late_is_not_run_late() {
    let server = Server::start();
    let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
    let far = place.worker_at(&proxy.url(), handlers![handle]);
    let far = far.start().await.expect("started");
    until("it waits for messages", || place.blocked_reads() == 1).await;
    proxy.black_hole(true);
    place.publish("jobs", "job", "sleep:1500").await;
    until("it is read", || place.pending("jobs", "workers").len() == 1).await;
    let near = place.worker(handlers![handle]);
    let near = near.start().await.expect("started");
    until("another runs it", || place.journal.deliveries("job") == [2]).await;
    proxy.forward();
    near.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("job"), [2]);
    far.stop().await;
    near.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_dropped_hands_back() {
    let place = Place::redis();
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "job", "later:60000,ok").await;
    until("it has failed", || place.journal.ended() == 1).await;
    drop(running);
    until("its consumer is gone", || {
        let pending = place.pending("jobs", "workers");
        let consumers = place.ask(&["XINFO", "CONSUMERS", "jobs", "workers"]).list();
        pending.len() == 1 && pending[0].2 == 1 && consumers.len() == 1
    })
    .await;
}
