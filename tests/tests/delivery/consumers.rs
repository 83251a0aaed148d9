//! Who stays in a group when workers come and go.

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, until};

#[subscribe(
    stream = "jobs",
    group = "workers",
    claim_idle_ms = 300,
    block_ms = 500
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_restarts_leave_no_consumer() {
    let place = Place::redis();
    for round in 0..100 {
        let running = place
            .worker(handlers![handle])
            .start()
            .await
            .expect("started");
        if round % 10 == 0 {
            place.publish("jobs", &format!("job{round}"), "ok").await;
            running.drained().await.expect("drained");
        }
        running.stop().await;
    }
    assert_eq!(place.journal.ended(), 10);
    let consumers = place.ask(&["XINFO", "CONSUMERS", "jobs", "workers"]).list();
    let left: Vec<_> = consumers.iter().map(|row| row[1].text()).collect();
    assert!(
        left.is_empty() || left == ["rillkit:handed-back"],
        "{left:?}"
    );
}

/// Older servers do not see that a quiet worker lives, and a peer may remove its consumer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_living_worker_whose_consumer_is_removed_handles_what_follows_once() {
    let place = Place::redis();
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "before", "ok").await;
    running.drained().await.expect("drained");
    let name = place.journal.runs("before")[0].consumer.clone();
    for number in 0..20 {
        place.ask(&["XGROUP", "DELCONSUMER", "jobs", "workers", &name]);
        place.publish("jobs", &format!("after{number}"), "ok").await;
        until("it has run", || place.journal.ended() == number + 2).await;
        running.drained().await.expect("drained");
    }
    place.journal.assert_once_each("after", 20);
    running.stop().await;
}
