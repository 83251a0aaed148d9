//! Each finding from a snapshot that has it, and none from one that has not.

use rillkit::inspect::StreamInfo;
use serde_json::{Value, json};

use super::*;
use crate::check::snapshot::Dlq;

const NOW: u64 = 1_800_000_000_000;
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

fn id(ago: u64) -> String {
    format!("{}-0", NOW - ago)
}

fn info(length: u64, oldest_ago: u64, newest_ago: u64) -> StreamInfo {
    let some = |ago| (length > 0).then(|| id(ago));
    let info = json!({
        "length": length, "entries_added": length, "first": some(oldest_ago), "last": some(newest_ago),
        "last_id": id(newest_ago), "groups": 1,
    });
    serde_json::from_value(info).expect("a stream")
}

fn consumer(name: &str, pending: u64, idle_ms: u64) -> ConsumerInfo {
    let info = json!({ "name": name, "pending": pending, "idle_ms": idle_ms });
    serde_json::from_value(info).expect("a consumer")
}

fn worker(name: &str, with: Value) -> WorkerInfo {
    let mut info = json!({
        "group": "workers", "consumer": name, "handler": "app::run_job", "max_retries": 3,
        "claim_idle_ms": 60_000, "backoff": 1.0, "max_backoff_ms": 900_000, "jitter": 0.0,
        "ack_policy": "nack_on_error", "concurrency": 1, "dlq": "jobs-dlq", "version": "0.1.0",
        "noted_at": NOW - MINUTE,
    });
    if let (Value::Object(info), Value::Object(with)) = (&mut info, with) {
        info.extend(with);
    }
    serde_json::from_value(info).expect("a worker")
}

fn group(consumers: Vec<ConsumerInfo>, lag: Option<u64>) -> Group {
    let info = json!({
        "name": "workers", "consumers": consumers.len(), "pending": 0, "lag": lag,
        "last_delivered": id(0), "oldest_pending": null, "oldest_pending_idle_ms": null,
    });
    Group {
        info: serde_json::from_value(info).expect("a group"),
        consumers,
        gone: Vec::new(),
    }
}

/// One stream with one group and one worker, and nothing to mend.
fn well() -> Snapshot {
    let mut snapshot = Snapshot {
        now: NOW,
        ..Snapshot::default()
    };
    snapshot.server.eviction = Some("noeviction".into());
    snapshot.server.persistence = Some("aof".into());
    snapshot.streams.push(Stream {
        name: "jobs".into(),
        info: Some(info(10, HOUR, 0)),
        groups: vec![group(vec![consumer("a", 1, 0)], Some(0))],
        workers: vec![worker("a", json!({}))],
        dlqs: vec![Dlq {
            name: "jobs-dlq".into(),
            info: None,
            apart: None,
        }],
    });
    snapshot
}

/// The findings of a snapshot that was well before this was done to it.
fn found(change: impl FnOnce(&mut Snapshot)) -> Vec<(Severity, &'static str)> {
    let mut snapshot = well();
    change(&mut snapshot);
    let findings = of(&snapshot);
    assert!(findings.iter().all(|one| !one.cure.is_empty()));
    findings
        .iter()
        .map(|one| (one.severity, one.code))
        .collect()
}

fn stream(snapshot: &mut Snapshot) -> &mut Stream {
    &mut snapshot.streams[0]
}

#[test]
fn what_is_well_has_no_findings() {
    assert_eq!(found(|_| {}), []);
    // What is not known is not bad.
    assert_eq!(
        found(|all| all.server = rillkit::inspect::ServerInfo::default()),
        []
    );
    assert_eq!(found(|all| stream(all).workers.clear()), []);
    // Without streams there is nothing that could be lost.
    let nothing = |all: &mut Snapshot| {
        all.streams.clear();
        all.server.eviction = Some("allkeys-lru".into());
    };
    assert_eq!(found(nothing), []);
}

