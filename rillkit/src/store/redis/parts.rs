//! What says where a server is and how to log in there, before anything is made of it: read from a
//! URL, or set one by one.

use std::fmt;
use std::path::PathBuf;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError};

use super::tls::{self, Certificates};
use crate::credentials::Login;
use crate::error::{Error, ErrorKind};

/// Everything that can be said about a server. `Debug` shows where it is alone.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) place: Place,
    pub(crate) tls: bool,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    /// In place of user name and password.
    pub(crate) rotating: Option<Login>,
    pub(crate) db: i64,
    pub(crate) certificates: Certificates,
    pub(crate) sentinel_username: Option<String>,
    pub(crate) sentinel_password: Option<String>,
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Host(String, u16),
    Socket(PathBuf),
    /// Some nodes of a cluster.
    Cluster(Vec<(String, u16)>),
    /// Where the sentinels say that the master of this name is.
    Master {
        name: String,
        sentinels: Vec<(String, u16)>,
    },
}

const SCHEMES: &str = "`redis://`, `rediss://`, `redis+unix://`, `redis+sentinel://`, `redis+cluster://` or `memory://`";
pub(crate) const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl Parts {
    pub(crate) fn at(place: Place) -> Self {
        Self {
            place,
            tls: false,
            username: None,
            password: None,
            rotating: None,
            db: 0,
            certificates: Certificates::default(),
            sentinel_username: None,
            sentinel_password: None,
        }
    }

    /// Reads `redis://[user][:password@]host[:port][/db]`, `rediss://..`,
    /// `redis+unix:///path[?db=..&user=..&pass=..]`,
    /// `redis+sentinel://[user][:password@]host[:port],../master[/db]` or
    /// `redis+cluster://[user][:password@]host[:port],..`. User and password are percent-decoded.
    pub(crate) fn from_url(url: &str) -> Result<Self, Error> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let bad = |why: String| {
            // The URL itself may hold a password, so that its scheme is all that is shown.
            Error::new(
                ErrorKind::Url,
                format!(
                    "the redis URL (`{}://..`) cannot be used: {why}; expected {SCHEMES}",
                    scheme.escape_debug()
                ),
            )
        };
        if matches!(
            scheme,
            "rediss" | "valkeys" | "rediss+sentinel" | "rediss+cluster"
        ) {
            tls::require()?;
        }
        if let Some(why) = parameter_mistake(scheme, rest) {
            return Err(bad(why));
        }
        match scheme {
            "" => Err(bad("it has no scheme".to_owned())),
            "redis+sentinel" => sentinels(rest, false).map_err(bad),
            "rediss+sentinel" => sentinels(rest, true).map_err(bad),
            "redis+cluster" => cluster(rest, false).map_err(bad),
            "rediss+cluster" => cluster(rest, true).map_err(bad),
            _ => read(url.to_owned()).map_err(bad),
        }
    }

    /// How to log in at the server.
    pub(super) fn login(&self) -> Login {
        match &self.rotating {
            Some(rotating) => rotating.clone(),
            None => Login::of(self.username.clone(), self.password.clone()),
        }
    }

    pub(super) fn sentinel_login(&self) -> Login {
        Login::of(
            self.sentinel_username.clone(),
            self.sentinel_password.clone(),
        )
    }
}

/// As the client crate has read it.
fn single(info: &ConnectionInfo) -> Result<Parts, String> {
    let (place, tls) = match info.addr() {
        ConnectionAddr::Tcp(host, port) => (Place::Host(host.clone(), *port), false),
        ConnectionAddr::TcpTls { insecure: true, .. } => {
            return Err(
                "`#insecure` is not supported, give the server's CA certificate".to_owned(),
            );
        }
        ConnectionAddr::TcpTls { host, port, .. } => (Place::Host(host.clone(), *port), true),
        ConnectionAddr::Unix(path) => (Place::Socket(path.clone()), false),
        _ => return Err("it is of an unknown kind".to_owned()),
    };
    let redis = info.redis_settings();
    Ok(Parts {
        tls,
        username: redis.username().map(str::to_owned),
        password: redis.password().map(str::to_owned),
        db: redis.db(),
        ..Parts::at(place)
    })
}

