//! A cluster whose nodes speak TLS, with an authority of the test's own.

use rillkit::{Broker, ErrorKind, Server, State, handlers, subscribe};
use rillkit_servers::{Certificates, Cluster};

use crate::place::{Seen, start, until};

const STREAM: &str = "{jobs}";

#[subscribe(stream = "{jobs}", group = "workers", block_ms = 500, max_retries = 0)]
async fn run_job(name: String, seen: State<Seen>) -> Result<(), String> {
    seen.note(&name, 1);
    if name == "bad" { Err(name) } else { Ok(()) }
}

fn broker(cluster: &Cluster, authority: Vec<u8>, seen: &Seen) -> Broker {
    let server = Server::at(&cluster.url()).expect("a good URL");
    Broker::on_server(server.ca_certificate(authority))
        .expect("a good server")
        .with_handlers(handlers![run_job])
        .with_state(seen.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_followed_from_node_to_node() {
    let certificates = Certificates::new();
    let cluster = Cluster::with_tls(2, &certificates);
    let seen = Seen::default();
    let broker = broker(&cluster, certificates.authority(), &seen);
    let running = start(&broker).await.expect("started");
    broker.publish(STREAM, "one").await.expect("published");
    until("it has run", || seen.has("one")).await;

    // Both the publisher and the reader are sent on, by the address of an encrypted port.
    let (old, new) = (cluster.owner(STREAM), 1 - cluster.owner(STREAM));
    cluster.move_slot(STREAM, new);
    let refused = cluster.nodes()[old].command(&["XLEN", STREAM]).error();
    assert!(refused.starts_with("MOVED "), "{refused}");
    broker.publish(STREAM, "two").await.expect("published");
    until("it has run", || seen.has("two")).await;
    broker.publish(STREAM, "bad").await.expect("published");
    let letters = || cluster.command(STREAM, &["XLEN", "{jobs}-dlq"]).int();
    until("it is a dead letter", || letters() == 1).await;
    let pending = cluster.command(STREAM, &["XPENDING", STREAM, "workers"]);
    assert_eq!(pending[0].int(), 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_another_authority_are_an_error_that_says_so() {
    let cluster = Cluster::with_tls(1, &Certificates::new());
    let broker = broker(&cluster, Certificates::new().authority(), &Seen::default());
    let error = start(&broker).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(
        error.to_string().contains("`Server::ca_certificate`"),
        "{error}"
    );
}
