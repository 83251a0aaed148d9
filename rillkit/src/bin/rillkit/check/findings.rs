//! What does not fit, why that is bad, and the command that mends it. It looks at a snapshot and at
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rillkit::EntryId;
use rillkit::inspect::{ConsumerInfo, WorkerInfo};
use serde::Serialize;

use super::snapshot::{Dlq, Group, Snapshot, Stream};
use crate::groups::{HANDED_BACK, is_fresh};
use crate::text::{count, plain};
use crate::time;

/// The lease of workers that do not say theirs: the attribute's default.
const LEASE: Duration = Duration::from_secs(60);
/// Leases after which a consumer that was handed nothing, and settled nothing, counts as dead.
const DEAD_AFTER: u32 = 3;
/// How long nobody may have asked for messages that are there.
const UNREAD: Duration = Duration::from_secs(300);
/// The age of letters that somebody should have looked at by now.
const OLD_LETTER: Duration = Duration::from_secs(24 * 60 * 60);
/// The age of letters that show that the trouble goes on.
const NEW_LETTER: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Good to know.
    Note,
    /// It will go wrong, or somebody has to look.
    Warning,
    /// It goes wrong now.
    Error,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// Its name, for programs.
    pub(crate) code: &'static str,
    pub(crate) stream: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) words: String,
    /// The command that mends it, or what to do where no command can.
    pub(crate) cure: String,
}

impl Finding {
    fn new(severity: Severity, code: &'static str, words: String, cure: String) -> Self {
        Self {
            severity,
            code,
            stream: None,
            group: None,
            words,
            cure,
        }
    }

    fn on(mut self, stream: &Stream) -> Self {
        self.stream = Some(stream.name.clone());
        self
    }

    fn of(mut self, group: &str) -> Self {
        self.group = Some(group.to_owned());
        self
    }

    /// Where it is: `server`, a stream, or a stream and a group.
    pub(crate) fn place(&self) -> String {
        match (&self.stream, &self.group) {
            (None, _) => "server".to_owned(),
            (Some(stream), None) => plain(stream),
            (Some(stream), Some(group)) => format!("{}/{}", plain(stream), plain(group)),
        }
    }
}

/// All of them, the worst first.
pub(crate) fn of(snapshot: &Snapshot) -> Vec<Finding> {
    let mut found = Vec::new();
    if !snapshot.streams.is_empty() {
        found.extend(eviction(snapshot));
        found.extend(persistence(snapshot));
    }
    for stream in &snapshot.streams {
        found.extend(no_more_ids(stream));
        found.extend(missing_groups(stream, snapshot.now));
        for group in &stream.groups {
            found.extend(settings(stream, group, snapshot.now));
            found.extend(lease(stream, group, snapshot.now));
            found.extend(trimmed(stream, group));
            found.extend(dead_consumers(stream, group, snapshot.now));
            found.extend(nobody_reads(stream, group, snapshot.now));
        }
        for dlq in &stream.dlqs {
            found.extend(apart(stream, dlq));
            found.extend(letters(stream, dlq, snapshot.now));
        }
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.severity));
    found
}

fn eviction(snapshot: &Snapshot) -> Option<Finding> {
    let policy = snapshot.server.eviction.as_deref()?;
    let (severity, what) = match policy {
        "noeviction" => return None,
        policy if policy.starts_with("allkeys-") => (
            Severity::Error,
            "drops whole streams when its memory is full",
        ),
        _ => (
            Severity::Note,
            "drops keys that have an expiry when its memory is full",
        ),
    };
    let words = format!("its eviction policy is `{policy}`: it {what}");
    let cure = "redis-cli CONFIG SET maxmemory-policy noeviction".to_owned();
    Some(Finding::new(severity, "eviction", words, cure))
}

fn persistence(snapshot: &Snapshot) -> Option<Finding> {
    (snapshot.server.persistence.as_deref()? == "none").then(|| {
        let words = "it keeps nothing on disk: a restart loses every message".to_owned();
        let cure = "redis-cli CONFIG SET appendonly yes".to_owned();
        Finding::new(Severity::Note, "persistence", words, cure)
    })
}

/// Somebody added an entry with the highest id.
fn no_more_ids(stream: &Stream) -> Option<Finding> {
    (stream.info.as_ref()?.last_id == EntryId::MAX).then(|| {
        let words = "it has an entry with the highest id, and nothing can be added behind it";
        let cure = "publish to a stream of another name".to_owned();
        Finding::new(Severity::Error, "no-more-ids", words.to_owned(), cure).on(stream)
    })
}

