//! Everything that one server does, a cluster does, on whichever node a stream is.

use std::collections::BTreeSet;

use rillkit::{Broker, ErrorKind, HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::{Cluster, Proxy, Reply};
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
    let cluster = Cluster::start(1);
    let node = &cluster.nodes()[0];
    let proxy = Proxy::to(node.port());
    // The node tells its clients the way through the proxy.
    let port = proxy.port().to_string();
    node.command(&["CONFIG", "SET", "cluster-announce-port", &port]);
    until("it is announced", || {
        let slots = node.command(&["CLUSTER", "SLOTS"]);
        slots[0][2][1] == Reply::Int(proxy.port().into())
    })
    .await;
    let broker = Broker::connect(&cluster.url()).expect("a good URL");
    broker.publish("{a}", "one").await.expect("published");
    for lost in 1..=3 {
        proxy.lose_reply_of("XADD");
        let error = broker.publish("{a}", "two").await.expect_err("lost");
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        assert_eq!(proxy.lost_replies(), lost);
        let length = i64::try_from(lost).expect("a count") + 1;
        assert_eq!(node.command(&["XLEN", "{a}"]).int(), length);
    }
    proxy.refuse();
    proxy.cut();
    let published = broker.publish("{a}", "three").await;
    assert!(matches!(
        published.expect_err("cut").kind(),
        ErrorKind::NotSent | ErrorKind::Unknown
    ));
    assert_eq!(node.command(&["XLEN", "{a}"]).int(), 4);
}
