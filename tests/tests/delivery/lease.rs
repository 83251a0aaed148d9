//! A run that outlasts its lease many times over, with a second worker waiting for the message.

use rillkit_servers::wait_until;

use crate::place::Place;
use crate::process::Process;

/// The lease is 200 ms.
async fn one_run(does: &str, variables: &[(&str, &str)]) {
    let place = Place::redis();
    let one = Process::with(&place, "single", variables);
    let id = place.publish("single", "job", does).await;
    one.wait_for("start job 1");
    let other = Process::with(&place, "single", variables);
    wait_until("the run has ended", || {
        let pending = place.pending("single", "workers");
        assert!(
            pending
                .iter()
                .all(|(pending, _, deliveries)| *pending == id && *deliveries == 1)
        );
        one.has_said("end job 1")
    });
    wait_until("it is acked", || {
        place.pending("single", "workers").is_empty()
    });
    assert_eq!(one.started(), [("job".into(), 1)]);
    assert!(other.said().is_empty());
    assert_eq!(place.length("single-dlq"), 0);
}

#[tokio::test]
async fn a_run_of_ten_leases_that_awaits_is_the_only_one() {
    one_run("sleep:2000", &[]).await;
}

#[tokio::test]
async fn a_run_of_ten_leases_that_blocks_its_thread_is_the_only_one() {
    one_run("block:2000", &[]).await;
}

#[tokio::test]
async fn a_run_of_ten_leases_that_blocks_the_only_thread_is_the_only_one() {
    one_run("block:2000", &[("ONE_THREAD", "1")]).await;
}

/// Quick runs before it let the handler be polled where the loop stands. What was read ahead keeps its lease
/// meanwhile; what a read brings that nobody can look at is taken over, and then not run late as well.
#[tokio::test]
async fn a_blocked_thread_lets_nothing_run_twice() {
    let place = Place::redis();
    place.publish_many("single", "quick", 100, "ok").await;
    place.publish("single", "job", "block:2000").await;
    place.publish_many("single", "later", 100, "ok").await;
    let one = Process::with(&place, "single", &[("ONE_THREAD", "1")]);
    one.wait_for("start job 1");
    let other = Process::start(&place, "single");
    wait_until("everything is handled", || {
        one.has_said("end job 1")
            && place.pending("single", "workers").is_empty()
            && one.ended().len() + other.ended().len() >= 201
    });
    let mut runs = [one.started(), other.started()].concat();
    assert!(runs.contains(&("job".into(), 1)));
    runs.sort();
    let all = runs.len();
    runs.dedup_by_key(|(name, _)| name.clone());
    assert_eq!((runs.len(), all), (201, 201));
    assert_eq!(place.length("single-dlq"), 0);
}

/// A read is under way when the handler blocks the only thread: what it brings keeps its lease, and a
/// worker without retries does not lose it unrun.
#[tokio::test]
async fn what_arrives_at_a_blocked_thread_is_not_taken_for_dead() {
    let place = Place::redis();
    let one = Process::with(&place, "once", &[("ONE_THREAD", "1")]);
    wait_until("it reads", || place.blocked_reads() > 0);
    place.publish("once", "job", "block:3000").await;
    one.wait_for("start job 1");
    let other = Process::start(&place, "once");
    // Two readers stand in line; one of these goes to the blocked one.
    place.publish_many("once", "next", 2, "ok").await;
    wait_until("everything is handled", || {
        one.ended().len() + other.ended().len() == 3 && place.pending("once", "workers").is_empty()
    });
    place.publish("once", "last", "ok").await;
    wait_until("it goes on", || {
        one.ended().len() + other.ended().len() == 4
    });
    assert_eq!(place.length("once-dlq"), 0);
}
