//! Entries that were trimmed or deleted while they were pending.

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_tests::Job;

use crate::lines::Lines;
use crate::place::{Journal, Place, act, until};

#[subscribe(stream = "jobs", group = "workers", claim_idle_ms = 200)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

/// A consumer that reads and is never seen again.
fn read_and_die(place: &Place) {
    place.ask(&["XGROUP", "CREATE", "jobs", "workers", "0"]);
    let read = [
        "XREADGROUP",
        "GROUP",
        "workers",
        "gone",
        "STREAMS",
        "jobs",
        ">",
    ];
    place.ask(&read);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_trimmed_in_a_dead_consumers_hand_leaves_the_pending_list_unrun() {
    let place = Place::redis();
    place.publish_many("jobs", "job", 5, "ok").await;
    read_and_die(&place);
    place.ask(&["XTRIM", "jobs", "MAXLEN", "1"]);
    assert_eq!(place.pending("jobs", "workers").len(), 5);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "new", "ok").await;
    until("nothing is pending", || {
        place.journal.ended() == 2 && place.pending("jobs", "workers").is_empty()
    })
    .await;
    assert_eq!(place.journal.deliveries("job4"), [2]);
    assert_eq!(place.journal.deliveries("new"), [1]);
    assert_eq!(place.journal.all().len(), 2);
    assert_eq!(place.length("jobs-dlq"), 0);
    assert_eq!(running.health().handlers[0].lost_entries, 4);
    running.stop().await;
}

#[tokio::test]
async fn what_is_lost_is_logged_and_counted_once_whoever_finds_it() {
    let (place, lines) = (Place::redis(), Lines::listen());
    for name in ["job0", "job1", "job2"] {
        place.publish("jobs", name, "ok").await;
    }
    // One is found in a dead consumer's hand, one there after its last delivery, and one by a retry.
    read_and_die(&place);
    let rows = place.pending("jobs", "workers");
    for (row, count) in rows.iter().zip(["1", "9"]) {
        let claim = [
            "XCLAIM",
            "jobs",
            "workers",
            "gone",
            "0",
            &row.0,
            "RETRYCOUNT",
            count,
        ];
        place.ask(&claim);
    }
    place.ask(&["XACK", "jobs", "workers", &rows[2].0]);
    place.ask(&["XDEL", "jobs", &rows[0].0, &rows[1].0]);
    let twins = [
        place.worker(handlers![handle]),
        place.worker(handlers![handle]),
    ];
    let (one, two) = (twins[0].start().await, twins[1].start().await);
    let (one, two) = (one.expect("started"), two.expect("started"));
    let retried = place.publish("jobs", "retried", "later:500,ok").await;
    until("it has failed", || place.journal.ended() == 1).await;
    place.ask(&["XDEL", "jobs", &retried]);
    until("nothing is pending", || {
        place.pending("jobs", "workers").is_empty()
    })
    .await;
    one.drained().await.expect("drained");
    let lost = || {
        let both = [one.health(), two.health()];
        both.map(|health| health.handlers[0].lost_entries)
    };
    until("all are counted", || lost().iter().sum::<u64>() >= 3).await;
    assert_eq!(lost().iter().sum::<u64>(), 3);
    for id in [&rows[0].0, &rows[1].0, &retried] {
        let words = format!("message {id} is lost: it was pending");
        assert_eq!(lines.with(&words).len(), 1, "{:?}", lines.all());
    }
    one.stop().await;
    two.stop().await;
    assert_eq!(lines.with(" is lost: ").len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_deleted_while_it_waits_for_a_retry_does_not_run_again() {
    let place = Place::redis();
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    let id = place.publish("jobs", "job", "later:500,ok").await;
    until("it has failed", || place.journal.ended() == 1).await;
    place.ask(&["XDEL", "jobs", &id]);
    until("nothing is pending", || {
        place.pending("jobs", "workers").is_empty()
    })
    .await;
    place.publish("jobs", "new", "ok").await;
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("job"), [1]);
    assert_eq!(place.journal.deliveries("new"), [1]);
    running.stop().await;
}

/// Its run goes on, and its fields are in hand: they can still be dead-lettered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_deleted_during_its_run_is_settled_all_the_same() {
    let place = Place::redis();
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    for (name, does) in [("acked", "sleep:500"), ("rejected", "sleep:500+reject")] {
        let id = place.publish("jobs", name, does).await;
        until("it runs", || !place.journal.runs(name).is_empty()).await;
        place.ask(&["XDEL", "jobs", &id]);
        until("nothing is pending", || {
            place.pending("jobs", "workers").is_empty()
        })
        .await;
        assert_eq!(place.journal.deliveries(name), [1]);
    }
    let letters = place.letters("jobs-dlq").await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].job(), "rejected");
    assert_eq!(running.health().handlers[0].lost_entries, 0);
    running.stop().await;
}
