//! A client that knows nothing but the wire: it shares a group by the rules of Redis and one formula, as
//! Python RillKit does. Neither takes what the other works on, and both see the same counts.

use std::time::{Duration, Instant};

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, until};

const LEASE: i64 = 300;

#[subscribe(stream = "jobs", group = "workers", claim_idle_ms = 300, backoff = 2.0)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

/// The delay after failed delivery number `deliveries`.
fn delay(deliveries: i64) -> i64 {
    LEASE << (deliveries - 1)
}

/// A consumer that speaks plain commands.
struct Peer<'a> {
    place: &'a Place,
}

/// What the peer was handed: id, the job's name, the delivery.
type Handed = (String, String, i64);

impl Peer<'_> {
    fn read(&self) -> Option<Handed> {
        let read = [
            "XREADGROUP",
            "GROUP",
            "workers",
            "peer",
            "COUNT",
            "1",
            "STREAMS",
            "jobs",
            ">",
        ];
        let reply = self.place.ask(&read);
        (!reply.is_nil()).then(|| Self::handed(&reply[0][1][0], 1))
    }

    /// Takes over the first entry that is due by the formula, whoever has it.
    fn claim_due(&self) -> Option<Handed> {
        let rows = self
            .place
            .ask(&["XPENDING", "jobs", "workers", "-", "+", "100"])
            .list();
        for row in rows {
            let (id, idle, deliveries) = (row[0].text(), row[2].int(), row[3].int());
            let due = delay(deliveries);
            if idle < due {
                continue;
            }
            let claim = ["XCLAIM", "jobs", "workers", "peer", &due.to_string(), &id];
            let claimed = self.place.ask(&claim).list();
            if let Some(entry) = claimed.first() {
                return Some(Self::handed(entry, deliveries + 1));
            }
        }
        None
    }

    fn ack(&self, id: &str) {
        assert_eq!(self.place.ask(&["XACK", "jobs", "workers", id]).int(), 1);
    }

    fn handed(entry: &rillkit_servers::Reply, delivery: i64) -> Handed {
        let job: Job = serde_json::from_str(&entry[1][1].text()).expect("a job");
        (entry[0].text(), job.name, delivery)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_finds_nothing_due_while_a_handler_runs() {
    let place = Place::redis();
    let peer = Peer { place: &place };
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "job", "sleep:3000").await;
    until("the run has ended", || {
        assert_eq!(peer.claim_due(), None);
        place.journal.ended() == 1
    })
    .await;
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("job"), [1]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_finds_nothing_due_while_a_longer_delay_runs() {
    let place = Place::redis();
    let peer = Peer { place: &place };
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "job", "later:2000,ok").await;
    until("it has run again", || {
        let claimed = peer.claim_due();
        let first = place.journal.runs("job").first().and_then(|run| run.end);
        // Once it is due, either may have it.
        let waited = first.map_or(Duration::ZERO, |end| end.elapsed());
        assert!(
            claimed.is_none() || waited >= Duration::from_millis(1990),
            "{waited:?}"
        );
        if let Some((id, _, delivery)) = claimed {
            assert_eq!(delivery, 2);
            peer.ack(&id);
            return true;
        }
        place.journal.ended() == 2
    })
    .await;
    running.drained().await.expect("drained");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_peer_works_on_is_left_to_it_and_taken_over_when_its_lease_is_over() {
    let place = Place::redis();
    place.ask(&["XGROUP", "CREATE", "jobs", "workers", "0", "MKSTREAM"]);
    place.publish("jobs", "worked on", "ok").await;
    let peer = Peer { place: &place };
    let (id, _, delivery) = peer.read().expect("an entry");
    let read_at = Instant::now();
    assert_eq!(delivery, 1);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    // The peer keeps its lease by touching the entry, for three leases.
    while read_at.elapsed() < Duration::from_millis(900) {
        let touch = ["XCLAIM", "jobs", "workers", "peer", "0", &id, "JUSTID"];
        assert_eq!(place.ask(&touch)[0].text(), id);
        assert!(place.journal.all().is_empty(), "the peer has it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Taken with the last touch still fresh, were it not for the lease.
    let gone = Instant::now();
    until("it is taken over", || place.journal.ended() == 1).await;
    assert!(
        gone.elapsed() >= Duration::from_millis(250),
        "{:?}",
        gone.elapsed()
    );
    assert_eq!(place.journal.deliveries("worked on"), [2]);
    running.drained().await.expect("drained");
    assert_eq!(place.length("jobs-dlq"), 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_continued_by_a_peer_when_it_is_due_and_counted_on() {
    let place = Place::redis();
    let peer = Peer { place: &place };
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "job", "err").await;
    until("it has failed twice", || place.journal.ended() == 2).await;
    let failed = place.journal.runs("job")[1].end.expect("an end");
    running.stop().await;
    let mut claimed = None;
    until("the peer has it", || {
        claimed = peer.claim_due();
        claimed.is_some()
    })
    .await;
    let waited = failed.elapsed();
    assert!(waited >= Duration::from_millis(600 - 10), "{waited:?}");
    let (id, name, delivery) = claimed.expect("claimed");
    assert_eq!((name.as_str(), delivery), ("job", 3));
    // The peer fails it too, by leaving it, and RillKit goes on with the next number.
    let again = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    again.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("job"), [1, 2, 4]);
    let letters = place.letters("jobs-dlq").await;
    assert_eq!(letters[0].get("x-original-id"), id);
    assert_eq!(letters[0].get("x-deliveries"), "4");
    again.stop().await;
}

/// As after a stop: nothing was run, so the peer's delivery is the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_shares_the_work_of_a_group() {
    let place = Place::redis();
    let peer = Peer { place: &place };
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish_many("jobs", "job", 200, "sleep:5").await;
    let mut by_peer = Vec::new();
    until("everything is handled", || {
        if let Some((id, name, delivery)) = peer.read() {
            assert_eq!(delivery, 1);
            by_peer.push(name);
            peer.ack(&id);
        }
        assert_eq!(peer.claim_due(), None);
        by_peer.len() + place.journal.ended() >= 200
    })
    .await;
    running.drained().await.expect("drained");
    let by_us: Vec<_> = place
        .journal
        .all()
        .into_iter()
        .map(|run| run.name)
        .collect();
    assert!(!by_peer.is_empty() && !by_us.is_empty());
    let mut all = [by_peer, by_us].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 200);
    assert_eq!(place.journal.all().len(), place.journal.ended());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_worker_publishes_and_a_peer_publishes_is_the_same() {
    let place = Place::redis();
    let published = place.publish("jobs", "ours", "ok").await;
    let entry = place.ask(&["XRANGE", "jobs", &published, &published]);
    let fields = entry[0][1].list();
    assert_eq!(fields.len(), 2, "one field");
    assert_eq!(fields[0].text(), "data");
    assert_eq!(fields[1].text(), r#"{"name":"ours","does":"ok"}"#);
    let spaced = r#"{"does": "ok", "name": "theirs"}"#;
    place.ask(&["XADD", "jobs", "*", "data", spaced, "extra", "1"]);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("ours"), [1]);
    assert_eq!(place.journal.deliveries("theirs"), [1]);
    running.stop().await;
}