#[test]
fn a_server_that_drops_or_forgets_is_told() {
    for (policy, severity) in [
        ("allkeys-lru", Severity::Error),
        ("allkeys-random", Severity::Error),
        ("volatile-ttl", Severity::Note),
    ] {
        let found = found(|all| all.server.eviction = Some(policy.into()));
        assert_eq!(found, [(severity, "eviction")]);
    }
    let forgets = found(|all| all.server.persistence = Some("none".into()));
    assert_eq!(forgets, [(Severity::Note, "persistence")]);
}

#[test]
fn a_stream_that_takes_no_more_is_told() {
    let found = found(|all| {
        let full = json!({ "length": 1, "entries_added": 1, "first": EntryId::MAX, "last": EntryId::MAX,
                           "last_id": EntryId::MAX, "groups": 1 });
        stream(all).info = serde_json::from_value(full).ok();
    });
    assert_eq!(found, [(Severity::Error, "no-more-ids")]);
}

#[test]
fn a_group_that_workers_need_and_is_not_there_is_told() {
    let lost = |all: &mut Snapshot| stream(all).groups.clear();
    assert_eq!(found(lost), [(Severity::Error, "missing-group")]);
    let mut all = well();
    lost(&mut all);
    assert_eq!(
        of(&all)[0].cure,
        "redis-cli XGROUP CREATE jobs workers 0 MKSTREAM"
    );
    // Those who have gone need none.
    let gone = found(|all| {
        stream(all).groups.clear();
        stream(all).workers[0].noted_at = NOW - HOUR;
    });
    assert_eq!(gone, []);
}

#[test]
fn workers_of_one_group_that_differ_are_told() {
    for (with, differs) in [
        (json!({ "max_retries": null }), true),
        (json!({ "claim_idle_ms": 300 }), true),
        (json!({ "backoff": 2.0 }), true),
        (json!({ "max_backoff_ms": 60_000 }), true),
        (json!({ "ack_policy": "manual" }), true),
        (json!({ "dlq": "dead" }), true),
        (json!({ "handler": "app::other" }), true),
        // These are each worker's own affair.
        (
            json!({ "concurrency": 8, "jitter": 0.5, "timeout_ms": 1 }),
            false,
        ),
        // Another group's are, too.
        (json!({ "group": "others", "claim_idle_ms": 300 }), false),
        // And those of one that has gone.
        (
            json!({ "claim_idle_ms": 300, "noted_at": NOW - HOUR }),
            false,
        ),
    ] {
        let told = with.to_string();
        let found = found(|all| {
            let mut others = group(vec![consumer("b", 0, 0)], Some(0));
            others.info.name = "others".into();
            stream(all).groups.push(others);
            stream(all).workers.push(worker("b", with));
        });
        let expected: &[_] = match differs {
            true => &[(Severity::Warning, "settings-differ")],
            false => &[],
        };
        assert_eq!(found, expected, "{told}");
    }
    let mut all = well();
    for name in ["b", "c"] {
        let other = worker(name, json!({ "claim_idle_ms": 300 }));
        stream(&mut all).workers.push(other);
    }
    let words = &of(&all)[0].words;
    let expected = "its workers differ in `claim_idle_ms`: `300` at b and 1 more, `60000` at a";
    assert_eq!(words, expected);
}

#[test]
fn a_short_lease_is_told_and_matters_where_somebody_does_not_renew() {
    let slow = || worker("a", json!({ "longest_run_ms": 61_000 }));
    let alone = found(|all| stream(all).workers[0] = slow());
    assert_eq!(alone, [(Severity::Note, "lease")]);
    let among_others = found(|all| {
        stream(all).workers[0] = slow();
        let consumers = &mut stream(all).groups[0].consumers;
        consumers.push(consumer("python", 1, 1000));
    });
    assert_eq!(among_others, [(Severity::Warning, "lease")]);
    let long_gone = found(|all| {
        stream(all).workers[0] = slow();
        let consumers = &mut stream(all).groups[0].consumers;
        consumers.extend([consumer("python", 0, HOUR), consumer(HANDED_BACK, 0, 0)]);
    });
    assert_eq!(long_gone, [(Severity::Note, "lease")]);
    let quick = worker("a", json!({ "longest_run_ms": 60_000 }));
    assert_eq!(found(|all| stream(all).workers[0] = quick), []);
}

