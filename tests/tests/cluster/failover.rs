//! Nodes that are replaced by their replicas: consuming goes on.

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::{Cluster, Reply, Server};
use rillkit_tests::Job;

use crate::scene::{Journal, Scene, act, until};

#[subscribe(
    stream = "{jobs}",
    group = "workers",
    block_ms = 500,
    claim_idle_ms = 1000,
    concurrency = 2
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

const STREAM: &str = "{jobs}";
const JOBS: usize = 200;

/// Three nodes and a replica of the one that has the stream; the places of both.
fn replicated() -> (Scene, usize, usize) {
    let mut cluster = Cluster::start(3);
    let master = cluster.owner(STREAM);
    let replica = cluster.add_replica(master);
    (Scene::on(cluster), master, replica)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_costs_no_delivery() {
    let (scene, _, replica) = replicated();
    let running = scene.start(handlers![handle]).await;
    scene.publish_many(STREAM, "job", JOBS, "sleep:5").await;
    until("some have run", || scene.journal.len() > 20).await;
    scene.cluster.nodes()[replica].command(&["CLUSTER", "FAILOVER"]);
    until("the replica has taken over", || {
        scene.cluster.owner(STREAM) == replica
    })
    .await;
    scene.publish_many(STREAM, "late", 20, "ok").await;
    until("all have run", || {
        scene.journal.has_run("job", JOBS) && scene.journal.has_run("late", 20)
    })
    .await;
    scene.settled(STREAM).await;
    scene.journal.assert_once_each("job", JOBS);
    scene.journal.assert_once_each("late", 20);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_loses_nothing_that_its_replica_has() {
    replaced(Server::stop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_does_one_that_hangs() {
    replaced(Server::freeze).await;
}

/// Lets the node of the stream fail in the middle of work.
async fn replaced(fail: fn(&Server)) {
    let (scene, master, replica) = replicated();
    let (node, replica) = (
        &scene.cluster.nodes()[master],
        &scene.cluster.nodes()[replica],
    );
    let running = scene.start(handlers![handle]).await;
    scene.publish_many(STREAM, "job", JOBS, "sleep:5").await;
    assert_eq!(replicas_reached(node, "last"), 1);
    until("some have run", || scene.journal.len() > 20).await;
    fail(node);
    until("the replica has taken over", || {
        matches!(replica.command(&["XLEN", STREAM]), Reply::Int(_))
    })
    .await;
    until("all have run", || {
        scene.journal.has_run("job", JOBS) && !scene.journal.deliveries("last").is_empty()
    })
    .await;
    // The publisher has not heard of it: its first try may find a broken connection.
    let late = Job::new("late", "ok");
    let mut published = scene.broker.publish(STREAM, &late).await;
    while published.is_err() {
        published = scene.broker.publish(STREAM, &late).await;
    }
    until("it has run", || {
        !scene.journal.deliveries("late").is_empty()
    })
    .await;
    until("nothing is pending", || {
        replica.command(&["XPENDING", STREAM, "workers"])[0].int() == 0
    })
    .await;
    running.stop().await;
}

/// Adds a job and says how many replicas have it, and all before it.
fn replicas_reached(node: &Server, name: &str) -> i64 {
    let mut client = node.connect();
    let body = serde_json::to_string(&Job::new(name, "ok")).expect("JSON");
    client
        .command(&["XADD", STREAM, "*", "data", &body])
        .expect("an answer");
    client
        .command(&["WAIT", "1", "20000"])
        .expect("an answer")
        .int()
}
