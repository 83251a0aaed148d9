//! The password of a URL is in nothing that anybody can read.

use rillkit::{Broker, HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::{Server, wait_until};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act};
use crate::process::Process;

const SECRET: &str = "S3CR3T";

#[subscribe(stream = "jobs", group = "workers", block_ms = 500)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    assert_hidden(&format!("{msg:?} {msg:#?}"));
    act(job, msg, journal).await
}

#[track_caller]
fn assert_hidden(text: &str) {
    assert!(!text.contains(SECRET), "{text}");
}

/// A worker process that logs everything.
fn loud(place: &Place, url: &str) -> Process {
    Process::with(place, "jobs", &[("LOG", "1"), ("REDIS_URL", url)])
}

/// What it has said until it ended.
fn all_said(mut process: Process) -> String {
    process.kill();
    let said = process.said().join("\n");
    format!("{said}\n{}", process.errors())
}

#[tokio::test]
async fn a_process_that_works_tells_no_password() {
    let server = Server::with(&["--requirepass", SECRET]);
    let place = Place::on(&server);
    let url = format!("redis://:{SECRET}@127.0.0.1:{}", server.port());
    let process = loud(&place, &url);
    process.wait_for_words("consumer started");
    let broker = Broker::connect(&url).expect("a good URL");
    for does in ["reject", "panic+err", "reject_err", "sleep:10"] {
        let job = Job::new(does, does);
        broker.publish("jobs", &job).await.expect("published");
    }
    let not_a_job = broker.publish_fields("jobs", [("data", "{")]);
    not_a_job.await.expect("published");
    wait_until("three are dead", || place.length("jobs-dlq") >= 3);
    server.stop();
    process.wait_for_words("cannot reach redis");
    let said = all_said(process);
    assert!(said.contains("TRACE") || said.contains("INFO"), "{said}");
    assert_hidden(&said);
    server.restart();
}

#[tokio::test]
async fn no_dead_letter_holds_a_password() {
    let server = Server::with(&["--requirepass", SECRET]);
    let place = Place::on(&server);
    let url = format!("redis://:{SECRET}@127.0.0.1:{}", server.port());
    let broker = Broker::connect(&url).expect("a good URL");
    let broker = broker
        .with_handlers(handlers![handle])
        .with_state(place.journal.clone());
    let running = broker.start().await.expect("started");
    broker
        .publish("jobs", &Job::new("one", "reject"))
        .await
        .expect("published");
    running.drained().await.expect("drained");
    let letters = place.letters("jobs-dlq").await;
    let fields = letters.iter().flat_map(|letter| &letter.0);
    let text: Vec<_> = fields
        .map(|(name, value)| {
            [
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(value),
            ]
            .concat()
        })
        .collect();
    assert!(!text.is_empty());
    assert_hidden(&text.join("\n"));
    let publish = broker.publish("jobs", "a body").header("a", "b");
    for text in [
        format!("{broker} {broker:?} {broker:#?}"),
        format!("{running:?} {running:#?}"),
        format!("{publish:?} {publish:#?}"),
        format!("{:?}", broker.replay_dlq("jobs")),
        format!("{:#?} {:#?}", broker.health(), handlers![handle]),
    ] {
        assert_hidden(&text);
    }
    drop(publish);
    running.stop().await;
}

#[tokio::test]
async fn no_url_that_cannot_be_used_is_told() {
    let server = Server::with(&["--requirepass", "another"]);
    let place = Place::on(&server);
    let port = server.port();
    for url in [
        format!("redis://:{SECRET}@127.0.0.1:{port}"),
        format!("redis://{SECRET}:{SECRET}@127.0.0.1:{port}"),
        format!("http://u:{SECRET}@127.0.0.1:{port}"),
        format!("redis://u:{SECRET}@127.0.0.1:port"),
        format!("redis://u:{SECRET}@127.0.0.1:{port}/{SECRET}"),
        format!("redis://u:{SECRET}@"),
        format!("redis:/u:{SECRET}@127.0.0.1"),
        format!("u:{SECRET}@127.0.0.1"),
    ] {
        let mut process = loud(&place, &url);
        let error = process.error();
        assert!(error.len() > 10, "{url}: {error}");
        assert_hidden(&error);
        assert_hidden(&process.said().join("\n"));
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_without_the_password() {
    let server = Server::start();
    let place = Place::on(&server);
    let url = format!("redis://u:{SECRET}@127.0.0.1:{}", server.port());
    server.stop();
    let process = loud(&place, &url);
    process.wait_for_words("waiting for the server: cannot reach redis at 127.0.0.1:");
    assert_hidden(&all_said(process));
}
