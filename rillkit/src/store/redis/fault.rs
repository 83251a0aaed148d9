//! Sorts what the server and the connection answer: one total function, tested against the list of
//! states that a server was put into.

use redis::{ErrorKind, RedisError};

use super::tls;
use crate::store::{Fault, FaultClass};

/// What has to be done about this error. What is not known is waited out.
pub(super) fn classify(error: &RedisError) -> Fault {
    let class = match server_code(error) {
        Some((code, detail)) => of_server(code, detail),
        None => of_connection(error),
    };
    Fault::new(class, text(error))
}

/// An error while connecting: nothing was sent yet.
pub(super) fn while_connecting(error: &RedisError, address: &impl std::fmt::Display) -> Fault {
    let fault = classify(error);
    match fault.class {
        FaultClass::Reconnect | FaultClass::Unreachable => Fault::new(
            FaultClass::Unreachable,
            format!("cannot reach redis at {address}: {}", fault.text),
        ),
        class @ (FaultClass::Wait | FaultClass::EnsureGroup | FaultClass::Config) => {
            Fault::new(class, fault.text)
        }
    }
}

/// Whether the connection points at a server that cannot take writes any more: after a failover the
/// name may resolve to another.
pub(super) fn wants_another_server(error: &RedisError) -> bool {
    server_code(error).is_some_and(|(code, detail)| match code {
        "READONLY" | "MASTERDOWN" => true,
        "UNBLOCKED" => detail.contains("instance state changed"),
        _ => false,
    })
}

/// A node's word that another one has the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Redirect<'a> {
    /// Just for this command: the slot is on its way there.
    pub(super) ask: bool,
    /// Empty for the host of the node that says so.
    pub(super) host: &'a str,
    pub(super) port: u16,
}

/// Whether the fault is `MOVED slot host:port` or `ASK slot host:port`: nothing was done then.
pub(super) fn redirect(fault: &Fault) -> Option<Redirect<'_>> {
    let mut words = fault.text.split([' ', ';']);
    let ask = match words.next()? {
        "MOVED" => false,
        "ASK" => true,
        _ => return None,
    };
    let (host, port) = words.nth(1)?.rsplit_once(':')?;
    let port = port.parse().ok()?;
    Some(Redirect { ask, host, port })
}

/// Whether the server wants other credentials than it was given.
pub(super) fn is_login(error: &RedisError) -> bool {
    server_code(error).is_some_and(|(code, _)| matches!(code, "NOAUTH" | "WRONGPASS"))
}

fn of_server(code: &str, detail: &str) -> FaultClass {
    match code {
        "NOGROUP" => FaultClass::EnsureGroup,
        "UNBLOCKED" if detail.contains("no longer exists") => FaultClass::EnsureGroup,
        "WRONGTYPE" | "NOPERM" | "NOAUTH" | "WRONGPASS" | "CROSSSLOT" | "MOVED" | "ASK" => {
            FaultClass::Config
        }
        // XINFO on a missing stream, which has no code of its own.
        "ERR" if detail.contains("no such key") => FaultClass::EnsureGroup,
        "ERR" if is_config(detail) => FaultClass::Config,
        _ => FaultClass::Wait,
    }
}

/// The few answers without a code of their own that no waiting cures.
fn is_config(detail: &str) -> bool {
    let detail = detail.to_ascii_lowercase();
    [
        "unknown command",
        "unknown subcommand",
        "db index is out of range",
        "invalid db index",
        "select is not allowed in cluster mode",
        "cluster support disabled",
        "without any password configured",
        "exhausted the last possible id",
        "wrong number of arguments",
        // A permission that is missing inside a script, to older servers and to newer ones.
        "the user executing the script can't",
        "acl failure in script",
    ]
    .iter()
    .any(|known| detail.contains(known))
}

fn of_connection(error: &RedisError) -> FaultClass {
    match error.kind() {
        ErrorKind::InvalidClientConfig | ErrorKind::AuthenticationFailed => FaultClass::Config,
        _ if tls::cure(error).is_some() => FaultClass::Config,
        _ if error.is_connection_refusal() => FaultClass::Unreachable,
        _ => FaultClass::Reconnect,
    }
}

/// The code and the rest of a server's answer. Redis 6.2 wraps an error inside a script into
/// `ERR Error running script (..): @user_script:3: -NOGROUP ..`: there the inner code counts.
fn server_code(error: &RedisError) -> Option<(&str, &str)> {
    let code = error.code()?;
    let detail = error.detail().unwrap_or_default();
    if code == "ERR" && detail.starts_with("Error running script") {
        let inner = detail
            .rsplit_once("@user_script:")
            .map_or(detail, |(_, inner)| inner);
        let inner = inner
            .split_once(": ")
            .map_or(inner, |(_, inner)| inner)
            .trim_start_matches('-');
        let (code, rest) = inner.split_once(' ').unwrap_or((inner, ""));
        // Some of its errors have no code.
        let is_code = code.bytes().all(|byte| byte.is_ascii_uppercase());
        return Some(if is_code {
            (code, rest)
        } else {
            ("ERR", inner)
        });
    }
    Some((code, detail))
}

fn text(error: &RedisError) -> String {
    match (server_code(error), error.detail()) {
        (Some((code, detail)), _) => explain(code, detail),
        (None, Some(detail)) => format!("{} ({detail})", error.category()),
        (None, None) => format!("{error}{}", tls::cure(error).unwrap_or_default()),
    }
}

