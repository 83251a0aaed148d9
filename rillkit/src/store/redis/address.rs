//! Where a server is and how it is reached: straight, or as the master that sentinels know.

use std::fmt;
use std::sync::Arc;

use redis::RedisError;

use super::endpoint::Endpoint;
use super::fault;
use super::parts::{Parts, Place};
use super::sentinel::Sentinels;
use super::tls;
use crate::error::Error;
use crate::store::{Fault, FaultClass};

/// `Debug` and `Display` show where it is, and nobody's name.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) way: Way,
    parts: Arc<Parts>,
    is_rotating: bool,
    text: Arc<str>,
}

/// How a connection gets to the server.
#[derive(Clone)]
pub(super) enum Way {
    Straight(Arc<Endpoint>),
    Sentinels(Arc<Sentinels>),
}

impl Address {
    #[cfg(test)]
    pub(super) fn from_url(url: &str) -> Result<Self, Error> {
        Self::new(Parts::from_url(url)?)
    }

    pub(crate) fn new(parts: Parts) -> Result<Self, Error> {
        let login = parts.login();
        let is_rotating = login.is_rotating();
        let text = parts.place.to_string().into();
        let way = match &parts.place {
            Place::Host(..) | Place::Socket(_) | Place::Cluster(_) => {
                let certificates = tls::certificates(&parts)?;
                let endpoint = Endpoint::new(&parts.place, certificates, login, parts.db)?;
                Way::Straight(Arc::new(endpoint))
            }
            Place::Master { name, sentinels } => {
                let (name, sentinels) = (name.clone(), sentinels.clone());
                Way::Sentinels(Arc::new(Sentinels::new(name, &sentinels, parts.clone())?))
            }
        };
        Ok(Self {
            way,
            parts: Arc::new(parts),
            is_rotating,
            text,
        })
    }

    /// Another host and port, reached in the same way with the same login. An empty host is this
    /// one.
    pub(super) fn at(&self, host: &str, port: u16) -> Result<Self, Error> {
        let host = match (host, &self.parts.place) {
            ("", Place::Host(own, _)) => own.clone(),
            (host, _) => host.to_owned(),
        };
        let mut parts = Parts::clone(&self.parts);
        parts.place = Place::Host(host, port);
        Self::new(parts)
    }

    /// Whether both are one server, by their names.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.text == other.text
    }

    /// What has to be done about an error on a live connection, and whether to replace that: a new
    /// one may lead to another server, or log in with fresher credentials.
    pub(super) fn judge(&self, error: &RedisError) -> (Fault, bool) {
        let mut fault = fault::classify(error);
        let is_stale = self.is_rotating && fault::is_login(error);
        if is_stale {
            fault.class = FaultClass::Wait;
        }
        let replace =
            is_stale || fault.class == FaultClass::Reconnect || fault::wants_another_server(error);
        (fault, replace)
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
    use redis::{Value, parse_redis_value};

    use super::*;
    use crate::credentials::{Credentials, Login};

    fn answer(line: &str) -> RedisError {
        match parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => error.into(),
            other => panic!("not an error: {other:?}"),
        }
    }

    #[test]
    fn debug_shows_no_password() {
        let address = Address::from_url("redis://u:S3CR3T@localhost/").expect("a good URL");
        assert_eq!(format!("{address:?}"), r#"Address("localhost:6379")"#);
        let url = "redis+sentinel://u:S3CR3T@one,two/main";
        let address = Address::from_url(url).expect("a good URL");
        let expected = r#"Address("`main` of one:26379,two:26379")"#;
        assert_eq!(format!("{address:?}"), expected);
    }

    #[test]
    fn another_node_has_the_same_login() {
        let address = Address::from_url("redis://u:p@a:7000").expect("a good URL");
        for (host, text) in [("b", "b:7001"), ("", "a:7001")] {
            let other = address.at(host, 7001).expect("a good address");
            assert_eq!(other.to_string(), text);
            assert_eq!(other.parts.password.as_deref(), Some("p"));
            assert!(!other.same(&address));
        }
    }

    #[test]
    fn credentials_that_rotate_are_asked_for_again() {
        let fixed = Parts::from_url("redis://:old@localhost").expect("a good URL");
        let rotating = Parts {
            rotating: Some(Login::Rotating(Arc::new(|| {
                Ok(Credentials::password("new"))
            }))),
            ..fixed.clone()
        };
        for line in ["NOAUTH Authentication required.", "WRONGPASS invalid pair"] {
            let (fault, replace) = Address::new(fixed.clone())
                .expect("good")
                .judge(&answer(line));
            assert_eq!(
                (fault.class, replace),
                (FaultClass::Config, false),
                "{line}"
            );
            let (fault, replace) = Address::new(rotating.clone())
                .expect("good")
                .judge(&answer(line));
            assert_eq!((fault.class, replace), (FaultClass::Wait, true), "{line}");
        }
        let refused = answer("NOPERM this user has no permissions");
        let (fault, replace) = Address::new(rotating).expect("good").judge(&refused);
        assert_eq!((fault.class, replace), (FaultClass::Config, false));
    }
}
