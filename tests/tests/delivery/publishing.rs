//! Messages that a server would not take.

use rillkit::{ErrorKind, HandlerError, Message, State, handlers, subscribe};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, on_both_stores, until};

#[subscribe(stream = "jobs", group = "workers", block_ms = 500)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

on_both_stores![a_message_that_is_too_large_is_refused_before_it_is_sent];

async fn a_message_that_is_too_large_is_refused_before_it_is_sent(place: Place) {
    let broker = place.broker.clone().largest_message(1000);
    let (small, large) = ("x".repeat(900), "x".repeat(1000));
    broker.publish("sizes", &small).await.expect("published");
    let error = broker.publish("sizes", &large).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    for words in ["`sizes`", "1006 bytes", "1000", "largest_message"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    let with_header = broker.publish("sizes", &small).header("more", &small);
    let error = with_header.await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let fields = [("data", small.as_str()), ("again", &small)];
    let error = broker.publish_fields("sizes", fields).await;
    assert_eq!(error.expect_err("refused").kind(), ErrorKind::TooLarge);
    let error = broker.publish_all("sizes", [&small, &large]).await;
    let error = error.expect_err("refused");
    assert_eq!(error.error().kind(), ErrorKind::TooLarge);
    assert_eq!(error.published(), [], "none of them was sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_without_ids_left_is_an_error_and_what_it_holds_is_handled() {
    let place = Place::redis();
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    let body = serde_json::to_string(&Job::new("last", "err,reject")).expect("JSON");
    let highest = format!("{0}-{0}", u64::MAX);
    place.ask(&["XADD", "jobs", &highest, "data", &body]);
    until("it has run", || place.journal.ended() == 1).await;
    let published = place.broker.publish("jobs", "a body").await;
    let error = published.expect_err("no id is left");
    assert_eq!(error.kind(), ErrorKind::Config);
    for words in ["exhausted", "another name", "nothing was done"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    let health = running.health();
    assert_eq!(health.verdict, rillkit::HealthVerdict::Healthy);
    running.stop().await;
}
