//! Trims that spare what a group needs, by hand and while handlers run.

use std::time::Duration;

use rillkit::{ErrorKind, HandlerError, HoldReason, Message, State, handlers, subscribe};
use rillkit_servers::Server;
use rillkit_tests::Job;

use crate::lines::Lines;
use crate::place::{Journal, Place, act, on_both_stores, until};

#[subscribe(
    stream = "jobs",
    group = "workers",
    claim_idle_ms = 200,
    concurrency = 8
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(stream = "jobs", group = "slow", claim_idle_ms = 200)]
async fn handle_slowly(job: Job, msg: Message, journal: State<Journal>) {
    let _ends = journal.begin(&format!("slow {}", job.name), &msg);
    tokio::time::sleep(Duration::from_millis(1)).await;
}

on_both_stores![
    what_holds_a_stream_back_is_told,
    a_stream_is_trimmed_again_and_again_while_its_handlers_run,
];

async fn what_holds_a_stream_back_is_told(place: Place) {
    let broker = place.worker(handlers![handle, handle_slowly]);
    let running = broker
        .clone()
        .only(["handle"])
        .start()
        .await
        .expect("started");
    for name in ["one", "two"] {
        place.publish("jobs", name, "ok").await;
    }
    running.drained().await.expect("drained");
    let waiting = place.publish("jobs", "three", "later:60000,ok").await;
    place.publish("jobs", "four", "ok").await;
    until("all have run", || place.journal.ended() == 4).await;
    // The acks of those that are done are on their way.
    let mut look = broker.trim("jobs").dry_run().await.expect("looked at");
    while look.holds[0].count != Some(1) {
        tokio::time::sleep(Duration::from_millis(2)).await;
        look = broker.trim("jobs").dry_run().await.expect("looked at");
    }
    assert_eq!((look.removed, look.left, look.groups), (2, 2, 1));
    let trimmed = broker.trim("jobs").await.expect("trimmed");
    assert_eq!(trimmed, look);
    let hold = trimmed.held_back_by().expect("a hold");
    assert_eq!(
        (&*hold.group, hold.reason),
        ("workers", HoldReason::Pending)
    );
    assert_eq!(hold.from.to_string(), waiting);
    // Another group begins with what is there.
    let slow = broker
        .clone()
        .only(["handle_slowly"])
        .start()
        .await
        .expect("started");
    slow.drained().await.expect("drained");
    slow.stop().await;
    running.stop().await;
    let last = place.publish("jobs", "five", "ok").await;
    let trimmed = broker
        .trim("jobs")
        .ignoring(["workers"])
        .await
        .expect("trimmed");
    assert_eq!((trimmed.removed, trimmed.left, trimmed.groups), (2, 1, 1));
    let hold = trimmed.held_back_by().expect("a hold");
    assert_eq!((&*hold.group, hold.reason), ("slow", HoldReason::Unread));
    assert!(hold.from.to_string() <= last && hold.count.is_none_or(|count| count == 1));
    let both = broker.trim("jobs").ignoring(["workers", "slow"]);
    let trimmed = both.clone().await.expect("trimmed");
    assert_eq!((trimmed.removed, trimmed.left, trimmed.groups), (0, 1, 0));
    let told = both.even_without_groups().await.expect("trimmed");
    assert_eq!((told.removed, told.left), (1, 0));
    let error = broker.trim("").await.expect_err("no name");
    assert_eq!(error.kind(), ErrorKind::Input);
}

async fn a_stream_is_trimmed_again_and_again_while_its_handlers_run(place: Place) {
    let every = Duration::from_millis(100);
    let broker = place
        .worker(handlers![handle])
        .trim_every(every, "jobs", |trim| trim.keep(3));
    let running = broker.start().await.expect("started");
    for round in 0..3 {
        place
            .publish_many("jobs", &format!("round{round}-"), 20, "ok")
            .await;
        running.drained().await.expect("drained");
        while broker.trim("jobs").dry_run().await.expect("looked at").left > 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_to_trims_in_the_middle_of_the_work() {
    let place = Place::redis();
    let broker = place.worker(handlers![handle, handle_slowly]);
    let running = broker.start().await.expect("started");
    let trimming = tokio::spawn({
        let broker = broker.clone();
        async move {
            let mut removed = 0;
            while removed < 1_200 {
                removed += broker.trim("jobs").await.expect("trimmed").removed;
            }
            removed
        }
    });
    for round in 0..10 {
        place
            .publish_many("jobs", &format!("ok{round}-"), 100, "ok")
            .await;
        place
            .publish_many("jobs", &format!("retried{round}-"), 20, "err,ok")
            .await;
    }
    running.drained().await.expect("drained");
    let removed = tokio::time::timeout(Duration::from_secs(30), trimming).await;
    assert_eq!(removed.expect("in time").expect("no panic"), 1_200);
    assert_eq!(place.length("jobs"), 0);
    let health = running.health();
    assert!(
        health
            .handlers
            .iter()
            .all(|handler| handler.lost_entries == 0),
        "{health:?}"
    );
    for round in 0..10 {
        place.journal.assert_once_each(&format!("ok{round}-"), 100);
        place
            .journal
            .assert_once_each(&format!("slow ok{round}-"), 100);
        place
            .journal
            .assert_once_each(&format!("slow retried{round}-"), 20);
        for number in 0..20 {
            let name = format!("retried{round}-{number}");
            assert_eq!(place.journal.deliveries(&name), [1, 2], "{name}");
        }
    }
    assert_eq!(place.length("jobs-dlq"), 0);
    running.stop().await;
}

#[tokio::test]
async fn a_trim_that_is_refused_is_said_once_and_tried_again() {
    let (lines, server) = (Lines::listen(), Server::start());
    let place = Place::on(&server);
    place.ask(&["ACL", "SETUSER", "default", "-xtrim"]);
    let every = Duration::from_millis(100);
    let broker = place
        .worker(handlers![handle])
        .trim_every(every, "jobs", |trim| trim);
    let running = broker.start().await.expect("started");
    place.publish("jobs", "one", "ok").await;
    running.drained().await.expect("drained");
    // Each trim looks at the length first.
    let trims = || {
        let stats = server.command(&["INFO", "commandstats"]).text();
        let of_it = stats
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_xlen:calls="));
        let calls = of_it.and_then(|line| line.split(',').next()?.parse::<u32>().ok());
        calls.unwrap_or(0)
    };
    until("it was tried again and again", || trims() >= 4).await;
    assert_eq!(place.length("jobs"), 1);
    let error = broker.trim("jobs").await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    place.ask(&["ACL", "SETUSER", "default", "+xtrim"]);
    until("it is trimmed", || place.length("jobs") == 0).await;
    let done = "DEBUG rillkit: trimmed jobs: removed 1, 0 are left";
    until("it is said", || !lines.with(done).is_empty()).await;
    running.stop().await;
    let said = lines.with("trimming `jobs` failed");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains(" WARN ") && said[0].ends_with("it is tried again"),
        "{said:?}"
    );
}
