//! What the environment says: the server, and which handlers run in this process.

use crate::broker::Broker;
use crate::error::{Error, ErrorKind};
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::redis::{PORT, Parts, Place, RedisStore};

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
        return at_url(&url, variable).map(Some);
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
    let host = variable("REDIS_HOST").unwrap_or_else(|| "localhost".to_owned());
    let parts = Parts {
        username: variable("REDIS_USERNAME"),
        password: variable("REDIS_PASSWORD"),
        db: db.unwrap_or(0),
        tls,
        ..Parts::at(Place::Host(host, port.unwrap_or(PORT)))
    };
    at(parts, variable).map(Some)
}

fn at_url(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Broker, Error> {
    if url.starts_with("memory://") {
        return store(url).map(Broker::on);
    }
    at(Parts::from_url(url)?, variable)
}

/// The broker at this server, with what the environment says about certificates and sentinels.
fn at(mut parts: Parts, variable: impl Fn(&str) -> Option<String>) -> Result<Broker, Error> {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    let file = |name: &str| {
        let Some(path) = variable(name) else {
            return Ok(None);
        };
        std::fs::read(&path).map(Some).map_err(|error| {
            let path = path.escape_debug();
            let text = format!("`{name}` is `{path}`, and that file cannot be read: {error}");
            Error::new(ErrorKind::Url, text)
        })
    };
    parts.certificates.ca = file("REDIS_CA_CERT")?;
    parts.certificates.client = match (file("REDIS_CLIENT_CERT")?, file("REDIS_CLIENT_KEY")?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            let text =
                "`REDIS_CLIENT_CERT` and `REDIS_CLIENT_KEY` need each other, and one is missing";
            return Err(Error::new(ErrorKind::Url, text));
        }
    };
    parts.sentinel_username = variable("REDIS_SENTINEL_USERNAME");
    parts.sentinel_password = variable("REDIS_SENTINEL_PASSWORD");
    RedisStore::new(parts).map(Store::Redis).map(Broker::on)
}

/// The broker of the environment, or of the default URL.
pub(crate) fn broker_or(url: &str) -> Result<Broker, Error> {
    let variable = |name: &str| std::env::var(name).ok();
    match broker(variable)? {
        Some(broker) => Ok(broker),
        None => at_url(url, variable),
    }
}

pub(crate) fn default_broker() -> Result<Broker, Error> {
    broker_or(DEFAULT_URL)
}

/// The handlers that `RILLKIT_ONLY` names, by stream or function, separated by commas.
///
/// # Errors
///
/// Separators without a name: a list that came out empty by mistake must not run everything.
pub(crate) fn only() -> Result<Vec<String>, Error> {
    names(&std::env::var("RILLKIT_ONLY").unwrap_or_default())
}

fn names(list: &str) -> Result<Vec<String>, Error> {
    let names: Vec<_> = list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    if names.is_empty() && !list.is_empty() {
        return Err(Error::new(
            ErrorKind::Handlers,
            format!(
                "`RILLKIT_ONLY` is `{}`: expected names of streams or handlers with commas between, or nothing to run \
                 all handlers",
                list.escape_debug()
            ),
        ));
    }
    Ok(names)
}

/// What the last part of a generated name begins with, so that nobody takes another's for it.
const MARK: &str = "rk";

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
    format!(
        "{host}-{}-{MARK}{:08x}",
        std::process::id(),
        fastrand::u32(..)
    )
}

/// Whether [`consumer_name`] made this name, here or elsewhere.
pub(crate) fn is_consumer_name(name: &str) -> bool {
    let mut parts = name.rsplitn(3, '-');
    let (chance, process, host) = (parts.next(), parts.next(), parts.next());
    let is_hex = |chance: &str| {
        chance.len() == 8
            && chance
                .bytes()
                .all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
    };
    chance
        .and_then(|chance| chance.strip_prefix(MARK))
        .is_some_and(is_hex)
        && process.is_some_and(|process| process.parse::<u32>().is_ok())
        && host.is_some_and(|host| !host.is_empty())
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
    fn files_of_certificates_are_named_and_need_encryption() {
        let url = ("REDIS_URL", "redis://h");
        let error = with(&[url, ("REDIS_CA_CERT", "/none")]).expect_err("no such file");
        let expected = "`REDIS_CA_CERT` is `/none`, and that file cannot be read: ";
        assert!(error.to_string().starts_with(expected), "{error}");
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let error = with(&[url, ("REDIS_CA_CERT", here)]).expect_err("not encrypted");
        assert!(
            error.to_string().contains("need a URL with `rediss://`"),
            "{error}"
        );
        let error = with(&[url, ("REDIS_CLIENT_KEY", here)]).expect_err("half a pair");
        assert!(error.to_string().contains("need each other"), "{error}");
        let memory = with(&[("REDIS_URL", "memory://"), ("REDIS_CA_CERT", "/none")]);
        assert!(memory.is_ok_and(|broker| broker.is_some()));
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
    fn a_list_of_nothing_is_not_all_handlers() {
        assert_eq!(names(""), Ok(vec![]));
        let two = vec!["jobs".to_owned(), "mails".to_owned()];
        assert_eq!(names(" jobs, ,mails,"), Ok(two));
        for list in [",", " ", " , "] {
            let error = names(list).expect_err(list);
            assert_eq!(error.kind(), ErrorKind::Handlers);
            let text = format!("`RILLKIT_ONLY` is `{list}`: expected names ");
            assert!(error.to_string().starts_with(&text), "{error}");
        }
    }

    #[test]
    fn names_differ() {
        assert_ne!(consumer_name(), consumer_name());
    }

    #[test]
    fn generated_names_are_known_from_all_others() {
        assert!(is_consumer_name(&consumer_name()));
        assert!(is_consumer_name("web-1.example-4242-rk00c0ffee"));
        for other in [
            "",
            "worker",
            "web-4242-00c0ffee",
            "web-4242-rk00c0ffe",
            "web-4242-rk00C0FFEE",
            "web-x-rk00c0ffee",
            "4242-rk00c0ffee",
            "-4242-rk00c0ffee",
            "rillkit:handed-back",
        ] {
            assert!(!is_consumer_name(other), "{other}");
        }
    }
}
