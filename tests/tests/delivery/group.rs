//! A group, a stream or a whole data set that disappears under a running worker.

use std::time::Duration;

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::Server;
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, on_both_stores, until};

#[subscribe(
    stream = "jobs",
    group = "workers",
    claim_idle_ms = 200,
    concurrency = 3
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(stream = "jobs", group = "late", start = "$")]
async fn only_new(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

on_both_stores![a_new_group_begins_where_it_is_told];

async fn a_new_group_begins_where_it_is_told(place: Place) {
    place.publish_many("jobs", "old", 5, "ok").await;
    let late = place
        .worker(handlers![only_new])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "new", "ok").await;
    late.drained().await.expect("drained");
    assert_eq!(place.journal.all().len(), 1);
    assert_eq!(place.journal.deliveries("new"), [1]);
    let whole = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    whole.drained().await.expect("drained");
    place.journal.assert_once_each("old", 5);
    assert_eq!(place.journal.deliveries("new"), [1, 1]);
    late.stop().await;
    whole.stop().await;
}

/// What comes right after `destroy`, with no group there, is handled as well.
async fn all_five_after(server: &Server, destroy: &[&[&str]]) {
    let place = Place::on(server);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish_many("jobs", "before", 3, "ok").await;
    running.drained().await.expect("drained");
    for command in destroy {
        place.ask(command);
    }
    place.publish_many("jobs", "after", 5, "ok").await;
    until("all five have run", || {
        (0..5).all(|number| !place.journal.runs(&format!("after{number}")).is_empty())
    })
    .await;
    until("all are acked", || {
        let groups = place.ask(&["XINFO", "GROUPS", "jobs"]).list();
        groups.len() == 1 && place.pending("jobs", "workers").is_empty()
    })
    .await;
    place.journal.assert_once_each("after", 5);
    assert_eq!(place.length("jobs-dlq"), 0);
    let statistics = place.ask(&["INFO", "commandstats"]).text();
    let reads = statistics
        .lines()
        .find(|line| line.starts_with("cmdstat_xreadgroup:"));
    let calls = reads
        .expect("reads")
        .split(['=', ','])
        .nth(1)
        .expect("calls");
    assert!(
        calls.parse::<u32>().expect("a number") < 50,
        "no hot loop: {reads:?}"
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_follows_a_flush_is_handled() {
    all_five_after(&Server::start(), &[&["FLUSHALL"]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_follows_a_deletion_of_the_stream_is_handled() {
    all_five_after(&Server::start(), &[&["DEL", "jobs"]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_follows_a_destroyed_group_is_handled() {
    all_five_after(
        &Server::start(),
        &[&["XGROUP", "DESTROY", "jobs", "workers"]],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_was_overwritten_for_a_while_is_waited_for() {
    let overwrite: &[&[&str]] = &[
        &["SET", "jobs", "a string"],
        &["GET", "jobs"],
        &["DEL", "jobs"],
    ];
    all_five_after(&Server::start(), overwrite).await;
}

/// In one step with five messages, so that no worker can be in time.
async fn all_five_in_one_step_with(destroy: &[&str], id: impl Fn(usize) -> String) {
    let place = Place::redis();
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish_many("jobs", "before", 3, "ok").await;
    running.drained().await.expect("drained");
    // The worker looks at the group's state now and then, several times in this time.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    place.ask(&["MULTI"]);
    place.ask(destroy);
    for number in 0..5 {
        let body = Job::new(format!("after{number}"), "ok");
        let body = serde_json::to_string(&body).expect("JSON");
        place.ask(&["XADD", "jobs", &id(number), "data", &body]);
    }
    assert_eq!(place.ask(&["EXEC"]).list().len(), 6);
    until("all five have run", || {
        (0..5).all(|number| !place.journal.runs(&format!("after{number}")).is_empty())
    })
    .await;
    running.drained().await.expect("drained");
    place.journal.assert_once_each("after", 5);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_replaces_a_stream_is_handled() {
    all_five_in_one_step_with(&["DEL", "jobs"], |_| "*".into()).await;
}

/// As from a clock that is behind, or a copy of older data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_replaces_a_stream_with_older_ids_is_handled() {
    all_five_in_one_step_with(&["FLUSHDB"], |number| format!("5-{number}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_comes_with_the_end_of_a_group_is_handled() {
    all_five_in_one_step_with(&["XGROUP", "DESTROY", "jobs", "workers"], |_| "*".into()).await;
}

/// Twenty are acked and three in hand: only those three may run again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_destroyed_in_the_middle_of_runs_loses_and_repeats_nothing() {
    let place = Place::redis();
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish_many("jobs", "acked", 20, "ok").await;
    running.drained().await.expect("drained");
    place.publish_many("jobs", "hand", 3, "sleep:3000").await;
    until("three run", || place.journal.all().len() == 23).await;
    // The worker looks at the group's state now and then, several times in this time.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    place.ask(&["XGROUP", "DESTROY", "jobs", "workers"]);
    until("the group is there again", || {
        !place.ask(&["XINFO", "GROUPS", "jobs"]).list().is_empty()
    })
    .await;
    place.publish("jobs", "new", "ok").await;
    running.drained().await.expect("drained");
    place.journal.assert_once_each("acked", 20);
    place.journal.assert_once_each("hand", 3);
    assert_eq!(place.journal.deliveries("new"), [1]);
    assert_eq!(place.length("jobs-dlq"), 0);
    running.stop().await;
}

/// Nobody has the three in hand any more: they come again with the group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_destroyed_while_messages_wait_gives_them_back() {
    let place = Place::redis();
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish_many("jobs", "acked", 20, "ok").await;
    running.drained().await.expect("drained");
    place
        .publish_many("jobs", "waiting", 3, "later:60000,ok")
        .await;
    until("three have failed", || place.journal.ended() == 23).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    place.ask(&["XGROUP", "DESTROY", "jobs", "workers"]);
    until("they are handed out afresh", || place.journal.ended() == 26).await;
    place.journal.assert_once_each("acked", 20);
    for number in 0..3 {
        let deliveries = place.journal.deliveries(&format!("waiting{number}"));
        assert_eq!(deliveries, [1, 1], "the new group counts anew");
    }
    running.stop().await;
}
