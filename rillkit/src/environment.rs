//! What the environment says: the server, and which handlers run in this process.

use crate::broker::Broker;
use crate::error::{Error, ErrorKind};
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::redis::{Address, Parts, RedisStore};

/// The server when nothing is said.
const DEFAULT_URL: &str = "redis://localhost:6379/0";

/// The store that a URL names.
pub(crate) fn store(url: &str) -> Result<Store, Error> {
    match url.strip_prefix("memory://") {
        Some("") => Ok(Store::Memory(MemoryStore::new())),
        Some(name) => Ok(Store::Memory(MemoryStore::named(name))),
        None => RedisStore::from_url(url).map(Store::Redis),
    }
}

/// `REDIS_URL`, else `REDIS_HOST` and its kin; `None` when none of them is set.
pub(crate) fn broker(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Broker>, Error> {
    // A variable that is set to nothing counts as one that is not set, as in most deployments.
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(url) = variable("REDIS_URL") {
        return store(&url).map(|store| Some(Broker::on(store)));
    }
    let names = [
        "REDIS_HOST",
        "REDIS_PORT",
        "REDIS_USERNAME",
        "REDIS_PASSWORD",
        "REDIS_DB",
        "REDIS_SSL",
    ];
    if names.iter().all(|name| variable(name).is_none()) {
        return Ok(None);
    }
    let number = |name: &str, value: String, expected: &str| {
        Error::new(
            ErrorKind::Url,
            format!(
                "`{name}` is `{}`: expected {expected}",
                value.escape_debug()
            ),
        )
    };
    let port = variable("REDIS_PORT")
        .map(|value| {
            value
                .parse()
                .map_err(|_| number("REDIS_PORT", value, "a port, such as 6379"))
        })
        .transpose()?;
    let db = variable("REDIS_DB")
        .map(|value| {
            value
                .parse()
                .map_err(|_| number("REDIS_DB", value, "the number of a database, such as 0"))
        })
        .transpose()?;
    let tls = match variable("REDIS_SSL").map(|value| value.to_ascii_lowercase()) {
        None => false,
        Some(value) => match value.as_str() {
            "1" | "true" | "yes" | "on" => true,
            "0" | "false" | "no" | "off" => false,
            _ => return Err(number("REDIS_SSL", value, "`true` or `false`")),
        },
    };
    let address = Address::from_parts(Parts {
        host: variable("REDIS_HOST"),
        port,
        username: variable("REDIS_USERNAME"),
        password: variable("REDIS_PASSWORD"),
        db: db.unwrap_or(0),
        tls,
    })?;
    Ok(Some(Broker::on(Store::Redis(RedisStore::new(address)))))
}

/// The broker of the environment, or of the default URL.
pub(crate) fn broker_or(url: &str) -> Result<Broker, Error> {
    match broker(|name| std::env::var(name).ok())? {
        Some(broker) => Ok(broker),
        None => store(url).map(Broker::on),
    }
}

pub(crate) fn default_broker() -> Result<Broker, Error> {
    broker_or(DEFAULT_URL)
}

/// The handlers that `RILLKIT_ONLY` names, by stream or function, separated by commas.
pub(crate) fn only() -> Vec<String> {
    let names = std::env::var("RILLKIT_ONLY").unwrap_or_default();
    names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A consumer's name: host, process and chance, so that no two starts share one.
pub(crate) fn consumer_name() -> String {
    let host =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    let host: String = host
        .unwrap_or_default()
        .trim()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-._".contains(*c))
        .collect();
    let host = if host.is_empty() { "host" } else { &host };
    format!("{host}-{}-{:08x}", std::process::id(), fastrand::u32(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(set: &[(&str, &str)]) -> Result<Option<String>, Error> {
        let broker = broker(|name| {
            set.iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })?;
        Ok(broker.map(|broker| format!("{broker:?}")))
    }

    #[test]
    fn the_environment_names_the_server() {
        assert_eq!(with(&[]), Ok(None));
        assert_eq!(with(&[("REDIS_URL", "")]), Ok(None));
        let url = with(&[("REDIS_URL", "redis://a:1"), ("REDIS_HOST", "b")]);
        assert!(url.is_ok_and(|broker| broker.is_some_and(|broker| broker.contains("a:1"))));
        let parts = with(&[
            ("REDIS_HOST", "b"),
            ("REDIS_PASSWORD", "p@:/#%"),
            ("REDIS_DB", "3"),
        ]);
        let parts = parts.expect("good settings").expect("a broker");
        assert!(parts.contains("b:6379") && !parts.contains("p@"), "{parts}");
    }

    #[test]
    fn bad_values_name_the_variable() {
        for (name, value) in [
            ("REDIS_PORT", "x"),
            ("REDIS_PORT", "70000"),
            ("REDIS_DB", "one"),
            ("REDIS_SSL", "maybe"),
        ] {
            let error = with(&[(name, value)]).expect_err(name);
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("`{name}` is `{value}`: expected ")),
                "{error}"
            );
        }
    }

    #[test]
    fn names_differ() {
        assert_ne!(consumer_name(), consumer_name());
    }
}
