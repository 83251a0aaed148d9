//! A process that has chosen a crypto provider keeps it. In a program of its own: the choice is the process's.

#![cfg(feature = "tls")]

use rillkit::{Broker, Server};
use rillkit_servers::{Certificates, TlsServer};
use rustls::crypto::{CryptoProvider, ring};

#[tokio::test]
async fn the_provider_of_the_program_is_used() {
    let mut own = ring::default_provider();
    own.cipher_suites.truncate(1);
    own.install_default().expect("nobody was first");
    let certificates = Certificates::new();
    let process = TlsServer::start(&certificates);
    let server = Server::at(&process.url()).expect("a good URL");
    let broker = Broker::on_server(server.ca_certificate(certificates.authority()));
    let broker = broker.expect("a good server");
    broker.publish("jobs", "one").await.expect("published");
    let chosen = CryptoProvider::get_default().expect("a provider");
    assert_eq!(chosen.cipher_suites.len(), 1);
}
