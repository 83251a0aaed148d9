//! The reference run: one job is fine, one fails twice, one fails until its fault is mended; and the delays
//! of a growing backoff.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_tests::Job;
use serde::{Deserialize, Serialize};

use crate::place::{Journal, Place, act, on_both_stores};

#[derive(Serialize, Deserialize)]
struct Named {
    name: String,
}

#[derive(Clone, Default)]
struct Mended(Arc<AtomicBool>);

#[subscribe(
    stream = "jobs",
    group = "workers",
    max_retries = 2,
    claim_idle_ms = 300
)]
async fn run_job(
    job: Named,
    msg: Message,
    journal: State<Journal>,
    mended: State<Mended>,
) -> Result<(), &'static str> {
    let _ends = journal.begin(&job.name, &msg);
    match job.name.as_str() {
        "flaky" if msg.deliveries() < 3 => Err("not yet"),
        "broken" if !mended.0.load(Ordering::Relaxed) => Err("bad input"),
        _ => Ok(()),
    }
}

#[subscribe(
    stream = "slower",
    group = "workers",
    dlq = "dead",
    claim_idle_ms = 300,
    backoff = 2.0
)]
async fn back_off(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

on_both_stores![the_reference_run, delays_grow_by_the_backoff];

async fn the_reference_run(place: Place) {
    let mended = Mended::default();
    let broker = place.worker(handlers![run_job]).with_state(mended.clone());
    let running = broker.start().await.expect("started");
    let mut broken = String::new();
    for name in ["ok", "flaky", "broken"] {
        let job = Named { name: name.into() };
        broken = broker
            .publish("jobs", &job)
            .await
            .expect("published")
            .to_string();
    }
    running.drained().await.expect("drained");

    assert_eq!(place.journal.deliveries("ok"), [1]);
    assert_eq!(place.journal.deliveries("flaky"), [1, 2, 3]);
    assert_eq!(place.journal.deliveries("broken"), [1, 2, 3]);
    for gap in [place.journal.gaps("flaky"), place.journal.gaps("broken")].concat() {
        assert!(gap >= Duration::from_millis(300), "{gap:?}");
    }

    let letters = place.letters("jobs-dlq").await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    let letter = &letters[0];
    let consumer = place.journal.runs("broken")[0].consumer.clone();
    let expected = [
        ("data", r#"{"name":"broken"}"#),
        ("x-original-id", &broken),
        ("x-stream", "jobs"),
        ("x-group", "workers"),
        ("x-error", "bad input"),
        ("x-deliveries", "3"),
        ("x-reason", "error"),
        ("x-handler", "delivery::reference::run_job"),
        ("x-consumer", &consumer),
    ];
    for (place, (name, value)) in expected.into_iter().enumerate() {
        assert_eq!(letter.0[place], (name.into(), value.into()));
    }
    assert_eq!(letter.0[9].0, b"x-failed-at");
    assert!(letter.get("x-failed-at").parse::<u64>().is_ok());
    assert_eq!(letter.0[10].0, b"x-attempts");
    assert_eq!(letter.0.len(), 11);

    mended.0.store(true, Ordering::Relaxed);
    assert_eq!(broker.replay_dlq("jobs").await, Ok(1));
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("broken"), [1, 2, 3, 1]);
    assert_eq!(broker.replay_dlq("jobs").await, Ok(0));
    running.stop().await;
}

async fn delays_grow_by_the_backoff(place: Place) {
    let running = place
        .worker(handlers![back_off])
        .start()
        .await
        .expect("started");
    place.publish("slower", "job", "err").await;
    running.drained().await.expect("drained");

    assert_eq!(place.journal.deliveries("job"), [1, 2, 3, 4]);
    let gaps = place.journal.gaps("job");
    for (gap, least) in gaps.iter().zip([300, 600, 1200]) {
        assert!(*gap >= Duration::from_millis(least), "{gaps:?}");
    }
    // The clock starts when the failed run ends, and a retry is not waited for until a read ends.
    for (gap, most) in gaps.iter().zip([2300, 2600, 3200]) {
        assert!(*gap < Duration::from_millis(most), "{gaps:?}");
    }
    assert_eq!(place.letters("dead").await[0].get("x-deliveries"), "4");
    running.stop().await;
}