/// Reads what stands behind `redis+sentinel://`.
fn sentinels(rest: &str, tls: bool) -> Result<Parts, String> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (name, db) = path.split_once('/').unwrap_or((path, ""));
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    // What sentinels accept as a name.
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return Err("the name of the master is missing, as in `/mymaster` or `/mymaster/0`".into());
    }
    let mut sentinels = Vec::new();
    for host in hosts.split(',') {
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.contains(']'));
        let port = if has_port {
            String::new()
        } else {
            format!(":{SENTINEL_PORT}")
        };
        match read(format!("redis://{host}{port}"))?.place {
            Place::Host(host, port) => sentinels.push((host, port)),
            _ => return Err("a host was expected".into()),
        }
    }
    let login = read(format!("redis://{user}localhost/{db}"))?;
    let name = name.to_owned();
    Ok(Parts {
        place: Place::Master { name, sentinels },
        tls,
        ..login
    })
}

/// Reads what stands behind `redis+cluster://`.
fn cluster(rest: &str, tls: bool) -> Result<Parts, String> {
    let (authority, db) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    let mut nodes = Vec::new();
    for host in hosts.split(',') {
        match read(format!("redis://{host}"))?.place {
            Place::Host(host, port) => nodes.push((host, port)),
            _ => return Err("a host was expected".into()),
        }
    }
    let login = read(format!("redis://{user}localhost/{db}"))?;
    Ok(Parts {
        place: Place::Cluster(nodes),
        tls,
        ..login
    })
}

/// Reads the URL of one server, or a piece of another one as such, so that the rules are the same.
fn read(url: String) -> Result<Parts, String> {
    if !has_good_port(&url) {
        return Err("its port is not a number from 1 to 65535".to_owned());
    }
    let info = url.into_connection_info().map_err(|error| reason(&error))?;
    single(&info)
}

