//! A sentinel, which watches a master and promotes a replica of it.

use crate::{Certificates, Reply, Server, TlsServer, wait_until};

/// A running sentinel that decides alone. It has a master for dead after half a second.
#[derive(Debug)]
pub struct Sentinel {
    server: Server,
    name: String,
}

impl Sentinel {
    /// Starts a sentinel that watches `master`, which has no password, under this name.
    ///
    /// # Panics
    /// As [`Server::start`].
    #[must_use]
    pub fn start(name: &str, master: &Server) -> Self {
        Self::with(name, master, &[])
    }

    /// The same with more arguments, such as `["--requirepass", "secret"]`.
    ///
    /// # Panics
    /// As [`Server::start`].
    #[must_use]
    pub fn with(name: &str, master: &Server, arguments: &[&str]) -> Self {
        let server = Server::with(&[&["--sentinel"], arguments].concat());
        Self::watching(server, name, master.port())
    }

    fn watching(server: Server, name: &str, port: u16) -> Self {
        let sentinel = Self {
            server,
            name: name.into(),
        };
        let port = port.to_string();
        sentinel.order(&["MONITOR", name, "127.0.0.1", &port, "1"]);
        sentinel.order(&["SET", name, "down-after-milliseconds", "500"]);
        sentinel
    }

    /// Starts a sentinel that is reached over TLS, watches `master` over TLS, and shows the server certificate of
    /// these. Gives back the port with TLS too.
    ///
    /// # Panics
    /// As [`Server::start`], and when the chosen flavour was built without TLS.
    #[must_use]
    pub fn with_tls(name: &str, master: &TlsServer, certificates: &Certificates) -> (Self, u16) {
        let arguments = ["--sentinel", "--tls-replication", "yes"];
        let (server, port) = TlsServer::strict_with(certificates, &arguments).into_parts();
        (Self::watching(server, name, master.port()), port)
    }

    /// The port of the sentinel itself.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The sentinel as a server, to be stopped, frozen or asked.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The port of the present master.
    #[must_use]
    pub fn master_port(&self) -> u16 {
        let address = self.ask(&["GET-MASTER-ADDR-BY-NAME", &self.name]);
        address[1].text().parse().expect("a port")
    }

    /// Promotes a replica though the master is well, and returns once the sentinel names the new one.
    pub fn fail_over(&self) {
        let old = self.master_port();
        // It learns of the replicas from the master.
        wait_until("the sentinel knows a replica to promote", || {
            let answer = self.ask(&["FAILOVER", &self.name]);
            matches!(answer, Reply::Text(_)) || self.master_port() != old
        });
        wait_until("the failover is done", || self.master_port() != old);
    }

    /// Returns once the sentinel knows a replica that it can promote.
    pub fn knows_a_replica(&self) {
        wait_until("the sentinel knows a replica", || {
            let replicas = self.ask(&["REPLICAS", &self.name]).list();
            replicas.iter().any(|replica| {
                let fields = replica.list();
                let field = |name: &str| {
                    let pair = fields.chunks(2).find(|pair| pair[0].text() == name);
                    pair.map(|pair| pair[1].text())
                };
                field("flags").as_deref() == Some("slave")
                    && field("master-link-status").as_deref() == Some("ok")
            })
        });
    }

    fn ask(&self, arguments: &[&str]) -> Reply {
        self.server.command(&[&["SENTINEL"], arguments].concat())
    }

    fn order(&self, arguments: &[&str]) {
        let answer = self.ask(arguments);
        assert!(
            !matches!(answer, Reply::Error(_)),
            "SENTINEL {arguments:?}: {answer:?}"
        );
    }
}
