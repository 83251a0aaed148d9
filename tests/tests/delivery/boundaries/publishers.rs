//! What others do: publications and replays.

use std::time::Duration;

use rillkit::Broker;
use rillkit_servers::{Proxy, Server, wait_until};
use rillkit_tests::Job;

use super::{Boundary, is_settled, script, word};
use crate::place::Place;
use crate::process::Process;

/// A process that publishes or replays, broken at `boundary`; what it says that it was told.
fn act_at(place: &Place, proxy: &Proxy, act: &str, word: &str, boundary: Boundary) -> Vec<String> {
    boundary.set(proxy, word);
    let url = proxy.url();
    let mut process = Process::with(place, "jobs", &[("REDIS_URL", &url), ("ACT", act)]);
    boundary.wait_for(proxy);
    if boundary.kills() {
        process.kill();
    } else {
        assert!(process.wait().success());
    }
    process.said()
}

/// What the publisher is told, and how many entries there are.
const PUBLISHED: [(Boundary, &[&str], i64); 4] = [
    (Boundary::ReplyLost, &["told Unknown"], 1),
    (Boundary::RequestLost, &["told Unknown"], 0),
    (Boundary::KilledBefore, &[], 0),
    (Boundary::KilledAfter, &[], 1),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_publication() {
    for (boundary, told, entries) in PUBLISHED {
        let server = Server::start();
        let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
        let said = act_at(&place, &proxy, "publish", "XADD", boundary);
        assert_eq!(said, told, "{boundary:?}");
        assert_eq!(place.length("jobs"), entries, "{boundary:?}");
    }
}

/// The same with an id: a lost answer is asked for again, so that it is told.
const PUBLISHED_ONCE: [(Boundary, &[&str], i64); 4] = [
    (Boundary::ReplyLost, &["told 1"], 1),
    (Boundary::RequestLost, &["told 1"], 1),
    (Boundary::KilledBefore, &[], 0),
    (Boundary::KilledAfter, &[], 1),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_publication_with_an_id() {
    for (boundary, told, entries) in PUBLISHED_ONCE {
        let server = Server::start();
        let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
        let word = word(&place, "", script!("publish_once"));
        let said = act_at(&place, &proxy, "publish_once", &word, boundary);
        assert_eq!(said, told, "{boundary:?}");
        assert_eq!(place.length("jobs"), entries, "{boundary:?}");
        // Whoever publishes it again adds it, or nothing.
        for _ in 0..2 {
            let again = place.broker.publish("jobs", &Job::new("job", "ok"));
            again.id("job").await.expect("published");
        }
        assert_eq!(place.length("jobs"), 1, "{boundary:?}");
    }
}

/// What the one that delays a job is told, and how many wait then.
const DELAYED: [(Boundary, &[&str], u64); 4] = [
    (Boundary::ReplyLost, &["told Unknown"], 1),
    (Boundary::RequestLost, &["told Unknown"], 0),
    (Boundary::KilledBefore, &[], 0),
    (Boundary::KilledAfter, &[], 1),
];
const DELAYED_ONCE: [(Boundary, &[&str], u64); 4] = [
    (Boundary::ReplyLost, &["told 1"], 1),
    (Boundary::RequestLost, &["told 1"], 1),
    (Boundary::KilledBefore, &[], 0),
    (Boundary::KilledAfter, &[], 1),
];

async fn delay_at(act: &str, boundary: Boundary, told: &[&str], waits: u64) {
    let server = Server::start();
    let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
    let word = word(&place, "", script!("publish_later"));
    let said = act_at(&place, &proxy, act, &word, boundary);
    assert_eq!(said, told, "{boundary:?}");
    let waiting = place.broker.delayed("jobs").await.expect("a page");
    assert_eq!(waiting.total, waits, "{boundary:?}");
    assert_eq!(place.length("jobs"), 0, "{boundary:?}");
    if act == "delay_once" {
        // Whoever delays it again adds one that waits, or nothing.
        let again = place.broker.publish("jobs", &Job::new("job", "ok"));
        let again = again.id("job").delay(Duration::from_millis(300)).await;
        assert_eq!(again.expect("delayed").as_str(), "job");
    }
    let worker = Process::start(&place, "jobs");
    let entries = if act == "delay_once" { 1 } else { waits as i64 };
    wait_until("it is added", || place.length("jobs") == entries);
    let waiting = place.broker.delayed("jobs").await.expect("a page");
    assert_eq!(waiting.total, 0, "{boundary:?}");
    wait_until("it is handled", || worker.ended().len() as i64 == entries);
    assert_eq!(place.length("jobs"), entries, "{boundary:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_delayed_publication() {
    for (boundary, told, waits) in DELAYED {
        delay_at("delay", boundary, told, waits).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_delayed_publication_with_an_id() {
    for (boundary, told, waits) in DELAYED_ONCE {
        delay_at("delay_once", boundary, told, waits).await;
    }
}

/// A worker that adds a delayed job, broken at each boundary: it is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_promotion() {
    for boundary in Boundary::ALL {
        let server = Server::start();
        let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
        let publisher = Broker::connect(&place.url).expect("a good URL");
        let job = Job::new("job", "ok");
        let due = publisher
            .publish("jobs", &job)
            .delay(Duration::from_millis(200));
        let id = due.await.expect("delayed");
        drop(publisher);
        // The first command that names it is the one that adds it.
        boundary.set(&proxy, id.as_str());
        let url = proxy.url();
        let mut one = Process::with(&place, "jobs", &[("REDIS_URL", &url)]);
        boundary.wait_for(&proxy);
        if boundary.kills() {
            one.kill();
        }
        let added = i64::from(matches!(
            boundary,
            Boundary::ReplyLost | Boundary::KilledAfter
        ));
        assert_eq!(place.length("jobs"), added, "{boundary:?}");
        let other = boundary.kills().then(|| Process::start(&place, "jobs"));
        let runs = || one.ended().len() + other.as_ref().map_or(0, |other| other.ended().len());
        wait_until("it has run", || runs() >= 1);
        wait_until("it is settled", || is_settled(&place, "jobs"));
        assert_eq!(place.length("jobs"), 1, "{boundary:?}");
        // One that is killed may have run it, and not acked it yet.
        assert!(runs() == 1 || boundary.kills(), "{boundary:?}");
    }
}

/// What the one that replays is told, and how many of two letters it has moved; with the rest another one goes on.
const REPLAYED: [(Boundary, &[&str], i64); 4] = [
    (Boundary::ReplyLost, &["told Unknown"], 1),
    (Boundary::RequestLost, &["told Unknown"], 0),
    (Boundary::KilledBefore, &[], 0),
    (Boundary::KilledAfter, &[], 1),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_replay() {
    for (boundary, told, moved) in REPLAYED {
        let server = Server::start();
        let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
        for name in ["one", "other"] {
            let body = serde_json::to_string(&Job::new(name, "ok")).expect("JSON");
            place.ask(&["XADD", "jobs-dlq", "*", "data", &body, "x-stream", "jobs"]);
        }
        let word = word(&place, "", script!("replay"));
        let said = act_at(&place, &proxy, "replay", &word, boundary);
        assert_eq!(said, told, "{boundary:?}");
        assert_eq!(place.length("jobs"), moved, "{boundary:?}");
        assert_eq!(place.length("jobs-dlq"), 2 - moved, "{boundary:?}");
        assert_eq!(
            place.broker.replay_dlq("jobs").await,
            Ok(2 - moved as usize)
        );
        let worker = Process::start(&place, "jobs");
        wait_until("both are handled", || worker.ended().len() == 2);
        wait_until("and settled", || is_settled(&place, "jobs"));
        assert_eq!(place.length("jobs"), 2, "{boundary:?}");
    }
}
