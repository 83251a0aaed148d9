//! Who gets a handler's slots: retries and new messages share them, and `concurrency` handlers run at once.

use std::time::Duration;

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, on_both_stores, until};

#[subscribe(
    stream = "jobs",
    group = "workers",
    dlq = "dead",
    claim_idle_ms = 100,
    concurrency = 2
)]
async fn two_at_once(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(stream = "blocking", group = "workers", concurrency = 4)]
async fn four_at_once(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(stream = "single", group = "workers")]
async fn one_at_a_time(
    job: Job,
    msg: Message,
    journal: State<Journal>,
) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

on_both_stores![
    poison_does_not_hold_up_the_others,
    neither_retries_nor_new_messages_take_all_slots,
    one_handler_runs_at_a_time_and_in_order,
];

/// The most runs at one moment.
fn most_at_once(journal: &Journal) -> usize {
    let runs = journal.all();
    let at = |moment| {
        let running = |run: &&crate::place::Run| {
            run.start <= moment && run.end.is_none_or(|end| end > moment)
        };
        runs.iter().filter(running).count()
    };
    runs.iter().map(|run| at(run.start)).max().unwrap_or(0)
}

async fn poison_does_not_hold_up_the_others(place: Place) {
    place
        .publish_many("jobs", "poison", 4, "sleep:50+err")
        .await;
    place.publish_many("jobs", "good", 100, "sleep:5").await;
    let running = place
        .worker(handlers![two_at_once])
        .start()
        .await
        .expect("started");
    running.drained().await.expect("drained");
    place.journal.assert_once_each("good", 100);
    for number in 0..4 {
        assert_eq!(
            place.journal.deliveries(&format!("poison{number}")),
            [1, 2, 3, 4]
        );
    }
    assert_eq!(most_at_once(&place.journal), 2);
    let letters = place.letters("dead").await;
    assert_eq!(letters.len(), 4);
    assert!(
        letters
            .iter()
            .all(|letter| letter.get("x-deliveries") == "4")
    );
    running.stop().await;
}

async fn neither_retries_nor_new_messages_take_all_slots(place: Place) {
    place
        .publish_many("jobs", "poison", 30, "sleep:20+err")
        .await;
    place.publish_many("jobs", "good", 300, "sleep:5").await;
    let running = place
        .worker(handlers![two_at_once])
        .start()
        .await
        .expect("started");
    running.drained().await.expect("drained");
    place.journal.assert_once_each("good", 300);
    let runs = place.journal.all();
    let first_good = runs.iter().position(|run| run.name.starts_with("good"));
    let last_good = runs.iter().rposition(|run| run.name.starts_with("good"));
    let first_retry = runs.iter().position(|run| run.delivery == 2);
    let last_poison = runs.iter().rposition(|run| run.delivery == 4);
    assert!(first_retry < last_good, "retries begin while new ones wait");
    assert!(
        first_good < last_poison,
        "new ones begin while retries wait"
    );
    let retries = runs[first_retry.expect("a retry")..last_good.expect("a good one")]
        .iter()
        .filter(|run| run.delivery > 1)
        .count();
    assert!(retries >= 20, "{retries} retries among the new ones");
    running.stop().await;
}

/// Handlers so quick that a buffer of new messages never runs empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_start_in_the_middle_of_a_backlog() {
    let place = Place::redis();
    place
        .publish_many("single", "failing", 5, "later:100,ok")
        .await;
    place.publish_many("single", "quick", 9_000, "ok").await;
    let running = place
        .worker(handlers![one_at_a_time])
        .start()
        .await
        .expect("started");
    running.drained().await.expect("drained");
    let runs = place.journal.all();
    assert_eq!(runs.len(), 9_010);
    let last_retry = runs.iter().rposition(|run| run.delivery == 2);
    let last_quick = runs.iter().rposition(|run| run.delivery == 1);
    assert!(last_retry < last_quick, "{last_retry:?} {last_quick:?}");
    running.stop().await;
}

/// A read's answer that lies unread for longer than a lease is not taken for one that was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_worker_alone_runs_nothing_twice() {
    let place = Place::redis();
    place.publish_many("jobs", "failing", 5, "err,ok").await;
    place.publish_many("jobs", "quick", 9_000, "ok").await;
    let running = place
        .worker(handlers![two_at_once])
        .start()
        .await
        .expect("started");
    running.drained().await.expect("drained");
    let runs = place.journal.all();
    assert_eq!(runs.len(), 9_010);
    assert_eq!(runs.iter().filter(|run| run.delivery == 1).count(), 9_005);
    running.stop().await;
}

async fn one_handler_runs_at_a_time_and_in_order(place: Place) {
    let running = place
        .worker(handlers![one_at_a_time])
        .start()
        .await
        .expect("started");
    place.publish_many("single", "job", 300, "sleep:1").await;
    running.drained().await.expect("drained");
    let runs = place.journal.all();
    for (number, run) in runs.iter().enumerate() {
        assert_eq!(run.name, format!("job{number}"));
    }
    assert_eq!(most_at_once(&place.journal), 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn blocking_handlers_run_in_parallel_on_the_threads_of_the_runtime() {
    for place in [Place::memory(), Place::redis()] {
        let running = place
            .worker(handlers![four_at_once])
            .start()
            .await
            .expect("started");
        place.publish_many("blocking", "quick", 200, "ok").await;
        place.publish_many("blocking", "job", 8, "block:400").await;
        until("all have run", || place.journal.ended() == 208).await;
        assert_eq!(most_at_once(&place.journal), 4);
        running.stop().await;
    }
}

/// A message that waits for its retry holds no slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_message_holds_no_slot() {
    let place = Place::redis();
    let running = place
        .worker(handlers![one_at_a_time])
        .start()
        .await
        .expect("started");
    place.publish("single", "waiting", "later:1500,ok").await;
    place.publish_many("single", "job", 5, "ok").await;
    running.drained().await.expect("drained");
    let runs = place.journal.all();
    assert_eq!(runs.len(), 7);
    assert_eq!(runs.last().expect("a run").name, "waiting");
    assert!(place.journal.gaps("waiting")[0] >= Duration::from_millis(1500));
    running.stop().await;
}

/// What is read ahead adapts to the handler: a slow one is given what it runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_read_than_starts_shortly() {
    let place = Place::redis();
    place.publish_many("jobs", "job", 40, "sleep:100").await;
    let running = place
        .worker(handlers![two_at_once])
        .start()
        .await
        .expect("started");
    until("all have run", || {
        let in_hand = place.pending("jobs", "workers").len();
        // Two run, and two may have ended and not be acked yet.
        assert!(in_hand <= 4, "{in_hand} are in hand");
        place.journal.ended() == 40
    })
    .await;
    place.journal.assert_once_each("job", 40);
    running.stop().await;
}
