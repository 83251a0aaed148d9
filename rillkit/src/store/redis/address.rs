//! Where a server is and how to log in: from a URL or from separate settings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use crate::error::{Error, ErrorKind};

/// A server's address and login. `Debug` and `Display` show the address alone.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) client: Client,
    pub(super) login: Login,
    text: Arc<str>,
}

/// What is sent after connecting. The crate's own login would report every refusal of `AUTH`, also
/// "max number of clients reached", as a wrong password.
#[derive(Clone, Default)]
pub(super) struct Login {
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) db: i64,
}

/// The settings that stand in the environment one by one.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: i64,
    pub(crate) tls: bool,
}

const SCHEMES: &str = "`redis://`, `rediss://`, `redis+cluster://`, `redis+unix://` or `memory://`";
const PORT: u16 = 6379;
const KEEPALIVE: Duration = Duration::from_secs(15);
/// How long sent bytes may stay unacknowledged before the kernel gives the connection up.
const USER_TIMEOUT: Duration = Duration::from_secs(30);

impl Address {
    /// Reads `redis://[user][:password@]host[:port][/db]`, `rediss://..` or
    /// `redis+unix:///path[?db=..&user=..&pass=..]`. User and password are percent-decoded.
    pub(crate) fn from_url(url: &str) -> Result<Self, Error> {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        if matches!(scheme, "rediss" | "valkeys") {
            require_tls()?;
        }
        let bad = |why: &str| {
            // The URL itself may hold a password, so that its scheme is all that is shown.
            Error::new(
                ErrorKind::Url,
                format!(
                    "the redis URL (`{}://..`) cannot be used: {why}; expected {SCHEMES}",
                    scheme.escape_debug()
                ),
            )
        };
        if scheme.is_empty() {
            return Err(bad("it has no scheme"));
        }
        let info = url
            .into_connection_info()
            .map_err(|error| bad(&reason(&error)))?;
        let redis = info.redis_settings();
        let login = Login {
            username: redis.username().map(str::to_owned),
            password: redis.password().map(str::to_owned),
            db: redis.db(),
        };
        Self::new(info.addr().clone(), login)
    }

    /// From separate settings: here a password may hold any character.
    pub(crate) fn from_parts(parts: Parts) -> Result<Self, Error> {
        let host = parts.host.unwrap_or_else(|| "localhost".to_owned());
        let port = parts.port.unwrap_or(PORT);
        let address = if parts.tls {
            require_tls()?;
            ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            }
        } else {
            ConnectionAddr::Tcp(host, port)
        };
        Self::new(
            address,
            Login {
                username: parts.username,
                password: parts.password,
                db: parts.db,
            },
        )
    }

    /// Another host and port, with the same login. An empty host is this one.
    pub(super) fn at(&self, host: &str, port: u16) -> Result<Self, Error> {
        let own = self.client.get_connection_info().addr().clone();
        let host = |own: String| match host {
            "" => own,
            host => host.to_owned(),
        };
        let address = match own {
            ConnectionAddr::Tcp(own, _) => ConnectionAddr::Tcp(host(own), port),
            ConnectionAddr::TcpTls {
                host: own,
                insecure,
                tls_params,
                ..
            } => ConnectionAddr::TcpTls {
                host: host(own),
                port,
                insecure,
                tls_params,
            },
            _ => ConnectionAddr::Tcp(host(String::new()), port),
        };
        Self::new(address, self.login.clone())
    }

    /// Whether both are one server, by their names.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.text == other.text
    }

    fn new(address: ConnectionAddr, login: Login) -> Result<Self, Error> {
        let text = address.to_string();
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(
            TcpKeepalive::new()
                .with_time(KEEPALIVE)
                .with_interval(KEEPALIVE),
        );
        #[cfg(target_os = "linux")]
        let tcp = tcp.set_user_timeout(USER_TIMEOUT);
        let plain = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP2)
            .set_skip_set_lib_name();
        let client = address
            .into_connection_info()
            .and_then(|info| Client::open(info.set_tcp_settings(tcp).set_redis_settings(plain)))
            .map_err(|error| {
                Error::new(
                    ErrorKind::Url,
                    format!(
                        "the redis address `{text}` cannot be used: {}",
                        reason(&error)
                    ),
                )
            })?;
        Ok(Self {
            client,
            login,
            text: text.into(),
        })
    }
}

fn require_tls() -> Result<(), Error> {
    if cfg!(feature = "tls") {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Url,
        "`rediss://` needs the feature `tls`: write `rillkit = { version = \"..\", features = [\"tls\"] }` \
         in Cargo.toml",
    ))
}

fn reason(error: &redis::RedisError) -> String {
    match error.detail() {
        Some(detail) => format!("{} ({detail})", error.category()),
        // The crate's text ends with the name of its own kind.
        None => error.to_string().replace(" - InvalidClientConfig", ""),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.text).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let address =
            Address::from_url("redis://us%40er:p%2Fw@example.test:7000/3").expect("a good URL");
        assert_eq!(address.to_string(), "example.test:7000");
        assert_eq!(address.login.username.as_deref(), Some("us@er"));
        assert_eq!(address.login.password.as_deref(), Some("p/w"));
        assert_eq!(address.login.db, 3);
        let socket = Address::from_url("redis+unix:///run/redis.sock?db=2").expect("a good URL");
        assert_eq!(socket.to_string(), "/run/redis.sock");
        assert_eq!(socket.login.db, 2);
    }

    #[test]
    fn another_node_has_the_same_login() {
        let address = Address::from_url("redis://u:p@a:7000").expect("a good URL");
        for (host, text) in [("b", "b:7001"), ("", "a:7001")] {
            let other = address.at(host, 7001).expect("a good address");
            assert_eq!(other.to_string(), text);
            assert_eq!(other.login.password.as_deref(), Some("p"));
            assert!(!other.same(&address));
        }
    }

    #[test]
    fn bad_urls_say_what_was_expected_and_hide_the_password() {
        for url in [
            "",
            "localhost:6379",
            "http://u:S3CR3T@x",
            "redis://:S3CR3T@",
            "redis://u:S3CR3T@h:x/",
            "redis://u:S3CR3T@h/db",
        ] {
            let error = Address::from_url(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::Url, "{url}");
            assert!(error.to_string().contains("expected `redis://`"), "{error}");
            assert!(!error.to_string().contains("S3CR3T"), "{error}");
        }
    }

    #[test]
    fn debug_shows_no_password() {
        let address = Address::from_url("redis://u:S3CR3T@localhost/").expect("a good URL");
        assert_eq!(format!("{address:?}"), r#"Address("localhost:6379")"#);
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_without_the_feature_names_the_feature() {
        let error = Address::from_url("rediss://localhost").expect_err("no TLS in this build");
        assert!(
            error.to_string().contains("needs the feature `tls`"),
            "{error}"
        );
    }
}
