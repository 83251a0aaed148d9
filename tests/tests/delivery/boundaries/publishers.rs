//! What others do: publications and replays.

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
