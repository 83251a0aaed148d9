//! Workers that die in the middle of their work: `kill -9`, messages that end the process, and workers that
//! only seemed dead.

use std::collections::{BTreeMap, BTreeSet};

use rillkit_servers::{Server, wait_until};

use crate::place::Place;
use crate::process::Process;

/// The names of the pending entries.
fn names_of_pending(place: &Place, stream: &str) -> BTreeSet<String> {
    let name = |(id, _, _): &(String, String, i64)| {
        let entry = place.ask(&["XRANGE", stream, id, id])[0][1][1].text();
        let job: rillkit_tests::Job = serde_json::from_str(&entry).expect("a job");
        job.name
    };
    place.pending(stream, "workers").iter().map(name).collect()
}

fn is_drained(place: &Place, stream: &str) -> bool {
    let group = place.ask(&["XINFO", "GROUPS", stream])[0].list();
    let delivered = group
        .chunks(2)
        .find(|field| field[0].text() == "last-delivered-id");
    let last = place.ask(&["XREVRANGE", stream, "+", "-", "COUNT", "1"])[0][0].text();
    delivered.expect("a position")[1].text() == last && place.pending(stream, "workers").is_empty()
}

fn expected_names(count: usize) -> BTreeSet<String> {
    (0..count).map(|number| format!("job{number}")).collect()
}

fn names(runs: &[(String, u64)]) -> BTreeSet<String> {
    runs.iter().map(|(name, _)| name.clone()).collect()
}