#[test]
fn messages_that_were_trimmed_while_pending_are_told() {
    let found = found(|all| {
        let gone = [EntryId { ms: 1, seq: 0 }, EntryId { ms: 2, seq: 0 }];
        stream(all).groups[0].gone.extend(gone);
    });
    assert_eq!(found, [(Severity::Error, "trimmed")]);
}

#[test]
fn dead_consumers_that_hold_messages_are_told() {
    let with = |consumers: Vec<ConsumerInfo>| {
        found(|all| stream(all).groups[0].consumers.extend(consumers))
    };
    let dead = [(Severity::Warning, "dead-consumer")];
    assert_eq!(with(vec![consumer("b", 2, 3 * MINUTE)]), dead);
    assert_eq!(with(vec![consumer("b", 2, 3 * MINUTE - 1)]), []);
    assert_eq!(with(vec![consumer("b", 0, DAY)]), []);
    assert_eq!(with(vec![consumer(HANDED_BACK, 2, DAY)]), []);
    // A long run: its worker says that it lives.
    let busy = found(|all| stream(all).groups[0].consumers[0].idle = Duration::from_secs(3600));
    assert_eq!(busy, []);
    let silent = found(|all| {
        stream(all).workers[0].noted_at = NOW - HOUR;
        stream(all).groups[0].consumers[0].idle = Duration::from_secs(3600);
    });
    assert_eq!(silent, dead);
}

#[test]
fn messages_that_nobody_reads_are_told() {
    let with = |lag, idle_ms| {
        found(|all| {
            stream(all).workers.clear();
            stream(all).groups[0] = group(vec![consumer("a", 0, idle_ms)], lag);
        })
    };
    assert_eq!(with(Some(5), HOUR), [(Severity::Warning, "nobody-reads")]);
    assert_eq!(with(Some(0), HOUR), []);
    assert_eq!(with(None, HOUR), []);
    assert_eq!(with(Some(5), MINUTE), []);
    let runs = found(|all| stream(all).groups[0] = group(vec![], Some(5)));
    assert_eq!(runs, []);
}

#[test]
fn names_in_different_slots_are_told() {
    let found = found(|all| stream(all).dlqs[0].apart = Some("in different slots".into()));
    assert_eq!(found, [(Severity::Error, "slots")]);
}

#[test]
fn dead_letters_are_told_and_that_they_only_grow() {
    let with = |length, oldest, newest| {
        found(|all| stream(all).dlqs[0].info = Some(info(length, oldest, newest)))
    };
    assert_eq!(with(0, 0, 0), []);
    assert_eq!(with(3, DAY - 1, 0), [(Severity::Note, "dead-letters")]);
    assert_eq!(with(3, DAY, HOUR), [(Severity::Note, "dead-letters")]);
    let grows = [(Severity::Warning, "dlq-grows")];
    assert_eq!(with(3, DAY, HOUR - 1), grows);
}

#[test]
fn the_worst_comes_first() {
    let found = found(|all| {
        all.server.persistence = Some("none".into());
        stream(all).dlqs[0].info = Some(info(3, DAY, 0));
        stream(all).groups.clear();
    });
    let codes: Vec<_> = found.iter().map(|(_, code)| *code).collect();
    assert_eq!(codes, ["missing-group", "dlq-grows", "persistence"]);
}

#[test]
fn names_are_one_word_of_a_shell() {
    for (name, word) in [
        ("jobs", "jobs"),
        ("{jobs}", "'{jobs}'"),
        ("a'b", r"'a'\''b'"),
    ] {
        assert_eq!(quoted(name), word);
    }
}
