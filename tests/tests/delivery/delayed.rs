//! Messages that are published later: when they run, who adds them, and what may go wrong meanwhile.

use std::time::{Duration, SystemTime};

use rillkit::{Broker, ErrorKind, HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::{Proxy, Server};
use rillkit_tests::Job;
use tokio::time::Instant;

use crate::place::{Journal, Place, act, on_both_stores, until};

#[subscribe(stream = "jobs", group = "workers", block_ms = 500)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

on_both_stores![
    a_delayed_message_runs_when_it_is_due,
    a_message_runs_at_a_time,
    a_worker_adds_what_others_have_delayed,
    a_publisher_adds_what_it_delayed,
    one_that_is_due_sooner_does_not_wait_for_the_next_look,
    a_cancelled_message_never_runs,
    a_delayed_message_with_an_id_comes_once,
    a_worker_that_has_stopped_adds_nothing,
    a_delay_has_the_limits_of_a_publication,
];

const SOON: Duration = Duration::from_millis(300);
const HOUR: Duration = Duration::from_secs(3600);

fn ok(name: &str) -> Job {
    Job::new(name, "ok")
}

/// As another process would: what it delayed is left to those who stay.
async fn delay_elsewhere(place: &Place, name: &str, delay: Duration) {
    let broker = Broker::connect(&place.url).expect("a good URL");
    let delayed = broker.publish("jobs", &ok(name)).delay(delay).await;
    delayed.expect("delayed");
}

async fn total(place: &Place) -> u64 {
    place.broker.delayed("jobs").await.expect("a page").total
}

/// Until nothing waits.
async fn all_added(place: &Place) {
    let began = std::time::Instant::now();
    while total(place).await > 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "something waits");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn a_delayed_message_runs_when_it_is_due(place: Place) {
    let running = place.worker(handlers![handle]).start().await;
    let began = Instant::now();
    let late = place.broker.publish("jobs", &ok("late")).delay(2 * SOON);
    late.header("origin", "x").await.expect("delayed");
    let soon = place.broker.publish("jobs", &ok("soon")).header("a", "b");
    soon.delay(SOON).await.expect("delayed");
    until("both have run", || place.journal.ended() == 2).await;
    let runs = place.journal.all();
    for (run, name, due) in [(&runs[0], "soon", SOON), (&runs[1], "late", 2 * SOON)] {
        assert_eq!((&*run.name, run.delivery), (name, 1));
        // A server counts whole milliseconds.
        let after = run.start - began + Duration::from_millis(1);
        assert!(after >= due, "{name} after {after:?}");
        assert!(
            after < due + Duration::from_secs(5),
            "{name} after {after:?}"
        );
    }
    running.expect("started").stop().await;
}

async fn a_message_runs_at_a_time(place: Place) {
    let running = place.worker(handlers![handle]).start().await;
    let at = SystemTime::now() + 2 * SOON;
    let later = place.broker.publish("jobs", &ok("later")).at(at).await;
    later.expect("delayed");
    let past = place.broker.publish("jobs", &ok("past"));
    past.at(SystemTime::UNIX_EPOCH).await.expect("delayed");
    until("both have run", || place.journal.ended() == 2).await;
    let runs = place.journal.all();
    assert_eq!((&*runs[0].name, &*runs[1].name), ("past", "later"));
    running.expect("started").stop().await;
}

async fn a_worker_adds_what_others_have_delayed(place: Place) {
    let running = place.worker(handlers![handle]).start().await;
    delay_elsewhere(&place, "one", SOON).await;
    delay_elsewhere(&place, "other", 10 * SOON).await;
    until("both have run", || place.journal.ended() == 2).await;
    assert_eq!(total(&place).await, 0);
    running.expect("started").stop().await;
}

async fn a_publisher_adds_what_it_delayed(place: Place) {
    for delay in [SOON, 2 * SOON] {
        let delayed = place.broker.publish("jobs", &ok("job")).delay(delay);
        delayed.await.expect("delayed");
    }
    assert_eq!(total(&place).await, 2);
    all_added(&place).await;
    let worker = place.worker(handlers![handle]);
    let running = worker.start().await.expect("started");
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("job"), [1, 1]);
    running.stop().await;
}