/// Whether what stands where a port does can be one. It is not to be shown: it may be a password whose
/// host was forgotten.
fn has_good_port(url: &str) -> bool {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    host.rsplit_once(':')
        .filter(|(_, port)| !port.contains(']'))
        .is_none_or(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// What is wrong with the parameters of a URL, the part behind its `?`: one that is misspelt would be
/// as good as not written.
fn parameter_mistake(scheme: &str, rest: &str) -> Option<String> {
    let known: &[&str] = match scheme {
        "redis+unix" | "valkey+unix" | "unix" => &["db", "user", "pass"],
        _ => &[],
    };
    let (_, query) = rest.split('#').next()?.split_once('?')?;
    let mut names = query
        .split('&')
        .map(|parameter| parameter.split('=').next().unwrap_or_default());
    let unknown = names.find(|name| !name.is_empty() && !known.contains(name))?;
    let takes = match known {
        [] => "this kind of URL has none".to_owned(),
        known => format!("it takes `{}`", known.join("`, `")),
    };
    // Behind an `@` there is a host, and before it a password with a bare `?`.
    if query.contains('@') {
        return Some("a `?` in a user name or password has to be written as `%3F`".to_owned());
    }
    Some(format!(
        "the parameter `{}` is unknown, {takes}",
        unknown.escape_debug()
    ))
}

fn listed(hosts: &[(String, u16)]) -> String {
    let hosts: Vec<_> = hosts
        .iter()
        .map(|(host, port)| format!("{host}:{port}"))
        .collect();
    hosts.join(",")
}

pub(super) fn reason(error: &RedisError) -> String {
    match error.detail() {
        Some(detail) => format!("{} ({detail})", error.category()),
        // The crate's text ends with the name of its own kind.
        None => error.to_string().replace(" - InvalidClientConfig", ""),
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host, port) => write!(f, "{host}:{port}"),
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Cluster(nodes) => f.write_str(&listed(nodes)),
            Self::Master { name, sentinels } => write!(f, "`{name}` of {}", listed(sentinels)),
        }
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("place", &self.place)
            .field("tls", &self.tls)
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let parts = Parts::from_url("redis://us%40er:p%2Fw@example.test:7000/3").expect("good");
        assert_eq!(parts.place, Place::Host("example.test".into(), 7000));
        assert_eq!(parts.username.as_deref(), Some("us@er"));
        assert_eq!(parts.password.as_deref(), Some("p/w"));
        assert_eq!(parts.db, 3);
        let parts = Parts::from_url("redis+unix:///run/redis.sock?db=2").expect("good");
        assert_eq!(parts.place, Place::Socket("/run/redis.sock".into()));
        assert_eq!(parts.db, 2);
    }

    #[test]
    fn urls_of_sentinels_are_read() {
        let url = "redis+sentinel://us%40er:p%2Fw@one,two:1234,[::1]/my-master.1/3";
        let parts = Parts::from_url(url).expect("good");
        let sentinels = [("one", 26379), ("two", 1234), ("::1", 26379)];
        let master = Place::Master {
            name: "my-master.1".into(),
            sentinels: sentinels.map(|(host, port)| (host.into(), port)).into(),
        };
        assert_eq!(parts.place, master);
        assert_eq!(parts.username.as_deref(), Some("us@er"));
        assert_eq!(parts.password.as_deref(), Some("p/w"));
        assert_eq!(parts.db, 3);
        let parts = Parts::from_url("redis+sentinel://one/main").expect("good");
        assert_eq!(parts.place.to_string(), "`main` of one:26379");
        assert_eq!((parts.username, parts.password, parts.db), (None, None, 0));
    }

    #[test]
    fn urls_of_clusters_are_read() {
        let parts =
            Parts::from_url("redis+cluster://us%40er:p%2Fw@a:7000,b,[::1]:1").expect("good");
        let nodes = [("a", 7000), ("b", 6379), ("::1", 1)];
        let nodes = nodes.map(|(host, port)| (host.into(), port)).into();
        assert_eq!(parts.place, Place::Cluster(nodes));
        assert_eq!(parts.username.as_deref(), Some("us@er"));
        assert_eq!(parts.password.as_deref(), Some("p/w"));
        assert_eq!(parts.place.to_string(), "a:7000,b:6379,::1:1");
    }

    #[test]
    fn unknown_parameters_are_named_with_those_that_are_known() {
        for (url, words) in [
            (
                "redis://h/1?protcol=resp3",
                "`protcol` is unknown, this kind of URL has none",
            ),
            ("redis://h?ssl=true", "`ssl` is unknown"),
            ("redis+sentinel://h/main?db=1", "`db` is unknown"),
            ("redis+cluster://h:1,h:2?db=0", "`db` is unknown"),
            (
                "redis+unix:///s?db=1&user=a&passwd=S3CR3T",
                "`passwd` is unknown, it takes `db`, `user`, `pass`",
            ),
            ("redis://u:a?S3CR3T=1@h", "written as `%3F`"),
            ("redis+cluster://u:a?S3CR3T@h", "written as `%3F`"),
        ] {
            let error = Parts::from_url(url).expect_err(url).to_string();
            assert!(error.contains(words), "{error}");
            assert!(!error.contains("S3CR3T"), "{error}");
        }
        let parts = Parts::from_url("redis+unix:///s?db=1&user=a&pass=b%3F").expect("good");
        assert_eq!(parts.password.as_deref(), Some("b?"));
        assert!(Parts::from_url("redis://u:a%3Fb@h").is_ok());
    }

    #[test]
    fn a_port_that_is_none_is_called_one() {
        for url in [
            "redis://h:65536",
            "redis://u:S3CR3T@h:70000/1",
            "redis://h:x",
            "redis://h:0",
            "redis+cluster://h:1,h:70000",
            "redis+sentinel://u:S3CR3T@h:70000/main",
            "redis://default:S3CR3T",
        ] {
            let error = Parts::from_url(url).expect_err(url).to_string();
            assert!(
                error.contains("its port is not a number from 1 to 65535"),
                "{error}"
            );
            assert!(!error.contains("S3CR3T"), "{error}");
        }
        assert!(Parts::from_url("redis://[::1]").is_ok());
        assert!(Parts::from_url("redis://[::1]:65535").is_ok());
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
            "redis+sentinel://u:S3CR3T@h:1",
            "redis+sentinel://u:S3CR3T@h:1/",
            "redis+sentinel://u:S3CR3T@h:1,:2/main",
            "redis+sentinel://u:S3CR3T@h:x/main",
            "redis+sentinel://u:S3CR3T@h/main/db",
            "redis+sentinel://u:S3CR3T@h/main?db=1",
            "redis+cluster://",
            "redis+cluster://u:S3CR3T@",
            "redis+cluster://u:S3CR3T@h:1,",
            "redis+cluster://u:S3CR3T@h:1,h:x",
            "redis+cluster://u:S3CR3T@h/db",
        ] {
            let error = Parts::from_url(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::Url, "{url}");
            assert!(error.to_string().contains("expected `redis://`"), "{error}");
            assert!(!error.to_string().contains("S3CR3T"), "{error}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn tls_is_asked_for_by_the_scheme() {
        assert!(Parts::from_url("rediss://h").expect("good").tls);
        assert!(Parts::from_url("rediss+sentinel://h/m").expect("good").tls);
        assert!(Parts::from_url("rediss+cluster://h").expect("good").tls);
        let error = Parts::from_url("rediss://h/#insecure").expect_err("no way around it");
        assert!(error.to_string().contains("CA certificate"), "{error}");
    }
}
