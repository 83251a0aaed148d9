//! A server that listens with TLS.

use crate::{Certificates, Server, port};

/// A server that listens with TLS on one port, and without on another, for the test's own questions.
#[derive(Debug)]
pub struct TlsServer {
    server: Server,
    port: u16,
}

impl TlsServer {
    /// Starts one that shows the server certificate of these.
    ///
    /// # Panics
    /// As [`Server::start`], and when the chosen flavour was built without TLS.
    #[must_use]
    pub fn start(certificates: &Certificates) -> Self {
        Self::with(certificates, &["--tls-auth-clients", "no"])
    }

    /// Starts one that lets only clients in that show a certificate of this authority.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn strict(certificates: &Certificates) -> Self {
        Self::strict_with(certificates, &[])
    }

    pub(crate) fn strict_with(certificates: &Certificates, arguments: &[&str]) -> Self {
        let strict = [arguments, &["--tls-auth-clients", "yes"]].concat();
        Self::with(certificates, &strict)
    }

    pub(crate) fn into_parts(self) -> (Server, u16) {
        (self.server, self.port)
    }

    pub(crate) fn with(certificates: &Certificates, arguments: &[&str]) -> Self {
        let port = port::free();
        let path = |name: &str| certificates.path(name).display().to_string();
        let (number, ca) = (port.to_string(), path("ca.pem"));
        let (certificate, key) = (path("server.pem"), path("server.key"));
        let own = [
            "--tls-port",
            &number,
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
        ];
        Self {
            server: Server::with(&[&own[..], arguments].concat()),
            port,
        }
    }

    /// The server, as it is reached without TLS.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The port with TLS.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `rediss://localhost:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("rediss://localhost:{}", self.port)
    }
}
