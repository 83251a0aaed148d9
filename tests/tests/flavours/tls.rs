//! TLS with an authority of the test's own.

use std::process::{Command, Stdio};

use rillkit::{Broker, ErrorKind, Server};
use rillkit_servers::{Certificates, Sentinel, Server as Process, TlsServer, wait_until};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_their_master_are_reached_with_the_same_certificates() {
    let certificates = Certificates::new();
    let process = TlsServer::strict(&certificates);
    let (_sentinel, port) = Sentinel::with_tls("main", &process, &certificates);
    let client = certificates.client();
    let server = at(&format!("rediss+sentinel://localhost:{port}/main"))
        .ca_certificate(certificates.authority())
        .client_certificate(client.certificate, client.key);
    let seen = Seen::default();
    let broker = worker(Broker::on_server(server), &seen);
    let running = start(&broker).await.expect("started");
    handled(&broker, &seen, "one").await;
    running.stop().await;
}

#[test]
fn the_environment_names_files_of_certificates() {
    let certificates = Certificates::new();
    let process = TlsServer::strict(&certificates);
    let worker = |client: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
        command
            .env("REDIS_URL", process.url())
            .env("REDIS_CA_CERT", certificates.path("ca.pem"))
            .env("REDIS_CLIENT_CERT", certificates.path(client))
            .env("REDIS_CLIENT_KEY", certificates.path("client.key"))
            .env("RILLKIT_ONLY", "jobs")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn().expect("the worker can be started")
    };
    let mut good = worker("client.pem");
    wait_until("the worker is there", || {
        let groups = process.server().command(&["XINFO", "GROUPS", "jobs"]);
        groups != rillkit_servers::Reply::Error("ERR no such key".into())
    });
    good.kill().expect("a child can be killed");
    good.wait().expect("a child can be waited for");
    let output = worker("none.pem").wait_with_output();
    let output = output.expect("a child can be waited for");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("`REDIS_CLIENT_CERT` is `"), "{said}");
}
