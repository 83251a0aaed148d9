//! Everything that one server does, a cluster does, on whichever node a stream is.

use std::collections::BTreeSet;

use rillkit::{ErrorKind, HandlerError, Message, State, Tx, handlers, subscribe};
use rillkit_servers::Reply;
use rillkit_tests::Job;

use crate::scene::{Journal, Scene, act, until};

/// On each node of three.
const STREAMS: [&str; 3] = ["{a}", "{b}", "plain"];

#[rustfmt::skip]
macro_rules! handler {
    ($name:ident, $stream:literal, $dlq:literal) => {
        #[subscribe(
            stream = $stream,
            dlq = $dlq,
            group = "workers",
            max_retries = 1,
            claim_idle_ms = 300,
            block_ms = 500,
            concurrency = 4
        )]
        async fn $name(
            job: Job,
            msg: Message,
            journal: State<Journal>,
        ) -> Result<(), HandlerError> {
            act(job, msg, journal).await
        }
    };
}
handler!(a, "{a}", "{a}-dlq");
handler!(b, "{b}", "{b}-dlq");
handler!(plain, "plain", "{plain}-dlq");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_handled_retried_dead_lettered_and_replayed_on_every_node() {
    let scene = Scene::new(3);
    let owners: BTreeSet<_> = STREAMS.map(|stream| scene.cluster.owner(stream)).into();
    assert_eq!(owners.len(), 3, "each node has a stream");
    let running = scene.start(handlers![a, b, plain]).await;
    for stream in STREAMS {
        scene
            .publish_many(stream, &format!("{stream}-"), 100, "ok")
            .await;
        scene
            .publish(stream, &format!("{stream}-retried"), "err,ok")
            .await;
        scene
            .publish(stream, &format!("{stream}-dead"), "err,err,ok")
            .await;
        // It outlasts its lease, which is renewed on its node.
        scene
            .publish(stream, &format!("{stream}-long"), "sleep:1000")
            .await;
    }
    running.drained().await.expect("drained");
    for stream in STREAMS {
        let (journal, dlq) = (
            &scene.journal,
            format!("{{{}}}-dlq", stream.trim_matches(['{', '}'])),
        );
        journal.assert_once_each(&format!("{stream}-"), 100);
        assert_eq!(journal.deliveries(&format!("{stream}-retried")), [1, 2]);
        assert_eq!(journal.deliveries(&format!("{stream}-dead")), [1, 2]);
        assert_eq!(journal.deliveries(&format!("{stream}-long")), [1]);
        assert_eq!(scene.pending(stream), 0);
        assert_eq!(scene.length(&dlq), 1);

        let replay = scene.broker.clone().with_handlers(handlers![a, b, plain]);
        assert_eq!(replay.replay_dlq(stream).await, Ok(1));
        assert_eq!(scene.length(&dlq), 0);
        let name = format!("{stream}-dead");
        until("it runs again", || {
            scene.journal.deliveries(&name).len() == 4
        })
        .await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_as_many_connections_as_documented() {
    let scene = Scene::new(3);
    let running = scene.start(handlers![a, b, plain]).await;
    // A run that outlasts its lease, so that there is a lease to keep.
    for stream in STREAMS {
        scene.publish(stream, stream, "sleep:60000").await;
    }
    // One reads, one does everything else, one keeps leases; and one is this test's publisher.
    let expected = 3 + 1;
    until("each node has its connections", || {
        scene.cluster.nodes().iter().all(|node| {
            let list = node.command(&["CLIENT", "LIST", "TYPE", "NORMAL"]).text();
            let asking = 1;
            list.lines().count() - asking == expected
        })
    })
    .await;
    drop(running);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_been_published_is_not_published_again() {
    let scene = Scene::new(1);
    let (node, broker) = (&scene.cluster.nodes()[0], &scene.broker);
    let kind = async |name| {
        let published = broker.publish("{a}", &Job::new(name, "ok")).await;
        published.map_err(|error| error.kind())
    };
    assert!(kind("one").await.is_ok());
    // It takes in what it is sent, and the answer comes too late.
    node.freeze();
    assert_eq!(kind("two").await, Err(ErrorKind::Unknown));
    node.thaw();
    assert!(kind("three").await.is_ok());
    let name = |entry: &Reply| {
        let job: Job = serde_json::from_str(&entry[1][1].text()).expect("a job");
        job.name
    };
    let entries = node.command(&["XRANGE", "{a}", "-", "+"]).list();
    let names: Vec<_> = entries.iter().map(name).collect();
    assert_eq!(names, ["one", "two", "three"]);

    node.stop();
    assert_eq!(
        kind("four").await,
        Err(ErrorKind::Unknown),
        "its connection was broken"
    );
    assert_eq!(kind("four").await, Err(ErrorKind::NotSent));
}

#[subscribe(stream = "counted", dlq = "{counted}-dlq", group = "workers")]
async fn count(job: Job, tx: Tx) {
    tx.incr_by("{counted}:total", 1);
    if job.name == "astray" {
        tx.incr_by("total", 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_go_with_the_ack_where_their_keys_are_in_its_slot() {
    let scene = Scene::new(3);
    let running = scene.start(handlers![count]).await;
    scene.publish_many("counted", "job", 50, "ok").await;
    scene.publish("counted", "astray", "ok").await;
    running.drained().await.expect("drained");
    let total = scene
        .cluster
        .command("{counted}:total", &["GET", "{counted}:total"]);
    assert_eq!(total.text(), "50");
    let letters = scene
        .cluster
        .command("{counted}-dlq", &["XRANGE", "{counted}-dlq", "-", "+"]);
    let letter = letters[0][1].list();
    let error = letter.iter().position(|field| field.text() == "x-error");
    let error = letter[error.expect("an error") + 1].text();
    assert!(error.contains("name it `{counted}:total`"), "{error}");
    assert_eq!((letters.list().len(), scene.pending("counted")), (1, 0));
    running.stop().await;
}
