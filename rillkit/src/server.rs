//! A server with what its URL cannot say: credentials in any characters or that change, and
//! certificates.

use std::sync::Arc;

use crate::credentials::{Credentials, Login};
use crate::error::Error;
use crate::outcome::BoxError;
use crate::store::redis::Parts;

/// A Redis or Valkey server, for [`Broker::on_server`](crate::Broker::on_server): its URL, and what
/// a URL cannot say. `Debug` shows no secret.
///
/// ```no_run
/// use rillkit::{Broker, Server};
///
/// # fn main() -> anyhow::Result<()> {
/// let server = Server::at("rediss://redis.example:6379")?
///     .username("worker")
///     .password("any: characters/@#%")
///     .ca_certificate(std::fs::read("ca.pem")?)
///     .client_certificate(std::fs::read("worker.pem")?, std::fs::read("worker.key")?);
/// let broker = Broker::on_server(server)?;
/// # Ok(()) }
/// ```
///
/// A master that sentinels watch, all of them with passwords:
///
/// ```
/// use rillkit::{Broker, Server};
///
/// # fn main() -> Result<(), rillkit::Error> {
/// let server = Server::at("redis+sentinel://one:26379,two:26379,three:26379/jobs-master/0")?
///     .password("of the master")
///     .sentinel_password("of the sentinels");
/// let broker = Broker::on_server(server)?;
/// assert_eq!(broker.to_string(), "`jobs-master` of one:26379,two:26379,three:26379");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Server {
    pub(crate) parts: Parts,
}

impl Server {
    /// The server of this URL; [`Broker::connect`](crate::Broker::connect) lists them. `memory://`
    /// is no server.
    ///
    /// # Errors
    ///
    /// A URL that cannot be used.
    pub fn at(url: &str) -> Result<Self, Error> {
        Ok(Self {
            parts: Parts::from_url(url)?,
        })
    }

    /// The user, in place of the URL's. Without a password it has no effect.
    #[must_use]
    pub fn username(mut self, username: impl Into<String>) -> Self {
        self.parts.username = Some(username.into());
        self
    }

    /// The password, in place of the URL's.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.parts.password = Some(password.into());
        self
    }

    /// Asks for user and password at every new connection, in place of fixed ones: for tokens that
    /// expire and passwords that are rotated. It runs on a thread where it may block.
    ///
    /// When it fails, or the server refuses what it gave (`NOAUTH`, `WRONGPASS`), the connection
    /// is made again after a while with what it gives then, also at the start of the broker.
    ///
    /// ```
    /// use rillkit::{Broker, Credentials, Server};
    ///
    /// # fn main() -> Result<(), rillkit::Error> {
    /// let server = Server::at("redis://localhost")?.credentials(|| {
    ///     let token = std::fs::read_to_string("/run/secrets/redis-token")?;
    ///     Ok(Credentials::new("worker", token.trim()))
    /// });
    /// let broker = Broker::on_server(server)?;
    /// # let _ = broker; Ok(()) }
    /// ```
    #[must_use]
    pub fn credentials<F>(mut self, provider: F) -> Self
    where
        F: Fn() -> Result<Credentials, BoxError> + Send + Sync + 'static,
    {
        self.parts.rotating = Some(Login::Rotating(Arc::new(provider)));
        self
    }

    /// Trusts the servers whose certificates these sign, in place of the public authorities. One or
    /// more certificates in PEM form; for `rediss://` and `rediss+sentinel://` only.
    #[must_use]
    pub fn ca_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.parts.certificates.ca = Some(pem.into());
        self
    }

    /// Shows the server this certificate (with those that signed it, if any), proved with this key;
    /// both in PEM form; for `rediss://` and `rediss+sentinel://` only.
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.parts.certificates.client = Some((certificate.into(), key.into()));
        self
    }

    /// The user at the sentinels, who do not know those of the master.
    #[must_use]
    pub fn sentinel_username(mut self, username: impl Into<String>) -> Self {
        self.parts.sentinel_username = Some(username.into());
        self
    }

    /// The password at the sentinels.
    #[must_use]
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        self.parts.sentinel_password = Some(password.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Broker;

    #[test]
    fn no_secret_is_ever_shown() {
        const SECRET: &str = "S3CR3T";
        let server = |url: &str| {
            Server::at(url)
                .expect("a good URL")
                .username(SECRET)
                .password(SECRET)
                .sentinel_username(SECRET)
                .sentinel_password(SECRET)
        };
        let rotating = server("redis://h").credentials(|| Ok(Credentials::new(SECRET, SECRET)));
        let certified = server("redis://h")
            .ca_certificate(SECRET)
            .client_certificate(SECRET, SECRET);
        let mut shown = vec![
            format!("{:?}", Credentials::new(SECRET, SECRET)),
            format!("{certified:?}"),
            format!("{:?}", Broker::on_server(certified)),
        ];
        for server in [
            server("redis://S3CR3T:S3CR3T@h"),
            server("redis+unix:///run/redis.sock?user=S3CR3T&pass=S3CR3T"),
            server("redis+sentinel://S3CR3T:S3CR3T@h/main"),
            rotating,
        ] {
            shown.push(format!("{server:?} {:?}", server.parts));
            let broker = Broker::on_server(server).expect("a good server");
            shown.push(format!("{broker:?} {broker}"));
        }
        for text in shown {
            assert!(!text.contains(SECRET), "{text}");
        }
    }
}