/// How often each job was started by any of the workers.
fn starts(workers: &[&Process]) -> BTreeMap<String, usize> {
    let mut starts = BTreeMap::new();
    for (name, _) in workers.iter().flat_map(|worker| worker.started()) {
        *starts.entry(name).or_default() += 1;
    }
    starts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_a_killed_worker_had_in_hand_is_taken_over_and_nothing_is_lost() {
    let place = Place::redis();
    place.publish_many("jobs", "job", 1000, "sleep:2").await;
    let mut one = Process::start(&place, "jobs");
    wait_until("300 have run", || one.ended().len() >= 300);
    one.kill();
    let in_hand = names_of_pending(&place, "jobs");
    let mut other = Process::start(&place, "jobs");
    wait_until("everything is handled", || is_drained(&place, "jobs"));
    other.kill();

    let mut ended = names(&one.ended());
    ended.extend(names(&other.ended()));
    assert_eq!(ended, expected_names(1000));
    assert_eq!(place.length("jobs-dlq"), 0);
    assert!(!in_hand.is_empty(), "it was killed in the middle");
    for (name, count) in starts(&[&one, &other]) {
        assert!(
            count == 1 || in_hand.contains(&name),
            "{name} ran {count} times"
        );
    }
    for (name, delivery) in other.started() {
        let expected = if in_hand.contains(&name) { 2 } else { 1 };
        assert_eq!(delivery, expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_retries_only_what_was_in_a_run_at_the_kill_is_dead() {
    let place = Place::redis();
    place.publish_many("once", "job", 1000, "sleep:5").await;
    let mut one = Process::start(&place, "once");
    wait_until("200 have run", || one.ended().len() >= 200);
    one.kill();
    let in_hand = names_of_pending(&place, "once");
    let mut other = Process::start(&place, "once");
    wait_until("everything is handled", || is_drained(&place, "once"));
    other.kill();

    let letters = place.letters("once-dlq").await;
    let dead: BTreeSet<_> = letters.iter().map(|letter| letter.job()).collect();
    assert_eq!(dead, in_hand);
    for letter in &letters {
        assert_eq!(letter.get("x-reason"), "exhausted");
        assert_eq!(letter.get("x-error"), "retries exhausted");
        assert_eq!(letter.get("x-deliveries"), "1");
    }
    let (started, finished) = (names(&one.started()), names(&one.ended()));
    // Four run at a time; the end of as many more was not acked yet, or their start not said yet.
    let running: BTreeSet<_> = started.difference(&finished).cloned().collect();
    assert!(running.is_subset(&dead), "{running:?} {dead:?}");
    assert!(dead.len() <= 12, "{dead:?}");
    assert!(starts(&[&one, &other]).values().all(|count| *count == 1));
    let mut handled = finished;
    handled.extend(names(&other.ended()));
    handled.extend(dead);
    assert_eq!(handled, expected_names(1000));
}

/// All slots are taken by what another handed back, while a read for them is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_retries_nothing_is_dead_that_was_read_and_not_started() {
    let server = Server::start();
    let place = Place::on(&server);
    place.publish_many("once", "long", 4, "sleep:60000").await;
    let mut first = Process::with(&place, "once", &[("GRACE_MS", "1")]);
    wait_until("all four run", || first.started().len() == 4);
    let mut second = Process::start(&place, "once");
    wait_until("the second waits for messages", || {
        place.blocked_reads() == 1
    });
    first.signal("TERM");
    assert!(first.wait().success());
    wait_until("all four run again", || second.started().len() == 4);
    place.publish("once", "new", "ok").await;
    wait_until("it is read", || place.pending("once", "workers").len() == 5);
    let handed_back = || {
        let pending = place.pending("once", "workers");
        pending
            .iter()
            .filter(|(_, _, deliveries)| *deliveries == 0)
            .count()
    };
    wait_until("it is given back", || handed_back() == 1);
    second.kill();
    let third = Process::start(&place, "once");
    third.wait_for("end new 1");
    wait_until("the others are dead", || place.length("once-dlq") == 4);
    let letters = place.letters("once-dlq").await;
    assert!(
        letters
            .iter()
            .all(|letter| letter.job().starts_with("long"))
    );
    assert!(
        letters
            .iter()
            .all(|letter| letter.get("x-deliveries") == "1")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn acked_first_loses_the_one_in_hand_at_most() {
    let place = Place::redis();
    place.publish_many("first", "job", 10, "sleep:300").await;
    let mut one = Process::start(&place, "first");
    one.wait_for("start job1 1");
    one.kill();
    let mut other = Process::start(&place, "first");
    wait_until("the last has run", || {
        is_drained(&place, "first") && other.has_said("end job9 1") || other.has_said("end job9 2")
    });
    wait_until("everything is acked", || is_drained(&place, "first"));
    other.kill();
    let mut started = names(&one.started());
    let ended = names(&other.ended());
    assert!(started.is_disjoint(&ended), "{started:?} {ended:?}");
    started.extend(ended);
    // Acked, and killed before it could say that it starts.
    assert!(started.len() >= 9, "{started:?}");
    assert_eq!(place.length("first-dlq"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_message_that_ends_the_process_dies_and_the_others_live() {
    let place = Place::redis();
    place.publish_many("single", "before", 10, "ok").await;
    place.publish("single", "poison", "abort").await;
    place.publish_many("single", "after", 10, "ok").await;
    let mut workers = vec![Process::start(&place, "single")];
    wait_until("everything is handled or dead", || {
        let last = workers.last_mut().expect("a worker");
        if last.has_ended() {
            workers.push(Process::start(&place, "single"));
        }
        place.ask(&["EXISTS", "single"]).int() == 1
            && !place.ask(&["XINFO", "GROUPS", "single"]).list().is_empty()
            && is_drained(&place, "single")
    });
    workers.last_mut().expect("a worker").kill();
    let started: Vec<_> = workers.iter().flat_map(Process::started).collect();
    let poison: Vec<_> = started
        .iter()
        .filter(|(name, _)| name == "poison")
        .collect();
    let deliveries: Vec<_> = poison.iter().map(|(_, delivery)| *delivery).collect();
    assert_eq!(deliveries, [1, 2, 3]);
    let ended = workers.iter().flat_map(Process::ended).collect::<Vec<_>>();
    assert_eq!(names(&ended).len(), 20);
    let letters = place.letters("single-dlq").await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0].job(), "poison");
    assert_eq!(letters[0].get("x-reason"), "exhausted");
    assert_eq!(letters[0].get("x-error"), "retries exhausted");
    assert_eq!(letters[0].get("x-deliveries"), "3");
}

/// Frozen past its lease, one worker loses a message to another, and then goes on.
async fn a_late_owner(late_end: &str) {
    let place = Place::redis();
    let late = Process::start(&place, "single");
    let does = format!("sleep:300+{late_end},sleep:2000");
    let id = place.publish("single", "job", &does).await;
    late.wait_for("start job 1");
    late.freeze();
    let other = Process::start(&place, "single");
    other.wait_for("start job 2");
    late.signal("CONT");
    late.wait_for("end job 1");
    // Whatever the late end leads to is decided before the next message of this worker is read. The other
    // one waits at the server for a message too.
    place.publish_many("single", "next", 2, "ok").await;
    wait_until("it goes on", || late.ended().len() > 1);
    let pending = place.pending("single", "workers");
    let job = pending.iter().find(|(pending, _, _)| *pending == id);
    assert_eq!(
        job.map(|(_, _, deliveries)| *deliveries),
        Some(2),
        "{pending:?}"
    );
    assert_eq!(place.length("single-dlq"), 0);

    other.wait_for("end job 2");
    wait_until("it is acked", || is_drained(&place, "single"));
    assert_eq!(place.length("single-dlq"), 0);
    let runs = [late.started(), other.started()].concat();
    let of_job: Vec<_> = runs.iter().filter(|(name, _)| name == "job").collect();
    assert_eq!(of_job, [&("job".into(), 1), &("job".into(), 2)]);
    assert_eq!(runs.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_late_owner_does_not_ack() {
    a_late_owner("ok").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_late_owner_does_not_dead_letter() {
    a_late_owner("reject").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_late_owner_does_not_retry() {
    a_late_owner("err").await;
}
