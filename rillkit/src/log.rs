//! The log lines, one function for each fact. Their text and level are those of Python RillKit, so
//! that alerts carry over; the same facts are there as fields. Bodies are never logged.

use std::fmt::{Display, Write};
use std::time::Duration;

use crate::decide::{Reason, Verdict};
use crate::entry_id::EntryId;
use crate::error::Error;
use crate::error_text;
use crate::policy::Policy;
use crate::pulse::Part;
use crate::safe_trim::Trimmed;
use crate::store::redis::ServerFacts;
use crate::store::{Consumer, Fault};

/// A text on one line: control characters are escaped.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            // Writing to a string cannot fail.
            let _ = write!(line, "{}", c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

pub(crate) fn started(consumer: &Consumer, policy: &Policy, handler: &str) {
    let Consumer {
        stream,
        group,
        name,
        ..
    } = consumer;
    let retries = policy
        .max_retries
        .map_or_else(|| "None".to_owned(), |retries| retries.to_string());
    tracing::info!(
        target: "rillkit",
        stream,
        group,
        consumer = %name,
        handler,
        "consumer started | stream: {stream} | group: {group} | consumer: {name} | policy: {} | max retries: {retries}",
        policy.ack_policy.name(),
    );
}

pub(crate) fn stopped(consumer: &Consumer) {
    let Consumer {
        stream,
        group,
        name,
        ..
    } = consumer;
    tracing::info!(target: "rillkit", stream, group, consumer = %name, "consumer stopped | stream: {stream} | consumer: {name}");
}

pub(crate) fn handler_failed(consumer: &Consumer, id: EntryId, delivery: u64, verdict: &Verdict) {
    let Consumer { stream, group, .. } = consumer;
    let error = one_line(&verdict.error());
    tracing::error!(target: "rillkit", stream, group, %id, delivery, "handler failed for message {id} (delivery {delivery}): {error}");
}

pub(crate) fn undecodable(consumer: &Consumer, id: EntryId, dlq: &str, error: &str) {
    let Consumer { stream, group, .. } = consumer;
    let error = one_line(error);
    tracing::error!(target: "rillkit", stream, group, %id, dlq, "message {id} cannot be decoded, sending to {dlq}: {error}");
}

pub(crate) fn dead_letter(
    consumer: &Consumer,
    id: EntryId,
    delivery: u64,
    dlq: &str,
    reason: Reason,
    error: &str,
) {
    let Consumer { stream, group, .. } = consumer;
    let (error, reason) = (one_line(error), reason.name());
    tracing::warn!(target: "rillkit", stream, group, %id, delivery, dlq, reason, "moving message {id} to {dlq}: {error}");
}

/// It was acked without a run. The key may be from the body, and is not shown.
pub(crate) fn duplicate(consumer: &Consumer, id: EntryId, of: EntryId) {
    let Consumer { stream, group, .. } = consumer;
    tracing::info!(target: "rillkit", stream, group, %id, %of, "message {id} is a duplicate of {of}, which is done: acked without a run");
}

/// It waits for another message with its key.
pub(crate) fn held(consumer: &Consumer, id: EntryId) {
    let Consumer { stream, group, .. } = consumer;
    tracing::debug!(target: "rillkit", stream, group, %id, "message {id} waits: its key is in progress");
}

/// Whether it may run is not known; it waits and is looked at again.
pub(crate) fn cannot_begin(consumer: &Consumer, id: EntryId, fault: &Fault) {
    let Consumer { stream, group, .. } = consumer;
    tracing::warn!(target: "rillkit", stream, group, %id, "message {id} does not run yet: its idempotency key cannot be looked at: {fault}");
}

/// The DLQ cannot be written; the message stays pending and the move is tried again.
pub(crate) fn dead_letter_fault(consumer: &Consumer, id: EntryId, dlq: &str, fault: &Fault) {
    let Consumer { stream, group, .. } = consumer;
    tracing::error!(
        target: "rillkit",
        stream,
        group,
        %id,
        dlq,
        "cannot write to {dlq}, message {id} stays pending and is tried again: {fault}"
    );
}

/// The server takes no writes; the message stays pending, and its commands and ack are tried again.
pub(crate) fn commit_fault(consumer: &Consumer, id: EntryId, fault: &Fault) {
    let Consumer { stream, group, .. } = consumer;
    tracing::error!(
        target: "rillkit",
        stream,
        group,
        %id,
        "cannot apply the commands of message {id}, which stays pending; they are tried again: {fault}"
    );
}

/// The answer to its ack was lost, and it is not pending any more.
pub(crate) fn committed_before(consumer: &Consumer, id: EntryId) {
    let Consumer { stream, group, .. } = consumer;
    tracing::info!(
        target: "rillkit",
        stream,
        group,
        %id,
        "message {id} is settled: its commands were applied and the answer was lost, or another consumer settled it"
    );
}

/// It was acked though its run failed.
pub(crate) fn queued_in_vain(consumer: &Consumer, id: EntryId, commands: usize) {
    let Consumer { stream, group, .. } = consumer;
    tracing::warn!(
        target: "rillkit",
        stream,
        group,
        %id,
        commands,
        "{commands} commands that message {id} queued are not applied: it is acked, but its run failed"
    );
}

pub(crate) fn queued_too_late(consumer: &Consumer, id: EntryId) {
    let Consumer { stream, group, .. } = consumer;
    tracing::warn!(target: "rillkit", stream, group, %id, "a command for message {id} is not applied: its run has ended");
}

/// Found at the start; messages that should go there will stay pending.
pub(crate) fn dlq_unusable(consumer: &Consumer, dlq: &str, fault: &Fault) {
    let Consumer { stream, group, .. } = consumer;
    tracing::warn!(target: "rillkit", stream, group, dlq, "the DLQ {dlq} cannot be used, messages that fail will stay pending: {fault}");
}

/// What failed before is not told; once for each worker.
pub(crate) fn no_history(consumer: &Consumer, fault: &Fault) {
    let Consumer { stream, group, .. } = consumer;
    tracing::warn!(
        target: "rillkit",
        stream,
        group,
        "what failed deliveries said is not kept beside stream {stream}, so that dead letters tell of the last one alone: {fault}"
    );
}

/// A dead letter without fields of its own has nothing to move back.
pub(crate) fn not_replayed(dlq: &str, id: EntryId) {
    tracing::warn!(target: "rillkit", dlq, %id, "dead letter {id} of {dlq} is left there: it would be an entry without fields");
}

/// The caller's function failed for it.
pub(crate) fn not_reprocessed(dlq: &str, id: EntryId, error: &str) {
    let error = one_line(error);
    tracing::warn!(target: "rillkit", dlq, %id, "dead letter {id} of {dlq} is left there: {error}");
}

/// Somebody else has the message; what this run does can only be logged.
pub(crate) fn lease_lost(consumer: &Consumer, id: EntryId) {
    let Consumer { stream, group, .. } = consumer;
    tracing::warn!(
        target: "rillkit",
        stream,
        group,
        %id,
        "lost the lease of message {id}: it is another consumer's now, and the end of this run counts for nothing"
    );
}

/// The stream no longer holds what was pending.
pub(crate) fn lost(consumer: &Consumer, id: EntryId) {
    let Consumer { stream, group, .. } = consumer;
    tracing::error!(
        target: "rillkit",
        stream,
        group,
        %id,
        "message {id} is lost: it was pending, but somebody trimmed or deleted it from the stream"
    );
}

/// Delayed messages cannot be added now. Once for each change, then at growing intervals.
pub(crate) fn cannot_promote(stream: &str, fault: &Fault) {
    tracing::warn!(target: "rillkit", stream, "delayed messages of stream {stream} cannot be added, which is tried again: {fault}");
}

pub(crate) fn promotes_again(stream: &str, after: Duration) {
    let seconds = after.as_secs_f64();
    tracing::info!(target: "rillkit", stream, "delayed messages of stream {stream} are added again after {seconds:.1} s");
}

/// A fault of RillKit, or of the subscriber that this line goes to.
pub(crate) fn promoter_panicked(stream: &str, panic: &str) {
    let panic = one_line(panic);
    tracing::error!(target: "rillkit", stream, "what adds the delayed messages of stream {stream} has panicked and begins anew: {panic}");
}

/// A worker that may not add them; there need not be any. Once for each start.
pub(crate) fn leaves_delayed(stream: &str, fault: &Fault) {
    tracing::info!(target: "rillkit", stream, "delayed messages of stream {stream} are left to others to add: {fault}");
}

pub(crate) fn delayed_lost(stream: &str, id: &str) {
    let id = one_line(id);
    tracing::error!(target: "rillkit", stream, id, "delayed message {id} of stream {stream} is lost: somebody deleted what it holds");
}

/// Neither done nor failed: what was decided about it finds nothing.
pub(crate) fn not_pending(consumer: &Consumer, id: EntryId, ends: &str) {
    let Consumer { stream, group, .. } = consumer;
    tracing::warn!(
        target: "rillkit",
        stream,
        group,
        %id,
        "message {id} is no longer pending, its {ends} is dropped: another consumer settled it, or somebody removed it \
         from the group"
    );
}

/// Another group came after the start of a handler that deletes what it acks.
pub(crate) fn deletes_for_others(why: &str) {
    tracing::warn!(target: "rillkit", "{why}; until the next start it goes on");
}

/// A periodic trim; what it left, and why.
pub(crate) fn trimmed(stream: &str, trimmed: &Trimmed) {
    let Trimmed { removed, left, .. } = trimmed;
    tracing::debug!(target: "rillkit", stream, removed, left, "trimmed {stream}: {trimmed}");
}

/// A fault of RillKit itself, or of who writes its lines.
pub(crate) fn trimming_panicked(stream: &str, panic: &str) {
    let panic = error_text::capped(&one_line(panic));
    tracing::error!(target: "rillkit", stream, "trimming {stream} panicked, and is tried again: {panic}");
}

/// It is tried again; said once until it works.
pub(crate) fn cannot_trim(error: &Error) {
    let error = one_line(&error.to_string());
    tracing::warn!(target: "rillkit", "{error}; it is tried again");
}

pub(crate) fn running_long(consumer: &Consumer, id: EntryId, running: Duration) {
    let Consumer { stream, group, .. } = consumer;
    let seconds = running.as_secs();
    tracing::warn!(
        target: "rillkit",
        stream,
        group,
        %id,
        seconds,
        "the handler of message {id} has been running for {seconds} s; `timeout_ms` would limit it"
    );
}

pub(crate) fn marks_ignored(consumer: &Consumer, id: EntryId) {
    let Consumer { stream, group, .. } = consumer;
    tracing::warn!(target: "rillkit", stream, group, %id, "the marks of message {id} are ignored: it is acked already");
}

/// A fault of RillKit itself, or of who writes its lines.
pub(crate) fn broken(consumer: &Consumer, part: Part, panic: &str) {
    let Consumer { stream, group, .. } = consumer;
    let (part, panic) = (part.name(), error_text::capped(&one_line(panic)));
    tracing::error!(
        target: "rillkit",
        stream,
        group,
        part,
        "the worker of stream {stream} and group {group} panicked while {part}, and is started again: {panic}"
    );
}

/// The loop cannot go on as it is. Once for each change, then at growing intervals.
pub(crate) fn trouble(consumer: &Consumer, fault: &Fault) {
    let Consumer { stream, group, .. } = consumer;
    tracing::warn!(target: "rillkit", stream, group, "reading is interrupted and tried again: {fault}");
}

/// The server refuses something beside the reads, for a reason that no waiting cures.
pub(crate) fn failing(consumer: &Consumer, what: &str, fault: &Fault) {
    let Consumer { stream, group, .. } = consumer;
    tracing::warn!(target: "rillkit", stream, group, "{what} fails and is tried again: {fault}");
}

pub(crate) fn recovered(consumer: &Consumer, after: Duration) {
    let Consumer { stream, group, .. } = consumer;
    let seconds = after.as_secs_f64();
    tracing::info!(target: "rillkit", stream, group, "reading goes on after {seconds:.1} s");
}

pub(crate) fn group_recreated(consumer: &Consumer, after: EntryId) {
    let Consumer { stream, group, .. } = consumer;
    tracing::warn!(
        target: "rillkit",
        stream,
        group,
        "the group {group} of stream {stream} was gone and is created again behind {after}: nothing that was pending \
         or new is lost, and messages behind that id that were acked may run again"
    );
}

/// The server is not there at the start.
pub(crate) fn waiting_for_server(fault: &Fault) {
    tracing::warn!(target: "rillkit", "waiting for the server: {fault}");
}

pub(crate) fn server_found(after: Duration) {
    let seconds = after.as_secs_f64();
    tracing::info!(target: "rillkit", "the server is there after {seconds:.1} s");
}

/// Consumers of workers that died, with nothing pending.
pub(crate) fn consumers_removed(consumer: &Consumer, removed: usize) {
    let Consumer { stream, group, .. } = consumer;
    tracing::info!(target: "rillkit", stream, group, removed, "removed {removed} consumers that workers left behind in group {group} of {stream}");
}

/// A reader for each handler, one for everything else, one that keeps leases.
fn connections(handlers: usize, is_cluster: bool) -> String {
    if is_cluster {
        format!("{handlers} + 2 for each node with a stream")
    } else {
        (handlers + 2).to_string()
    }
}

/// What stands behind everything that follows, once for each start.
pub(crate) fn server(
    server: &impl Display,
    facts: Option<&ServerFacts>,
    handlers: usize,
    is_cluster: bool,
) {
    let Some(facts) = facts else {
        tracing::info!(target: "rillkit", handlers, "server: {server}, nothing outlives the process | handlers: {handlers}");
        return;
    };
    let known = |fact: &Option<String>| one_line(fact.as_deref().unwrap_or("unknown"));
    let (name, version) = (known(&facts.name), known(&facts.version));
    let (eviction, persistence) = (known(&facts.eviction), known(&facts.persistence));
    let mode = known(&facts.mode);
    let connections = connections(handlers, is_cluster);
    tracing::info!(
        target: "rillkit",
        version,
        eviction,
        persistence,
        mode,
        handlers,
        %connections,
        "server: {name} {version} at {server} | eviction: {eviction} | persistence: {persistence} | mode: {mode} | \
         handlers: {handlers} | connections: {connections}"
    );
    match facts.eviction.as_deref() {
        None | Some("noeviction") => {}
        Some(volatile) if volatile.starts_with("volatile-") => tracing::warn!(
            target: "rillkit",
            eviction,
            "the server's eviction policy is {eviction}: when its memory is full it drops keys that have an expiry; \
             streams have none unless somebody gives them one. Set `maxmemory-policy noeviction` to be sure"
        ),
        Some(_) => tracing::warn!(
            target: "rillkit",
            eviction,
            "the server's eviction policy is {eviction}: when its memory is full it drops streams, with all their \
             messages, groups and dead letters. Set `maxmemory-policy noeviction`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connections_of_a_cluster_depend_on_its_nodes() {
        assert_eq!(connections(3, false), "5");
        assert_eq!(connections(3, true), "3 + 2 for each node with a stream");
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(one_line("a\r\nb\u{1b}[31mé\"'"), "a\\r\\nb\\u{1b}[31mé\"'");
    }
}
