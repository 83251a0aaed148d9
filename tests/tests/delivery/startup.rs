//! What is refused at the start, in words that say what to do.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use rillkit::{Broker, ErrorKind, State, Stream, handlers, subscribe};
use rillkit_servers::{Reply, Server};
use rillkit_tests::Job;

use crate::place::Place;
use crate::process::Process;

struct Pool;
struct Clock;

const OWN_DLQ: Stream<Job> = Stream::new("own").dlq("own");
const NOTHING: &str = "";

#[subscribe(stream = "jobs", group = "workers")]
async fn plain(_job: Job) {}

#[subscribe(stream = "jobs", group = "workers")]
async fn twin(_job: Job) {}

#[subscribe(stream = "jobs", group = "other")]
async fn other_group(_job: Job) {}

#[subscribe(stream = "pools", group = "workers")]
async fn needs_a_pool(_job: Job, _pool: State<Pool>, _clock: State<Clock>) {}

#[subscribe(stream = "clocks", group = "workers")]
async fn needs_a_clock(_job: Job, _clock: State<Clock>) {}

#[subscribe(stream = OWN_DLQ, group = "workers")]
async fn dead_on_its_own_stream(_job: Job) {}

#[subscribe(stream = "unnamed", group = NOTHING)]
async fn without_a_group(_job: Job) {}

/// The error of a start that must not wait for anything.
async fn refused(broker: Broker, kind: ErrorKind) -> String {
    let start = tokio::time::timeout(Duration::from_secs(15), broker.start());
    let error = start.await.expect("refused at once").expect_err("refused");
    assert_eq!(error.kind(), kind, "{error}");
    error.to_string()
}

#[track_caller]
fn assert_says(error: &str, words: &[&str]) {
    for word in words {
        assert!(error.contains(word), "`{word}` is not in: {error}");
    }
}

/// Wherever it was dropped, a start has left no consumer and no handler that health speaks of.
#[tokio::test]
async fn a_start_that_is_dropped_leaves_nothing_but_its_groups() {
    let place = Place::redis();
    let broker = place.worker(handlers![plain, other_group]);
    let has_consumers = |group| {
        let listed = place.ask(&["XINFO", "CONSUMERS", "jobs", group]);
        // The group may not be there yet.
        !matches!(listed, Reply::Error(_)) && !listed.list().is_empty()
    };
    for polls in 1.. {
        let (mut start, mut left) = (Box::pin(broker.start()), polls);
        let started = poll_fn(|cx| match start.as_mut().poll(cx) {
            Poll::Ready(started) => Poll::Ready(Some(started)),
            Poll::Pending if left > 1 => {
                left -= 1;
                Poll::Pending
            }
            Poll::Pending => Poll::Ready(None),
        })
        .await;
        drop(start);
        if let Some(running) = started {
            assert_eq!(broker.health().handlers.len(), 2);
            running.expect("started").stop().await;
            assert!(polls > 10, "there are several steps with the server");
            break;
        }
        assert_eq!(broker.health().handlers, []);
        for group in ["workers", "other"] {
            assert!(!has_consumers(group), "{group}, after {polls} polls");
        }
    }
}

#[tokio::test]
async fn no_handler_is_an_error_that_tells_of_the_linker() {
    let error = refused(Broker::memory().with_handlers([]), ErrorKind::Handlers).await;
    assert_says(&error, &["use that_crate as _;", "#[subscribe"]);
}

#[tokio::test]
async fn two_handlers_for_one_stream_and_group_are_named() {
    let broker = Broker::memory().with_handlers(handlers![plain, twin, other_group]);
    let error = refused(broker, ErrorKind::Handlers).await;
    assert_says(&error, &["plain", "twin", "`jobs`", "`workers`"]);
    assert!(!error.contains("other_group"), "{error}");
    let broker = Broker::memory().with_handlers(handlers![plain, other_group]);
    broker
        .start()
        .await
        .expect("two groups are fine")
        .stop()
        .await;
}

