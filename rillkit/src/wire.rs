//! The names on the wire: what Python RillKit and any other client see in Redis.

/// The field that holds the body, as UTF-8 JSON.
pub(crate) const DATA: &str = "data";
/// What a user's header is prefixed with.
pub(crate) const HEADER: &str = "h-";
/// What a message is known by, however often it is published.
pub(crate) const ID: &str = "rk-id";
/// The group that a replayed entry is for.
pub(crate) const FOR_GROUP: &str = "rk-for-group";
/// How often an entry was replayed.
pub(crate) const REPLAYS: &str = "rk-replays";
/// What a dead-letter stream is called when no other name was given.
pub(crate) const DLQ_SUFFIX: &str = "-dlq";
/// Characters of an error's text that are kept.
pub(crate) const ERROR_LIMIT: usize = 1000;

/// The fields that a dead letter has beside the entry's own.
pub(crate) mod dead {
    pub(crate) const ORIGINAL_ID: &str = "x-original-id";
    pub(crate) const STREAM: &str = "x-stream";
    pub(crate) const GROUP: &str = "x-group";
    pub(crate) const ERROR: &str = "x-error";
    pub(crate) const DELIVERIES: &str = "x-deliveries";
    pub(crate) const REASON: &str = "x-reason";
    pub(crate) const HANDLER: &str = "x-handler";
    pub(crate) const CONSUMER: &str = "x-consumer";
    pub(crate) const FAILED_AT: &str = "x-failed-at";
    pub(crate) const ATTEMPTS: &str = "x-attempts";

    /// All of them: replaced when an entry is dead-lettered again, dropped when it is replayed.
    pub(crate) const ALL: [&str; 10] = [
        ORIGINAL_ID,
        STREAM,
        GROUP,
        ERROR,
        DELIVERIES,
        REASON,
        HANDLER,
        CONSUMER,
        FAILED_AT,
        ATTEMPTS,
    ];

    pub(crate) fn is_ours(name: &[u8]) -> bool {
        ALL.iter().any(|ours| ours.as_bytes() == name)
    }
}