async fn one_that_is_due_sooner_does_not_wait_for_the_next_look(place: Place) {
    let running = place.worker(handlers![handle]).start().await;
    let lates = place.broker.publish("jobs", &ok("late")).delay(HOUR);
    lates.await.expect("delayed");
    // Its promoter has looked, and waits for its next turn.
    tokio::time::sleep(SOON).await;
    for _ in 0..5 {
        let began = Instant::now();
        let before = place.journal.ended();
        let soon = Duration::from_millis(50);
        let delayed = place.broker.publish("jobs", &ok("soon")).delay(soon);
        delayed.await.expect("delayed");
        until("it has run", || place.journal.ended() > before).await;
        let after = began.elapsed();
        assert!(after < Duration::from_millis(1200), "after {after:?}");
    }
    running.expect("started").stop().await;
}

async fn a_cancelled_message_never_runs(place: Place) {
    let running = place.worker(handlers![handle]).start().await;
    let gone = place.broker.publish("jobs", &ok("gone")).delay(SOON).await;
    let kept = place.broker.publish("jobs", &ok("kept")).delay(2 * SOON);
    let kept = kept.await.expect("delayed");
    let cancelled = place.broker.cancel_delayed("jobs", gone.expect("delayed"));
    assert_eq!(cancelled.await, Ok(true));
    until("the other has run", || place.journal.ended() == 1).await;
    assert_eq!(place.broker.cancel_delayed("jobs", &kept).await, Ok(false));
    assert_eq!(place.journal.all()[0].name, "kept");
    assert_eq!(total(&place).await, 0);
    running.expect("started").stop().await;
}

async fn a_delayed_message_with_an_id_comes_once(place: Place) {
    let running = place.worker(handlers![handle]).start().await;
    let delay = async |name| {
        let delayed = place.broker.publish("jobs", &ok(name)).id("a");
        let id = delayed.delay(SOON).await.expect("delayed");
        assert_eq!(id.as_str(), "a");
    };
    delay("one").await;
    delay("again").await;
    assert_eq!(total(&place).await, 1);
    until("it has run", || place.journal.ended() == 1).await;
    delay("late").await;
    let at_once = place.broker.publish("jobs", &ok("at once")).id("a").await;
    at_once.expect("published");
    assert_eq!(total(&place).await, 0);
    let running = running.expect("started");
    running.drained().await.expect("drained");
    assert_eq!(place.journal.all().len(), 1);
    assert_eq!(place.journal.all()[0].name, "one");
    running.stop().await;
}

async fn a_worker_that_has_stopped_adds_nothing(place: Place) {
    let worker = place.worker(handlers![handle]);
    let running = worker.start().await.expect("started");
    delay_elsewhere(&place, "job", 2 * SOON).await;
    running.stop().await;
    tokio::time::sleep(4 * SOON).await;
    assert_eq!(total(&place).await, 1);
    let running = worker.start().await.expect("started");
    until("it has run", || place.journal.ended() == 1).await;
    running.stop().await;
}

async fn a_delay_has_the_limits_of_a_publication(place: Place) {
    let small = place.broker.clone().largest_message(100);
    let large = "x".repeat(100);
    let error = small.publish("jobs", &large).delay(SOON).await;
    assert_eq!(error.expect_err("refused").kind(), ErrorKind::TooLarge);
    let fields = (0..4000).map(|number| (number.to_string(), "x"));
    let error = place
        .broker
        .publish_fields("jobs", fields)
        .delay(SOON)
        .await;
    assert_eq!(error.expect_err("refused").kind(), ErrorKind::TooLarge);
    let error = place
        .broker
        .publish("jobs", "x")
        .maxlen(0)
        .delay(SOON)
        .await;
    assert_eq!(error.expect_err("refused").kind(), ErrorKind::Input);
    assert_eq!(total(&place).await, 0);
}

