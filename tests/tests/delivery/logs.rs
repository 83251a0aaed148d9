//! What a worker says about its server, and how an error's text comes out.

use rillkit::{handlers, subscribe};
use rillkit_servers::Server;
use rillkit_tests::Job;

use crate::lines::Lines;
use crate::place::Place;

#[subscribe(stream = "jobs", group = "workers", max_retries = 0)]
async fn fail_at_length(_job: Job) -> Result<(), String> {
    Err("long \u{1b}[31mred\r\nlines\0 ".repeat(500_000))
}

async fn a_huge_error_is_one_short_line(place: Place) {
    let lines = Lines::listen();
    let broker = place.worker(handlers![fail_at_length]);
    let running = broker.start().await.expect("started");
    place.publish("jobs", "one", "ok").await;
    running.drained().await.expect("drained");
    running.stop().await;
    let letter = place.letters("jobs-dlq").await.remove(0);
    assert_eq!(letter.get("x-error").chars().count(), 1000);
    assert_eq!(lines.with("handler failed for message").len(), 1);
    assert_eq!(lines.with("moving message").len(), 1);
    for line in lines.all() {
        assert!(line.len() < 8_000, "{} bytes: {line}", line.len());
        assert!(!line.contains(char::is_control), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_huge_error_is_one_short_line_in_process() {
    a_huge_error_is_one_short_line(Place::memory()).await;
}

#[tokio::test]
async fn a_huge_error_is_one_short_line_on_redis() {
    a_huge_error_is_one_short_line(Place::redis()).await;
}

#[tokio::test]
async fn a_start_tells_what_the_server_is() {
    let (lines, server) = (Lines::listen(), Server::start());
    let broker = Place::on(&server).worker(handlers![fail_at_length]);
    let running = broker.start().await.expect("started");
    running.stop().await;
    let said = lines.with(" INFO rillkit: server: ");
    let [major, minor, patch] = Server::version();
    assert_eq!(said.len(), 1, "{said:?}");
    for words in [
        format!(" {major}.{minor}.{patch} at 127.0.0.1:{} ", server.port()),
        "| eviction: noeviction | persistence: none | mode: standalone | handlers: 1 | connections: 3".to_owned(),
    ] {
        assert!(said[0].contains(&words), "{said:?}");
    }
    assert_eq!(lines.with(" WARN "), [""; 0]);
}

#[tokio::test]
async fn an_eviction_policy_that_drops_streams_is_warned_about() {
    let server = Server::with(&["--appendonly", "yes"]);
    for (policy, words) in [
        ("allkeys-lru", "it drops streams"),
        ("volatile-ttl", "it drops keys that have an expiry"),
    ] {
        let lines = Lines::listen();
        server.command(&["CONFIG", "SET", "maxmemory-policy", policy]);
        let broker = Place::on(&server).worker(handlers![fail_at_length]);
        broker.start().await.expect("started").stop().await;
        let said = lines.with(" WARN rillkit: the server's eviction policy is ");
        assert_eq!(said.len(), 1, "{:?}", lines.all());
        assert!(
            said[0].contains(policy) && said[0].contains(words),
            "{said:?}"
        );
        assert_eq!(lines.with("persistence: aof").len(), 1);
    }
}

#[tokio::test]
async fn what_the_server_does_not_tell_is_unknown() {
    let (lines, server) = (Lines::listen(), Server::start());
    let broker = Place::on(&server).worker(handlers![fail_at_length]);
    server.command(&["ACL", "SETUSER", "default", "-info", "-config"]);
    broker.start().await.expect("started").stop().await;
    let said = lines.with("server: unknown unknown at ");
    assert_eq!(said.len(), 1, "{:?}", lines.all());
    assert_eq!(lines.with(" WARN "), [""; 0]);
}

#[tokio::test]
async fn in_process_there_is_a_line_too() {
    let lines = Lines::listen();
    let broker = Place::memory().worker(handlers![fail_at_length]);
    broker.start().await.expect("started").stop().await;
    assert_eq!(lines.with("server: in process").len(), 1);
}
