//! What is refused, in words that say what to do, and what is waited for.

use rillkit::{Broker, Error, ErrorKind, State, handlers, subscribe};
use rillkit_servers::{Cluster, Server};
use rillkit_tests::Job;

use crate::scene::{Journal, Scene, act, until};

#[subscribe(stream = "jobs", group = "workers")]
async fn apart(_job: Job) {}

#[subscribe(stream = "{jobs}", group = "workers", block_ms = 500)]
async fn together(
    job: Job,
    msg: rillkit::Message,
    journal: State<Journal>,
) -> Result<(), rillkit::HandlerError> {
    act(job, msg, journal).await
}

async fn refused(broker: Broker) -> String {
    let error = broker.start().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    error.to_string()
}

#[track_caller]
fn assert_says(error: &str, words: &[&str]) {
    for word in words {
        assert!(error.contains(word), "`{word}` is not in: {error}");
    }
}

fn at(url: &str) -> Broker {
    Broker::connect(url).expect("a good URL")
}

#[tokio::test]
async fn a_dead_letter_queue_in_another_slot_is_refused_with_the_cure() {
    let cluster = Cluster::start(1);
    let broker = at(&cluster.url()).with_handlers(handlers![apart]);
    let cure = ["`jobs-dlq`", "different slots", "`dlq = \"{jobs}-dlq\"`"];
    assert_says(&refused(broker).await, &cure);
    assert_eq!(cluster.command("jobs", &["EXISTS", "jobs"]).int(), 0);

    // A replay would find nothing in a queue that cannot be there.
    let replayed: Result<usize, Error> = at(&cluster.url()).replay_dlq("jobs").await;
    let error = replayed.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_says(&error.to_string(), &["`.dlq(\"{jobs}-dlq\")`"]);
}

#[tokio::test]
async fn a_plain_url_of_a_node_is_told_the_right_one() {
    let cluster = Cluster::start(2);
    for node in cluster.nodes() {
        let broker = at(&node.url()).with_handlers(handlers![apart]);
        let url = format!("`redis+cluster://127.0.0.1:{}`", node.port());
        assert_says(
            &refused(broker).await,
            &["is a node of a redis cluster", &url],
        );
    }
    let stranger = &cluster.nodes()[1 - cluster.owner("jobs")];
    let published = at(&stranger.url()).publish("jobs", "a body").await;
    let error = published.expect_err("another node has it");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_says(&error.to_string(), &["`redis+cluster://`"]);
}

#[tokio::test]
async fn a_cluster_url_of_a_single_server_is_told_the_right_one() {
    let server = Server::start();
    let url = format!("redis+cluster://127.0.0.1:{}", server.port());
    let broker = at(&url).with_handlers(handlers![apart]);
    let broker = broker.only(["jobs"]);
    assert_says(&refused(broker).await, &["slots"]);
    let published = at(&url).publish("jobs", "a body").await;
    let error = published.expect_err("no cluster");
    assert_says(&error.to_string(), &["single server", "`redis://`"]);
}

#[tokio::test]
async fn the_login_of_the_url_is_for_every_node() {
    let cluster = Cluster::start(2);
    let streams = ["{a}", "{b}"];
    assert_ne!(cluster.owner("{a}"), cluster.owner("{b}"));
    for node in cluster.nodes() {
        node.command(&["CONFIG", "SET", "requirepass", "secret"]);
    }
    let nodes = cluster.url();
    let nodes = &nodes["redis+cluster://".len()..];
    let broker = at(&format!("redis+cluster://:secret@{nodes}"));
    for stream in streams {
        broker.publish(stream, "a body").await.expect("published");
    }
    let broker = at(&format!("redis+cluster://:wrong@{nodes}")).with_handlers(handlers![together]);
    let error = refused(broker.with_state(Journal::default())).await;
    assert_says(&error, &["WRONGPASS"]);
    assert!(!error.contains("wrong@"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_of_the_url_is_enough() {
    let scene = Scene::new(2);
    let gone = Server::start();
    let (dead, living) = (gone.port(), scene.cluster.nodes()[0].port());
    gone.stop();
    let url = format!("redis+cluster://127.0.0.1:{dead},127.0.0.1:{living}");
    let broker = at(&url)
        .with_handlers(handlers![together])
        .with_state(scene.journal.clone());
    let running = broker.start().await.expect("started");
    broker
        .publish("{jobs}", &Job::new("a", "ok"))
        .await
        .expect("published");
    until("it has run", || scene.journal.deliveries("a") == [1]).await;
    assert_eq!(broker.to_string(), url["redis+cluster://".len()..]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_no_node_serves_is_waited_for() {
    let scene = Scene::new(1);
    let node = &scene.cluster.nodes()[0];
    let slot = node
        .command(&["CLUSTER", "KEYSLOT", "{jobs}"])
        .int()
        .to_string();
    node.command(&["CLUSTER", "DELSLOTS", &slot]);
    let error = scene.broker.publish("{jobs}", "a body").await;
    assert_eq!(error.expect_err("not served").kind(), ErrorKind::Refused);

    let broker = at(&scene.cluster.url())
        .with_handlers(handlers![together])
        .with_state(scene.journal.clone());
    let starting = tokio::spawn(async move { broker.start().await });
    node.command(&["CLUSTER", "ADDSLOTS", &slot]);
    let running = starting.await.expect("no panic").expect("started");

    // Once more, while a reader waits there.
    node.command(&["CLUSTER", "DELSLOTS", &slot]);
    until("the cluster is down", || {
        node.command(&["CLUSTER", "INFO"])
            .text()
            .contains("cluster_state:fail")
    })
    .await;
    node.command(&["CLUSTER", "ADDSLOTS", &slot]);
    until("it is back", || {
        node.command(&["CLUSTER", "INFO"])
            .text()
            .contains("cluster_state:ok")
    })
    .await;
    scene.publish("{jobs}", "a", "ok").await;
    until("it has run", || scene.journal.deliveries("a") == [1]).await;
    scene.settled("{jobs}").await;
    running.stop().await;
}
