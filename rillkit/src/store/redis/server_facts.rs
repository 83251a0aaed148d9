//! What a server says about itself, for the one line that is logged at a start.

use redis::{Value, cmd};

use super::link::Link;
use super::reply;

/// `None` is what the server does not say, or not to this login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerFacts {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    /// The policy by which keys are dropped when memory is full.
    pub(crate) eviction: Option<String>,
    /// `aof`, `rdb`, both, or `none`.
    pub(crate) persistence: Option<String>,
    /// `standalone`, `cluster`, ...
    pub(crate) mode: Option<String>,
}

/// Asks; what is refused is not known.
pub(super) async fn ask(link: &Link) -> ServerFacts {
    let info = link.run(&cmd("INFO")).await.ok();
    let info = info.and_then(|info| reply::text(info).ok());
    let save = link.run(cmd("CONFIG").arg("GET").arg("save")).await.ok();
    facts(&info.unwrap_or_default(), save.and_then(saves).as_deref())
}

/// The times at which a snapshot is made, empty for never.
fn saves(answer: Value) -> Option<String> {
    match reply::array(answer).ok()?.pop() {
        Some(times) => reply::text(times).ok(),
        None => None,
    }
}

fn facts(info: &str, save: Option<&str>) -> ServerFacts {
    let fact = |name: &str| {
        let value = info
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(|value| value.trim().to_owned())
    };
    // Valkey tells the Redis version that it is compatible with as well.
    let (name, version) = match fact("valkey_version") {
        Some(version) => (Some("valkey".to_owned()), Some(version)),
        None => (
            fact("redis_version").map(|_| "redis".to_owned()),
            fact("redis_version"),
        ),
    };
    let aof = fact("aof_enabled").map(|on| on == "1");
    let persistence = match (aof, save.map(|times| !times.is_empty())) {
        (Some(true), Some(true)) => Some("aof, rdb"),
        (Some(true), _) => Some("aof"),
        (_, Some(true)) => Some("rdb"),
        (Some(false), Some(false)) => Some("none"),
        (Some(false) | None, None) | (None, Some(false)) => None,
    };
    ServerFacts {
        name,
        version,
        eviction: fact("maxmemory_policy"),
        persistence: persistence.map(str::to_owned),
        mode: fact("server_mode").or_else(|| fact("redis_mode")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n\r\n# Memory\r\n\
                        maxmemory_policy:allkeys-lru\r\n# Persistence\r\naof_enabled:0\r\n";

    #[test]
    fn facts_are_read_from_what_the_server_tells() {
        let facts = facts(INFO, Some("3600 1"));
        let of = |fact: &Option<String>| fact.clone().unwrap_or_default();
        assert_eq!(
            (of(&facts.name), of(&facts.version)),
            ("redis".into(), "7.0.15".into())
        );
        assert_eq!(of(&facts.eviction), "allkeys-lru");
        assert_eq!(of(&facts.persistence), "rdb");
        assert_eq!(of(&facts.mode), "standalone");
    }

    #[test]
    fn what_is_not_told_is_not_known() {
        assert_eq!(facts("", None), ServerFacts::default());
        assert_eq!(facts(INFO, None).persistence, None);
        assert_eq!(facts(INFO, Some("")).persistence.as_deref(), Some("none"));
    }

    #[test]
    fn valkey_goes_by_its_own_version() {
        let info = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nserver_mode:cluster\r\n";
        let facts = facts(info, None);
        assert_eq!(facts.name.as_deref(), Some("valkey"));
        assert_eq!(facts.version.as_deref(), Some("9.1.2"));
        assert_eq!(facts.mode.as_deref(), Some("cluster"));
    }
}
