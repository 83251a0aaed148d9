//! Slots that move from node to node: nothing is lost, and nothing runs twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_tests::Job;

use crate::scene::{Journal, Scene, act, jobs, until};

#[subscribe(
    stream = "{jobs}",
    group = "workers",
    max_retries = 1,
    claim_idle_ms = 300,
    block_ms = 1_000,
    concurrency = 8
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

const STREAM: &str = "{jobs}";

/// Whether a reader waits at one of the nodes.
fn is_blocked(scene: &Scene) -> bool {
    scene.cluster.nodes().iter().any(|node| {
        let info = node.command(&["INFO", "clients"]).text();
        !info.contains("blocked_clients:0\r\n")
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_reader_follows_its_stream() {
    let scene = Scene::new(2);
    let running = scene.start(handlers![handle]).await;
    for round in 0..4 {
        let name = |part: &str| format!("{part}{round}");
        until("the reader waits", || is_blocked(&scene)).await;
        let to = 1 - scene.cluster.owner(STREAM);
        let migration = scene.cluster.migration(STREAM, to);
        scene.publish(STREAM, &name("still-there"), "ok").await;
        until("it has run", || {
            scene.journal.deliveries(&name("still-there")) == [1]
        })
        .await;
        migration.move_keys();
        // The old node sends on whoever asks, command by command. An old server does not wake a reader
        // whose stream has left: its read ends with its block time.
        scene.publish(STREAM, &name("on-its-way"), "ok").await;
        scene
            .publish_many(STREAM, &name("many-on-their-way"), 50, "ok")
            .await;
        until("it has run", || {
            scene.journal.deliveries(&name("on-its-way")) == [1]
        })
        .await;
        migration.finish();
        scene.publish(STREAM, &name("moved"), "ok").await;
        until("it has run", || {
            scene.journal.deliveries(&name("moved")) == [1]
        })
        .await;
        scene.settled(STREAM).await;
        scene
            .journal
            .assert_once_each(&name("many-on-their-way"), 50);
    }
    assert_eq!(scene.length("{jobs}-dlq"), 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_hand_keeps_its_fence_and_its_lease() {
    let scene = Scene::new(2);
    let (one, other) = (
        scene.start(handlers![handle]).await,
        scene.start(handlers![handle]).await,
    );
    // On both sides of the move, and longer than the lease: the other worker would take them.
    scene.publish_many(STREAM, "long", 6, "sleep:3000").await;
    scene.publish(STREAM, "retried", "sleep:1500+err,ok").await;
    scene.publish(STREAM, "dead", "sleep:1500+err").await;
    until("all run", || scene.journal.has_run("long", 6)).await;
    let migration = scene
        .cluster
        .migration(STREAM, 1 - scene.cluster.owner(STREAM));
    migration.move_keys();
    // Several leases long the slot is between the nodes.
    let began = std::time::Instant::now();
    until("leases were renewed", || {
        began.elapsed() > Duration::from_millis(900)
    })
    .await;
    migration.finish();
    until("the retries have run", || {
        scene.journal.deliveries("retried").len() == 2
            && scene.journal.deliveries("dead").len() == 2
    })
    .await;
    scene.settled(STREAM).await;
    scene.journal.assert_once_each("long", 6);
    assert_eq!(scene.journal.deliveries("retried"), [1, 2]);
    assert_eq!(scene.journal.deliveries("dead"), [1, 2]);
    assert_eq!(scene.length("{jobs}-dlq"), 1);
    one.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moves_in_the_middle_of_work_cost_nothing() {
    const MOVES: usize = 6;
    const BATCH: usize = 300;
    let scene = Scene::new(2);
    let running = scene.start(handlers![handle]).await;
    let moved = Arc::new(AtomicBool::new(false));
    let publishing = tokio::spawn({
        let (broker, journal) = (scene.broker.clone(), scene.journal.clone());
        let moved = Arc::clone(&moved);
        async move {
            let mut ids = Vec::new();
            for batch in 0.. {
                if moved.load(Ordering::Relaxed) {
                    break;
                }
                let prefix = format!("batch{batch}-");
                let jobs = jobs(&prefix, BATCH, "ok");
                ids.extend(broker.publish_all(STREAM, &jobs).await.expect("published"));
                until("the batch has run", || journal.has_run(&prefix, BATCH)).await;
                journal.assert_once_each(&prefix, BATCH);
            }
            ids
        }
    });
    for _ in 0..MOVES {
        let to = 1 - scene.cluster.owner(STREAM);
        tokio::task::block_in_place(|| scene.cluster.move_slot(STREAM, to));
        let length = scene.length(STREAM);
        until("work goes on", || scene.length(STREAM) > length).await;
    }
    moved.store(true, Ordering::Relaxed);
    let ids = publishing.await.expect("no panic");
    assert!(ids.is_sorted());
    let published = i64::try_from(ids.len()).expect("a count");
    assert_eq!(scene.length(STREAM), published);
    scene.settled(STREAM).await;
    assert_eq!(scene.journal.len(), ids.len());
    running.stop().await;
}
