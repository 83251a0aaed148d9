//! How often a message runs, and when it runs again.

use std::time::Duration;

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, on_both_stores, until};

#[rustfmt::skip]
macro_rules! handler {
    ($name:ident, $stream:literal, $retries:expr) => {
        #[subscribe(
            stream = $stream,
            group = "workers",
            dlq = "dead",
            max_retries = $retries,
            claim_idle_ms = 100,
            concurrency = 4,
            timeout_ms = 80
        )]
        async fn $name(
            job: Job,
            msg: Message,
            journal: State<Journal>,
        ) -> Result<(), HandlerError> {
            act(job, msg, journal).await
        }
    };
}
handler!(never_again, "retries 0", 0);
handler!(once_more, "retries 1", 1);
handler!(thrice_more, "retries 3", 3);

#[subscribe(
    stream = "for ever",
    group = "workers",
    dlq = "dead",
    max_retries = None,
    claim_idle_ms = 100
)]
async fn for_ever(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(stream = "jobs", group = "workers", max_retries = 1)]
async fn with_defaults(
    job: Job,
    msg: Message,
    journal: State<Journal>,
) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(
    stream = "held",
    group = "workers",
    max_retries = 1,
    claim_idle_ms = 200
)]
async fn held(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(
    stream = "jittery",
    group = "workers",
    max_retries = 1,
    claim_idle_ms = 1000,
    jitter = 0.5,
    concurrency = 50
)]
async fn jittery(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(
    stream = "often",
    group = "workers",
    dlq = "dead",
    max_retries = 200,
    claim_idle_ms = 100,
    backoff = 2.0,
    max_backoff_ms = 400
)]
async fn often(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

on_both_stores![
    total_runs_are_retries_and_one,
    without_a_limit_it_runs_until_it_is_fine,
    without_a_limit_a_reject_ends_it,
    a_retry_of_its_own_delay_is_not_early,
];

async fn total_runs_are_retries_and_one(place: Place) {
    let handlers = handlers![never_again, once_more, thrice_more];
    let running = place.worker(handlers).start().await.expect("started");
    let ways = ["err", "nack", "panic", "hang"];
    for retries in [0, 1, 3] {
        for does in ways {
            let stream = format!("retries {retries}");
            place
                .publish(&stream, &format!("{does} {retries}"), does)
                .await;
        }
    }
    running.drained().await.expect("drained");
    let letters = place.letters("dead").await;
    assert_eq!(letters.len(), 12);
    for retries in [0, 1, 3] {
        for does in ways {
            let name = format!("{does} {retries}");
            let expected: Vec<_> = (1..=retries + 1).collect();
            assert_eq!(place.journal.deliveries(&name), expected, "{name}");
            let letter = letters
                .iter()
                .find(|letter| letter.job() == name)
                .expect("dead");
            assert_eq!(letter.get("x-deliveries"), (retries + 1).to_string());
            for gap in place.journal.gaps(&name) {
                assert!(gap >= Duration::from_millis(100), "{name}: {gap:?}");
            }
        }
    }
    running.stop().await;
}

async fn without_a_limit_it_runs_until_it_is_fine(place: Place) {
    let running = place
        .worker(handlers![for_ever])
        .start()
        .await
        .expect("started");
    place
        .publish("for ever", "job", "err,nack,panic,err,err,ok")
        .await;
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("job"), [1, 2, 3, 4, 5, 6]);
    assert!(place.letters("dead").await.is_empty());
    running.stop().await;
}

async fn without_a_limit_a_reject_ends_it(place: Place) {
    let running = place
        .worker(handlers![for_ever])
        .start()
        .await
        .expect("started");
    place.publish("for ever", "job", "err,reject").await;
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("job"), [1, 2]);
    let letters = place.letters("dead").await;
    assert_eq!(letters[0].get("x-reason"), "rejected");
    assert_eq!(letters[0].get("x-deliveries"), "2");
    running.stop().await;
}

/// With a second worker there, which goes by the formula.
async fn a_retry_of_its_own_delay_is_not_early(place: Place) {
    let one = place
        .worker(handlers![held])
        .start()
        .await
        .expect("started");
    let other = place
        .worker(handlers![held])
        .start()
        .await
        .expect("started");
    place.publish("held", "job", "later:1200,ok").await;
    one.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("job"), [1, 2]);
    let gaps = place.journal.gaps("job");
    assert!(gaps[0] >= Duration::from_millis(1200), "{gaps:?}");
    one.stop().await;
    other.stop().await;
}

/// The delay of the attribute is a minute here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_of_its_own_delay_may_be_sooner() {
    let place = Place::redis();
    let running = place
        .worker(handlers![with_defaults])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "job", "later:50,ok").await;
    until("it has run again", || place.journal.ended() == 2).await;
    assert_eq!(place.journal.deliveries("job"), [1, 2]);
    let gaps = place.journal.gaps("job");
    assert!(gaps[0] >= Duration::from_millis(50), "{gaps:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn jitter_adds_up_to_its_share() {
    let place = Place::memory();
    let running = place
        .worker(handlers![jittery])
        .start()
        .await
        .expect("started");
    place.publish_many("jittery", "job", 50, "err,ok").await;
    running.drained().await.expect("drained");
    let gaps: Vec<_> = (0..50)
        .flat_map(|number| place.journal.gaps(&format!("job{number}")))
        .collect();
    assert_eq!(gaps.len(), 50);
    let (least, most) = (gaps.iter().min(), gaps.iter().max());
    assert!(least >= Some(&Duration::from_secs(1)), "{least:?}");
    // Some milliseconds are the timer's.
    assert!(most <= Some(&Duration::from_millis(1510)), "{most:?}");
    assert!(most > Some(&Duration::from_millis(1100)), "{most:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_deliveries_do_not_overflow_the_delay() {
    let place = Place::memory();
    let running = place
        .worker(handlers![often])
        .start()
        .await
        .expect("started");
    place.publish("often", "job", "err").await;
    running.drained().await.expect("drained");
    let gaps = place.journal.gaps("job");
    assert_eq!(gaps.len(), 200);
    for (number, gap) in gaps.iter().enumerate() {
        let least = Duration::from_millis([100, 200, 400][number.min(2)]);
        assert!(
            (least..least + Duration::from_millis(10)).contains(gap),
            "{number}: {gap:?}"
        );
    }
    assert_eq!(place.letters("dead").await[0].get("x-deliveries"), "201");
    running.stop().await;
}