fn missing_groups(stream: &Stream, now: u64) -> Vec<Finding> {
    let known: BTreeSet<_> = stream.groups.iter().map(|group| &group.info.name).collect();
    let running = stream.workers.iter().filter(|one| is_fresh(one, now));
    let wanted: BTreeSet<_> = running.map(|one| &one.group).collect();
    let missing = wanted.difference(&known).map(|group| {
        let words = "workers run for this group, and it is not there".to_owned();
        let cure = format!(
            "redis-cli XGROUP CREATE {} {} 0 MKSTREAM",
            quoted(&stream.name),
            quoted(group)
        );
        Finding::new(Severity::Error, "missing-group", words, cure)
            .on(stream)
            .of(group)
    });
    missing.collect()
}

/// The workers of a group that say that they run.
fn running<'a>(stream: &'a Stream, group: &'a Group, now: u64) -> Vec<&'a WorkerInfo> {
    let workers = stream.workers.iter();
    workers
        .filter(|one| one.group == group.info.name && is_fresh(one, now))
        .collect()
}

/// How a setting is told.
type Told = fn(&WorkerInfo) -> String;

/// What all workers of a group have to agree on, so that each message has one fate.
fn settings(stream: &Stream, group: &Group, now: u64) -> Vec<Finding> {
    let workers = running(stream, group, now);
    let shown: [(&str, Told); 7] = [
        ("max_retries", |one| match one.max_retries {
            Some(retries) => retries.to_string(),
            None => "None".to_owned(),
        }),
        ("claim_idle_ms", |one| {
            one.claim_idle.as_millis().to_string()
        }),
        ("backoff", |one| one.backoff.to_string()),
        ("max_backoff_ms", |one| {
            one.max_backoff.as_millis().to_string()
        }),
        ("ack_policy", |one| one.ack_policy.clone()),
        ("dlq", |one| one.dlq.clone()),
        ("handler", |one| one.handler.clone()),
    ];
    let mut found = Vec::new();
    for (key, value) in shown {
        let mut values: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for worker in &workers {
            let who = values.entry(value(worker)).or_default();
            who.push(&worker.consumer);
        }
        if values.len() < 2 {
            continue;
        }
        let told: Vec<_> = values
            .iter()
            .map(|(value, who)| match who.as_slice() {
                [one] => format!("`{value}` at {one}"),
                [one, rest @ ..] => format!("`{value}` at {one} and {} more", rest.len()),
                [] => format!("`{value}`"),
            })
            .collect();
        let words = format!("its workers differ in `{key}`: {}", told.join(", "));
        let cure = format!(
            "deploy one version to all of them; see rillkit groups {} --consumers --json",
            quoted(&stream.name)
        );
        found.push(
            Finding::new(Severity::Warning, "settings-differ", words, cure)
                .on(stream)
                .of(&group.info.name),
        );
    }
    found
}

/// RillKit renews the leases of what runs. Other clients do not, and take over by their own idle
/// time, and so does nobody's harm come from a short lease unless they are there.
fn lease(stream: &Stream, group: &Group, now: u64) -> Option<Finding> {
    let workers = running(stream, group, now);
    let slowest = workers.iter().max_by_key(|one| one.longest_run)?;
    let (run, lease) = (slowest.longest_run?, slowest.claim_idle);
    if run <= lease {
        return None;
    }
    let known: BTreeSet<_> = stream.workers.iter().map(|one| &one.consumer).collect();
    let others = group
        .consumers
        .iter()
        .find(|one| !known.contains(&one.name) && one.name != HANDED_BACK && one.idle < UNREAD);
    let (severity, why) = match others {
        Some(other) => (
            Severity::Warning,
            format!(
                "and `{}` says nothing about itself: if it is no RillKit for Rust, its own long runs are run twice",
                other.name
            ),
        ),
        None => (
            Severity::Note,
            "which is well as long as all of them are RillKit for Rust, which renews its leases"
                .to_owned(),
        ),
    };
    let words = format!(
        "runs take up to {}, longer than the lease of {}, {why}",
        time::short(run),
        time::short(lease)
    );
    let longer = 2 * run.as_millis();
    let cure = format!("claim_idle_ms = {longer}, on the handler and at every other client");
    Some(
        Finding::new(severity, "lease", words, cure)
            .on(stream)
            .of(&group.info.name),
    )
}

