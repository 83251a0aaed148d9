//! Unix sockets.

use rillkit::{Broker, ErrorKind};
use rillkit_servers::Server;

use crate::place::{Seen, handled, handled_after_all, start, worker};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_is_a_server_like_any_other() {
    let server = Server::with(&["--unixsocket", "redis.sock", "--requirepass", "a b"]);
    let socket = server.directory().join("redis.sock");
    let url = format!("redis+unix://{}?db=3&pass=a%20b", socket.display());
    let seen = Seen::default();
    let broker = worker(Broker::connect(&url), &seen);
    let running = start(&broker).await.expect("started");
    handled(&broker, &seen, "one").await;
    let mut client = server.connect();
    client.command(&["SELECT", "3"]).expect("an answer");
    assert_eq!(
        client.command(&["XLEN", "jobs"]).expect("an answer").int(),
        1
    );
    server.restart();
    handled_after_all(&broker, &seen, "two").await;
    assert_eq!(broker.to_string(), socket.display().to_string());
    running.stop().await;
}

#[tokio::test]
async fn a_socket_that_is_not_there_is_not_a_message_that_may_be_there() {
    let broker = Broker::connect("redis+unix:///nowhere/redis.sock").expect("a good URL");
    let error = broker.publish("jobs", "one").await.expect_err("no server");
    assert_eq!(error.kind(), ErrorKind::NotSent, "{error}");
    assert!(error.to_string().contains("/nowhere/redis.sock"), "{error}");
}