/// What waits is in two keys beside the stream, and these go with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_beside_the_stream() {
    let place = Place::redis();
    let delayed = place.broker.publish("jobs", &ok("job")).delay(HOUR).await;
    let id = delayed.expect("delayed");
    let due = place
        .ask(&["ZSCORE", "rk:{jobs}:delayed", id.as_str()])
        .text();
    let due = Duration::from_millis(due.parse().expect("milliseconds"));
    let left = due.saturating_sub(SystemTime::UNIX_EPOCH.elapsed().expect("a time"));
    assert!(
        left <= HOUR && left > HOUR - Duration::from_secs(60),
        "{left:?}"
    );
    assert_eq!(place.ask(&["HLEN", "rk:{jobs}:delayed:bodies"]).int(), 1);
    assert!(
        place
            .broker
            .cancel_delayed("jobs", &id)
            .await
            .expect("cancelled")
    );
    assert!(place.ask(&["KEYS", "*"]).list().is_empty());
}

/// Whatever keeps it from being added, it is not lost, and it is there once in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_cannot_be_added_goes_on_waiting() {
    let server = Server::start();
    let place = Place::on(&server);
    place.ask(&["SET", "jobs", "no stream"]);
    let delayed = place
        .broker
        .publish("jobs", &ok("job"))
        .delay(Duration::ZERO);
    delayed.await.expect("delayed");
    let failed = || {
        place
            .ask(&["INFO", "errorstats"])
            .text()
            .contains("errorstat_")
    };
    until("it has been tried", failed).await;
    assert_eq!(total(&place).await, 1);
    place.ask(&["DEL", "jobs"]);
    until("it is added", || place.ask(&["EXISTS", "jobs"]).int() == 1).await;
    assert_eq!((total(&place).await, place.length("jobs")), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_whose_body_is_gone_does_not_hold_up_the_others() {
    let place = Place::redis();
    let first = place.broker.publish("jobs", &ok("lost")).delay(2 * SOON);
    let first = first.await.expect("delayed");
    let second = place.broker.publish("jobs", &ok("kept")).delay(3 * SOON);
    second.await.expect("delayed");
    place.ask(&["HDEL", "rk:{jobs}:delayed:bodies", first.as_str()]);
    all_added(&place).await;
    assert_eq!(place.length("jobs"), 1);
    let entry = place.ask(&["XRANGE", "jobs", "-", "+"])[0].clone();
    assert!(entry[1][1].text().contains("kept"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_goes_on_adding_after_an_outage() {
    let server = Server::start();
    let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
    let worker = place.worker_at(&proxy.url(), handlers![handle]);
    let running = worker.start().await.expect("started");
    proxy.refuse();
    proxy.cut();
    delay_elsewhere(&place, "job", SOON).await;
    tokio::time::sleep(2 * SOON).await;
    assert_eq!(total(&place).await, 1);
    proxy.forward();
    until("it has run", || place.journal.ended() == 1).await;
    running.stop().await;
}

/// Many workers and a publisher wait for the same times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_many_add_at_a_time_comes_once() {
    const COUNT: usize = 300;
    let place = Place::redis();
    let mut workers = Vec::new();
    for _ in 0..10 {
        let worker = place.worker(handlers![handle]);
        workers.push(worker.start().await.expect("started"));
    }
    for number in 0..COUNT {
        let delay = Duration::from_millis(100 + number as u64 % 5 * 100);
        let job = ok(&format!("job{number}"));
        let delayed = place.broker.publish("jobs", &job).delay(delay).await;
        delayed.expect("delayed");
    }
    until("all have run", || place.journal.ended() == COUNT).await;
    assert_eq!(place.length("jobs"), COUNT as i64);
    place.journal.assert_once_each("job", COUNT);
    for worker in workers {
        worker.stop().await;
    }
}