fn trimmed(stream: &Stream, group: &Group) -> Option<Finding> {
    let oldest = group.gone.first()?;
    let gone = group.gone.len() as u64;
    let words = format!(
        "{} pending and no longer in the stream, from {oldest} on: trimmed before the retries were over, and lost",
        count(gone, "message")
    );
    let cure = format!(
        "raise the limit of whoever trims it (`.maxlen`, XADD MAXLEN, XTRIM), or trim it with rillkit trim {}, \
         which spares what is pending",
        quoted(&stream.name)
    );
    Some(
        Finding::new(Severity::Error, "trimmed", words, cure)
            .on(stream)
            .of(&group.info.name),
    )
}

fn dead_consumers(stream: &Stream, group: &Group, now: u64) -> Option<Finding> {
    let workers = running(stream, group, now);
    let lease = workers.iter().map(|one| one.claim_idle).max();
    let dead_after = lease.unwrap_or(LEASE) * DEAD_AFTER;
    let runs = |name: &str| workers.iter().any(|one| one.consumer == name);
    let dead = |one: &&ConsumerInfo| {
        one.pending > 0 && one.idle >= dead_after && one.name != HANDED_BACK && !runs(&one.name)
    };
    let dead: Vec<_> = group.consumers.iter().filter(dead).collect();
    let longest = dead.iter().max_by_key(|one| one.idle)?;
    let pending: u64 = dead.iter().map(|one| one.pending).sum();
    let consumers = count(dead.len() as u64, "dead consumer");
    let words = format!(
        "{consumers} with {} pending, such as `{}`, idle for {}",
        count(pending, "message"),
        longest.name,
        time::short(longest.idle)
    );
    let cure = match workers.is_empty() {
        true => "start a worker of this group: it takes them over".to_owned(),
        false => format!(
            "its workers take them over when they are due; to see them: rillkit pending {} {} --consumer {}",
            quoted(&stream.name),
            quoted(&group.info.name),
            quoted(&longest.name)
        ),
    };
    Some(
        Finding::new(Severity::Warning, "dead-consumer", words, cure)
            .on(stream)
            .of(&group.info.name),
    )
}

fn nobody_reads(stream: &Stream, group: &Group, now: u64) -> Option<Finding> {
    let unread = group.info.lag.filter(|lag| *lag > 0)?;
    let alive = group.consumers.iter().any(|one| one.idle < UNREAD)
        || !running(stream, group, now).is_empty();
    if alive {
        return None;
    }
    let words = format!("{} not read, and nobody reads", count(unread, "message"));
    let cure = format!(
        "start a worker of this group; if it is of no use any more: redis-cli XGROUP DESTROY {} {}",
        quoted(&stream.name),
        quoted(&group.info.name)
    );
    Some(
        Finding::new(Severity::Warning, "nobody-reads", words, cure)
            .on(stream)
            .of(&group.info.name),
    )
}

fn apart(stream: &Stream, dlq: &Dlq) -> Option<Finding> {
    let words = dlq.apart.clone()?;
    let cure = "name the dead-letter queue so that both have the same part in braces".to_owned();
    Some(Finding::new(Severity::Error, "slots", words, cure).on(stream))
}

/// Old letters that nobody looked at, and new ones beside them.
fn letters(stream: &Stream, dlq: &Dlq, now: u64) -> Option<Finding> {
    let info = dlq.info.as_ref().filter(|info| info.length > 0)?;
    let (oldest, newest) = (time::age(info.first?, now), time::age(info.last?, now));
    let grows = oldest >= OLD_LETTER && newest < NEW_LETTER;
    let letters = count(info.length, "dead letter");
    let (severity, code, words) = if grows {
        let words = format!(
            "`{}` only grows: {letters}, the oldest {} old, the newest {}",
            dlq.name,
            time::short(oldest),
            time::short(newest)
        );
        (Severity::Warning, "dlq-grows", words)
    } else {
        let words = format!(
            "{letters} in `{}`, the newest {} old",
            dlq.name,
            time::short(newest)
        );
        (Severity::Note, "dead-letters", words)
    };
    let (stream_word, dlq_word) = (quoted(&stream.name), quoted(&dlq.name));
    let cure = format!(
        "rillkit dlq stats {stream_word} --queue {dlq_word}; then rillkit dlq replay, or purge"
    );
    Some(Finding::new(severity, code, words, cure).on(stream))
}

/// As one word of a shell.
fn quoted(name: &str) -> String {
    let safe = |c: char| c.is_alphanumeric() || "-_./:@%+,".contains(c);
    if !name.is_empty() && name.chars().all(safe) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