/// The server's words, and what to do where that is known.
fn explain(code: &str, detail: &str) -> String {
    let cure = match code {
        "NOAUTH" => "; give a password in `REDIS_URL` or `REDIS_PASSWORD`",
        "WRONGPASS" => "; check the user name and the password",
        "NOPERM" => "; SECURITY.md lists the permissions that are needed",
        "ERR" if detail.contains("exhausted the last possible") => {
            "; somebody added an entry with the highest id: publish to a stream of another name"
        }
        "MOVED" | "ASK" | "CROSSSLOT" => {
            "; this is a node of a redis cluster, whose URL begins with `redis+cluster://`"
        }
        "ERR" if detail.contains("cluster support disabled") => {
            "; this is a single server, whose URL begins with `redis://`"
        }
        _ => "",
    };
    format!("{code} {}{cure}", detail.trim_end().trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use std::io;

    use redis::{Value, parse_redis_value};

    use super::*;

    fn answer(line: &str) -> RedisError {
        match parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => error.into(),
            other => panic!("not an error: {other:?}"),
        }
    }

    #[test]
    fn every_state_of_a_server_has_its_class() {
        use FaultClass::{Config, EnsureGroup, Wait};
        for (line, class) in [
            ("UNBLOCKED the stream key no longer exists", EnsureGroup),
            (
                "NOGROUP the consumer group this client was blocked on no longer exists",
                EnsureGroup,
            ),
            (
                "NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option",
                EnsureGroup,
            ),
            (
                "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
                Wait,
            ),
            ("UNBLOCKED client unblocked via CLIENT UNBLOCK", Wait),
            (
                "READONLY You can't write against a read only replica.",
                Wait,
            ),
            (
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
                Wait,
            ),
            ("LOADING Redis is loading the dataset in memory", Wait),
            ("BUSY Redis is busy running a script.", Wait),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                Wait,
            ),
            ("NOREPLICAS Not enough good replicas to write.", Wait),
            ("MISCONF Redis is configured to save RDB snapshots", Wait),
            (
                "EXECABORT Transaction discarded because of previous errors.",
                Wait,
            ),
            ("CLUSTERDOWN Hash slot not served", Wait),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                Wait,
            ),
            ("ERR max number of clients reached", Wait),
            ("ERR something nobody has seen before", Wait),
            ("SOMECODE nobody has seen before", Wait),
            (
                "WRONGTYPE Operation against a key holding the wrong kind of value",
                Config,
            ),
            (
                "CROSSSLOT Keys in request don't hash to the same slot",
                Config,
            ),
            ("MOVED 105 127.0.0.1:7001", Config),
            (
                "NOPERM this user has no permissions to run the 'xadd' command",
                Config,
            ),
            ("NOAUTH Authentication required.", Config),
            (
                "WRONGPASS invalid username-password pair or user is disabled.",
                Config,
            ),
            (
                "ERR unknown command 'XREADGROUP', with args beginning with: ",
                Config,
            ),
            ("ERR DB index is out of range", Config),
            ("ERR This instance has cluster support disabled", Config),
            (
                "ERR AUTH <password> called without any password configured for the default user.",
                Config,
            ),
            (
                "ERR The stream has exhausted the last possible ID, unable to add more items",
                Config,
            ),
            (
                "ERR The user executing the script can't run this command or subcommand script: 0a1b, on @user_script:7",
                Config,
            ),
            (
                "ERR ACL failure in script: User u has no permissions to run the 'xtrim' command script: 0a1b, on @user_script:7",
                Config,
            ),
            (
                "ERR Error running script (call to f_0a1b): @user_script:7: @user_script: 7: The user executing the script can't run this command or subcommand",
                Config,
            ),
            (
                "ERR Error running script (call to f_0a1b): @user_script:2: @user_script: 2: -NOGROUP No such key 's' or consumer group 'g'",
                EnsureGroup,
            ),
            (
                "ERR Error running script (call to f_0a1b): @user_script:9: @user_script: 9: -WRONGTYPE Operation against a key holding the wrong kind of value",
                Config,
            ),
        ] {
            assert_eq!(classify(&answer(line)).class, class, "{line}");
        }
    }

    #[test]
    fn a_broken_connection_is_replaced() {
        let broken: RedisError = io::Error::from(io::ErrorKind::BrokenPipe).into();
        let late: RedisError = io::Error::from(io::ErrorKind::TimedOut).into();
        let refused: RedisError = io::Error::from(io::ErrorKind::ConnectionRefused).into();
        assert_eq!(classify(&broken).class, FaultClass::Reconnect);
        assert_eq!(classify(&late).class, FaultClass::Reconnect);
        assert_eq!(classify(&refused).class, FaultClass::Unreachable);
        assert_eq!(
            while_connecting(&late, &"h:1").class,
            FaultClass::Unreachable
        );
    }

    #[test]
    fn a_redirect_names_the_other_node() {
        for (line, ask, host, port) in [
            ("MOVED 105 127.0.0.1:7001", false, "127.0.0.1", 7001),
            ("ASK 105 ::1:7002", true, "::1", 7002),
            ("MOVED 105 :7003", false, "", 7003),
        ] {
            let fault = classify(&answer(line));
            assert_eq!(
                redirect(&fault),
                Some(Redirect { ask, host, port }),
                "{line}"
            );
        }
        for line in ["MOVED", "ERR MOVED 105 127.0.0.1:7001", "CLUSTERDOWN x"] {
            assert_eq!(redirect(&classify(&answer(line))), None, "{line}");
        }
    }

    #[test]
    fn a_failover_resolves_the_name_again() {
        assert!(wants_another_server(&answer(
            "READONLY You can't write against a read only replica."
        )));
        assert!(wants_another_server(&answer(
            "UNBLOCKED force unblock, instance state changed"
        )));
        assert!(!wants_another_server(&answer("OOM command not allowed")));
    }
}