#[tokio::test]
async fn all_missing_states_are_named_at_once() {
    let handlers = handlers![needs_a_pool, needs_a_clock];
    let broker = Broker::memory().with_handlers(handlers);
    let error = refused(broker.clone(), ErrorKind::Handlers).await;
    assert_says(
        &error,
        &[
            "Pool",
            "Clock",
            "with_state",
            "needs_a_pool",
            "needs_a_clock",
        ],
    );
    let error = refused(broker.clone().with_state(Pool), ErrorKind::Handlers).await;
    assert!(!error.contains("State<delivery::startup::Pool>"), "{error}");
    let complete = broker.with_state(Pool).with_state(Clock);
    complete
        .start()
        .await
        .expect("nothing is missing")
        .stop()
        .await;
}

#[tokio::test]
async fn a_dlq_that_is_its_stream_is_refused() {
    let broker = Broker::memory().with_handlers(handlers![dead_on_its_own_stream]);
    let error = refused(broker, ErrorKind::Handlers).await;
    assert_says(&error, &["dlq", "`own`", "dead_on_its_own_stream"]);
}

#[tokio::test]
async fn an_empty_name_is_refused() {
    let broker = Broker::memory().with_handlers(handlers![without_a_group]);
    let error = refused(broker, ErrorKind::Handlers).await;
    assert_says(&error, &["group", "without_a_group"]);
}

#[tokio::test]
async fn all_mistakes_are_told_together() {
    let handlers = handlers![plain, twin, needs_a_pool, dead_on_its_own_stream];
    let error = refused(
        Broker::memory().with_handlers(handlers),
        ErrorKind::Handlers,
    )
    .await;
    assert_says(&error, &["twin", "Pool", "`own`"]);
}

#[tokio::test]
async fn a_bad_url_is_refused_without_its_password() {
    for url in [
        "http://me:S3CR3T@localhost",
        "localhost:6379",
        "redis://:S3CR3T@host:port",
    ] {
        let error = Broker::connect(url).expect_err(url);
        assert_eq!(error.kind(), ErrorKind::Url);
        assert_says(&error.to_string(), &["`redis://`"]);
        assert!(!error.to_string().contains("S3CR3T"), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_password_is_refused_at_once() {
    let server = Server::with(&["--requirepass", "right"]);
    let port = server.port();
    let at = |login: &str| {
        let url = format!("redis://{login}127.0.0.1:{port}");
        let broker = Broker::connect(&url).expect("a good URL");
        broker.with_handlers(handlers![plain])
    };
    let error = refused(at(":S3CR3T@"), ErrorKind::Config).await;
    assert_says(&error, &["WRONGPASS", "password"]);
    assert!(!error.contains("S3CR3T"), "{error}");
    let error = refused(at(""), ErrorKind::Config).await;
    assert_says(&error, &["NOAUTH", "REDIS_PASSWORD"]);
    at(":right@").start().await.expect("logged in").stop().await;
}

#[tokio::test]
async fn a_stream_key_of_another_type_is_refused() {
    let place = Place::redis();
    place.ask(&["SET", "jobs", "a string"]);
    let error = refused(place.worker(handlers![plain]), ErrorKind::Config).await;
    assert_says(&error, &["WRONGTYPE", "`jobs`"]);
}

#[tokio::test]
async fn an_unknown_name_of_a_handler_is_refused() {
    let broker = Broker::memory().with_handlers(handlers![plain]);
    let error = refused(broker.only(["jobz"]), ErrorKind::Handlers).await;
    assert_says(&error, &["`jobz`", "`plain`", "`jobs`"]);

    let place = Place::redis();
    let error = Process::start(&place, "jobs, nobody").error();
    assert_says(&error, &["`nobody`", "`single`", "`once`"]);
    assert!(!error.contains("`jobs, nobody`"), "{error}");
}
