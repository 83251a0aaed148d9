//! Finds out, before the first read, what this login may not do. Every probe is a call that a
//! worker makes later, on the real keys, with arguments that change nothing: the server looks at
//! permissions first.

use redis::{Cmd, cmd};

use super::commits;
use super::link::Link;
use super::markers;
use crate::store::{Acked, Consumer, Fault, FaultClass, Need};

/// One call: what it is named, the key it needs, and the call.
struct Probe {
    name: &'static str,
    key: Option<String>,
    call: Cmd,
}

/// No stream has it: a group that is there would get a consumer by being asked.
const NO_GROUP: &str = "rillkit:no-such-group";
/// No entry has it.
const NO_ENTRY: &str = "0-0";
/// A consumer has nothing pending behind it. Not the highest id of all: to a server that is `>`, and
/// hands out a new entry.
const BEHIND_ALL: &str = "18446744073709551615-0";

/// Whether the login may do all that the consumer needs; the group must exist.
pub(super) async fn check(
    link: &Link,
    consumer: &Consumer,
    dlq: &str,
    needs: &[Need],
) -> Result<(), Fault> {
    let (mut missing, mut words) = (Vec::new(), String::new());
    let mut probes = probes(consumer, dlq);
    for need in needs {
        match need {
            Need::Commits => probes.extend(of_commits(consumer)),
            Need::Markers => probes.extend(of_markers(consumer)),
        }
    }
    for Probe { name, key, call } in probes {
        match link.run(&call).await {
            Err(fault) if is_refusal(&fault) => {
                missing.push(match key {
                    Some(key) => format!("`{name}` on `{key}`"),
                    None => format!("`{name}`"),
                });
                words = fault.text;
            }
            Err(fault)
                if matches!(fault.class, FaultClass::Reconnect | FaultClass::Unreachable) =>
            {
                return Err(fault);
            }
            // A probe's arguments are wrong on purpose, and a server in trouble says so later.
            Ok(_) | Err(_) => {}
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    let text = format!("this login may not run {missing}: the server says `{words}`");
    Err(Fault::new(FaultClass::Config, text))
}

/// Not permitted, or not there: some servers take commands away by renaming them.
fn is_refusal(fault: &Fault) -> bool {
    fault.is_permission() || fault.text.starts_with("ERR unknown ")
}

/// On the marker of an empty key, which no message has.
fn of_markers(consumer: &Consumer) -> [Probe; 3] {
    let marker = markers::name(consumer, "");
    let probe = |name, call: &Cmd| Probe {
        name,
        key: Some(marker.clone()),
        call: call.clone(),
    };
    // A lifetime of nothing is refused.
    let mut set = cmd("SET");
    set.arg(&marker).arg("").arg("PX").arg(0);
    [
        probe("GET", cmd("GET").arg(&marker)),
        probe("SET", &set),
        probe("DEL", cmd("DEL").arg(&marker)),
    ]
}

fn probes(consumer: &Consumer, dlq: &str) -> Vec<Probe> {
    let Consumer {
        stream,
        group,
        name,
        ..
    } = consumer;
    let of_stream = |name, call: &Cmd| Probe {
        name,
        key: Some((*stream).to_owned()),
        call: call.clone(),
    };
    let mut read = cmd("XREADGROUP");
    read.arg("GROUP")
        .arg(NO_GROUP)
        .arg(&**name)
        .arg("COUNT")
        .arg(1);
    read.arg("STREAMS").arg(stream).arg(BEHIND_ALL);
    let mut claim = cmd("XCLAIM");
    claim.arg(stream).arg(NO_GROUP).arg(&**name);
    claim.arg(0).arg(NO_ENTRY).arg("JUSTID");
    let mut delete = cmd("XDEL");
    delete.arg(stream).arg(NO_ENTRY);
    let deletes = (consumer.acked == Acked::Goes).then(|| of_stream("XDEL", &delete));
    let mut probes = vec![
        of_stream("XREADGROUP", &read),
        of_stream("XACK", cmd("XACK").arg(stream).arg(group).arg(NO_ENTRY)),
        of_stream("XPENDING", cmd("XPENDING").arg(stream).arg(group)),
        of_stream("XCLAIM", &claim),
        of_stream(
            "XRANGE",
            cmd("XRANGE").arg(stream).arg(NO_ENTRY).arg(NO_ENTRY),
        ),
        Probe {
            name: "XADD",
            key: Some(dlq.to_owned()),
            // An id that every server refuses, before it makes a stream of a key that is missing.
            call: cmd("XADD").arg(dlq).arg(NO_ENTRY).arg("a").arg("b").clone(),
        },
        Probe {
            name: "SCRIPT LOAD",
            key: None,
            // One whose order would suffer, were it loaded when it is first needed.
            call: cmd("SCRIPT")
                .arg("LOAD")
                .arg(include_str!("scripts/dead_letter.lua"))
                .clone(),
        },
        Probe {
            name: "EVALSHA",
            key: None,
            // A hash of nothing: the answer is that there is no such script.
            call: cmd("EVALSHA").arg("0".repeat(40)).arg(0).clone(),
        },
    ];
    probes.extend(deletes);
    probes
}

/// What the script of a commit calls beside the handler's own commands.
fn of_commits(consumer: &Consumer) -> [Probe; 3] {
    let Consumer {
        stream,
        name,
        acked,
        ..
    } = consumer;
    let mut create = cmd("XGROUP");
    create.arg("CREATECONSUMER").arg(stream).arg(NO_GROUP);
    [
        Probe {
            name: "XGROUP CREATECONSUMER",
            key: Some((*stream).to_owned()),
            call: create.arg(&**name).clone(),
        },
        Probe {
            name: "TYPE",
            key: Some((*stream).to_owned()),
            call: cmd("TYPE").arg(stream).clone(),
        },
        Probe {
            name: "SCRIPT LOAD",
            key: None,
            // So that the first commit need not bring it along.
            call: cmd("SCRIPT")
                .arg("LOAD")
                .arg(commits::source(*acked))
                .clone(),
        },
    ]
}
