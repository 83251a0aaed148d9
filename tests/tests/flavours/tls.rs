//! TLS with an authority of the test's own.

use rillkit::{Broker, ErrorKind, Server};
use rillkit_servers::{Certificates, Server as Process, TlsServer};

use crate::place::{Seen, handled, handled_after_all, start, worker};

fn at(url: &str) -> Server {
    Server::at(url).expect("a good URL")
}

/// The error of a start that no waiting cures.
async fn refused(server: Server) -> String {
    let broker = worker(Broker::on_server(server), &Seen::default());
    let error = start(&broker).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_of_ones_own_is_trusted_also_after_a_restart() {
    let certificates = Certificates::new();
    let process = TlsServer::start(&certificates);
    let server = at(&process.url()).ca_certificate(certificates.authority());
    let seen = Seen::default();
    let broker = worker(Broker::on_server(server), &seen);
    let running = start(&broker).await.expect("started");
    handled(&broker, &seen, "one").await;
    process.server().restart();
    handled_after_all(&broker, &seen, "two").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_shows_its_certificate() {
    let certificates = Certificates::new();
    let process = TlsServer::strict(&certificates);
    let trusting = at(&process.url()).ca_certificate(certificates.authority());
    let client = certificates.client();
    let server = trusting
        .clone()
        .client_certificate(client.certificate, client.key);
    let seen = Seen::default();
    let broker = worker(Broker::on_server(server), &seen);
    let running = start(&broker).await.expect("started");
    handled(&broker, &seen, "one").await;
    running.stop().await;

    let error = refused(trusting.clone()).await;
    assert!(error.contains("`Server::client_certificate`"), "{error}");
    let stranger = Certificates::new().client();
    let error = refused(trusting.client_certificate(stranger.certificate, stranger.key)).await;
    assert!(error.contains("`Server::client_certificate`"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_another_certificate_is_refused_without_a_word_of_it() {
    let certificates = Certificates::new();
    let process = TlsServer::strict(&certificates);
    let (client, other) = (certificates.client(), Certificates::new().client());
    let server = at(&process.url())
        .ca_certificate(certificates.authority())
        .client_certificate(client.certificate, other.key.clone());
    let error = refused(server).await;
    let key = String::from_utf8(other.key).expect("PEM is text");
    let line = key.lines().nth(1).expect("a line of the key");
    assert!(!error.contains(line), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_authority_is_an_error_that_says_so() {
    let certificates = Certificates::new();
    let process = TlsServer::start(&certificates);
    let other = at(&process.url()).ca_certificate(Certificates::new().authority());
    for server in [other, at(&process.url())] {
        let error = refused(server).await;
        for word in ["certificate", "`Server::ca_certificate`", "`REDIS_CA_CERT`"] {
            assert!(error.contains(word), "`{word}` is not in: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_tls_is_an_error_that_says_so() {
    for arguments in [&[][..], &["--requirepass", "secret"]] {
        let process = Process::with(arguments);
        let error = refused(at(&format!("rediss://localhost:{}", process.port()))).await;
        assert!(error.contains("answers without TLS"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_waited_for() {
    let certificates = Certificates::new();
    let process = TlsServer::start(&certificates);
    process.server().stop();
    let server = at(&process.url()).ca_certificate(certificates.authority());
    let seen = Seen::default();
    let broker = worker(Broker::on_server(server), &seen);
    let error = broker.publish("jobs", "none").await.expect_err("no server");
    assert_eq!(error.kind(), ErrorKind::NotSent, "{error}");
    let starting = tokio::spawn({
        let broker = broker.clone();
        async move { start(&broker).await }
    });
    process.server().restart();
    let running = starting.await.expect("no panic").expect("started");
    handled(&broker, &seen, "one").await;
    running.stop().await;
}
