//! Messages that a server would not take, and messages that are published again.

use std::time::Duration;

use rillkit::{ErrorKind, HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::{Proxy, Server};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, on_both_stores, until};

#[subscribe(stream = "jobs", group = "workers", block_ms = 500)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

on_both_stores![
    a_message_that_is_too_large_is_refused_before_it_is_sent,
    a_message_with_an_id_is_published_once,
    an_id_that_cannot_be_used_is_refused,
];

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

async fn a_message_with_an_id_is_published_once(place: Place) {
    let worker = place.worker(handlers![handle]);
    let running = worker.start().await.expect("started");
    let job = |name| Job::new(name, "ok");
    let publish = async |name, id: &str| {
        let published = place.broker.publish("jobs", &job(name)).id(id).await;
        published.expect("published")
    };
    let one = publish("one", "a").await;
    assert_eq!(publish("again", "a").await, one);
    assert_ne!(publish("other", "b").await, one);
    running.drained().await.expect("drained");
    // Also when it has been handled long ago.
    assert_eq!(publish("late", "a").await, one);
    running.drained().await.expect("drained");
    let names: Vec<_> = place
        .journal
        .all()
        .into_iter()
        .map(|run| run.name)
        .collect();
    assert_eq!(names, ["one", "other"]);
    running.stop().await;
}

async fn an_id_that_cannot_be_used_is_refused(place: Place) {
    for id in ["", "a\nb"] {
        let error = place.broker.publish("jobs", "a body").id(id).await;
        assert_eq!(error.expect_err("refused").kind(), ErrorKind::Input);
    }
    let never = place
        .broker
        .publish("jobs", "a body")
        .id_for("a", Duration::ZERO);
    assert_eq!(never.await.expect_err("refused").kind(), ErrorKind::Input);
    let fields = |count| (0..count).map(|number| (number.to_string(), "x"));
    let most = place
        .broker
        .publish_fields("jobs", fields(3_899))
        .id("most");
    most.await.expect("published");
    let error = place
        .broker
        .publish_fields("jobs", fields(3_900))
        .id("more");
    let error = error.await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("3901 fields"), "{error}");
}

/// What is written on the wire, and where the id is remembered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_a_field_and_a_key_beside_the_stream() {
    let place = Place::redis();
    let published = place.broker.publish("jobs", "a body").header("origin", "x");
    let id = published.id_for("order-42", Duration::from_secs(60)).await;
    let entry = place.ask(&["XRANGE", "jobs", "-", "+"])[0].clone();
    assert_eq!(entry[0].text(), id.expect("published").to_string());
    let fields: Vec<_> = entry[1].list().iter().map(|part| part.text()).collect();
    assert_eq!(
        fields,
        ["data", "\"a body\"", "h-origin", "x", "rk-id", "order-42"]
    );
    let marker = "rk:{jobs}:published:order-42";
    assert_eq!(place.ask(&["GET", marker]).text(), entry[0].text());
    let left = place.ask(&["PTTL", marker]).int();
    assert!((1..=60_000).contains(&left), "{left}");
    place
        .broker
        .publish("jobs", "a body")
        .id("b")
        .await
        .expect("published");
    let left = place.ask(&["TTL", "rk:{jobs}:published:b"]).int();
    assert!((86_000..=86_400).contains(&left), "{left}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_is_refused_is_not_remembered() {
    let place = Place::redis();
    place.ask(&["SET", "jobs", "no stream"]);
    let refused = place.broker.publish("jobs", "a body").id("a").await;
    let error = refused.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    place.ask(&["DEL", "jobs"]);
    let published = place.broker.publish("jobs", "a body").id("a").await;
    published.expect("published");
    assert_eq!(place.length("jobs"), 1);
}

/// The connection breaks at the answer, and the server is gone for good then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_stays_lost_is_unknown_in_the_end() {
    let server = Server::start();
    let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
    let broker = rillkit::Broker::connect(&proxy.url()).expect("a good URL");
    broker
        .publish("jobs", "first")
        .id("1")
        .await
        .expect("published");
    proxy.lose_reply_of("second");
    let publish = tokio::spawn(async move { broker.publish("jobs", "a body").id("second").await });
    until("the answer is lost", || proxy.lost_replies() == 1).await;
    proxy.refuse();
    let error = publish.await.expect("no panic").expect_err("it is lost");
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert_eq!(place.length("jobs"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_with_an_id_that_was_not_sent_is_told_at_once() {
    let server = Server::start();
    let broker = rillkit::Broker::connect(&server.url()).expect("a good URL");
    server.stop();
    let error = broker.publish("jobs", "a body").id("a").await;
    assert_eq!(error.expect_err("no server").kind(), ErrorKind::NotSent);
}
