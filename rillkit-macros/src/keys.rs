//! The keys of the attribute, in one table: parsing, the messages and the expansion go by it.

use crate::words;

/// One key of the attribute.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
}

const fn key(name: &'static str, kind: Kind) -> Key {
    Key {
        name,
        kind,
        required: false,
    }
}

/// Every key there is.
pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "stream",
        kind: Kind::Stream,
        required: true,
    },
    Key {
        name: "group",
        kind: Kind::Name,
        required: true,
    },
    key("max_retries", Kind::Retries),
    key("claim_idle_ms", Kind::Milliseconds { least: 100 }),
    key(
        "backoff",
        Kind::Number {
            least: 1.0,
            most: f64::MAX,
        },
    ),
    key("max_backoff_ms", Kind::Milliseconds { least: 0 }),
    key(
        "jitter",
        Kind::Number {
            least: 0.0,
            most: 1.0,
        },
    ),
    key("block_ms", Kind::Milliseconds { least: 1 }),
    key("ack_policy", Kind::Policy),
    key("delete_on_ack", Kind::Deletion),
    key("concurrency", Kind::Count),
    key("timeout_ms", Kind::Milliseconds { least: 1 }),
    key("idempotent", Kind::Idempotent),
    key("idempotent_for_ms", Kind::Milliseconds { least: 1 }),
    key("dlq", Kind::Name),
    key("consumer", Kind::Name),
    key("start", Kind::Start),
    key("crate", Kind::CratePath),
];

/// The keys as a message lists them.
pub(crate) fn accepted() -> String {
    words::list(KEYS.iter().map(|key| key.name))
}

/// What a key expects.
pub(crate) enum Kind {
    Stream,
    Name,
    Retries,
    Milliseconds { least: u64 },
    Number { least: f64, most: f64 },
    Policy,
    Deletion,
    Count,
    Idempotent,
    Start,
    CratePath,
}

impl Kind {
    /// In words: "`group` expects ..".
    pub(crate) fn expects(&self) -> &'static str {
        match self {
            Self::Stream => "a name in quotes or a `Stream<T>` constant",
            Self::Name => "a name in quotes or a `&'static str` constant",
            Self::Retries => "an integer, or `None` to retry for ever",
            Self::Milliseconds { .. } => "an integer in milliseconds",
            Self::Number { .. } => "a number",
            Self::Policy => "`nack_on_error`, `ack_always`, `ack_first` or `manual`",
            Self::Deletion => {
                "`true`, or `even_with_other_groups` where what other groups have not read may go as well"
            }
            Self::Count => "an integer",
            Self::Idempotent => "`true`, or the path of a function from `&Body` to the key",
            Self::Start => {
                "`\"0\"` (from the beginning), `\"$\"` (new ones alone) or an entry id in quotes"
            }
            Self::CratePath => "the path of the crate `rillkit`",
        }
    }

    /// What could stand behind the `=`.
    pub(crate) fn example(&self) -> &'static str {
        match self {
            Self::Stream | Self::Name => "\"..\"",
            Self::Retries => "3",
            Self::Milliseconds { .. } => "60_000",
            Self::Number { most, .. } if *most <= 1.0 => "0.1",
            Self::Number { .. } => "1.0",
            Self::Policy => "nack_on_error",
            Self::Deletion => "true",
            Self::Count => "1",
            Self::Idempotent => "true",
            Self::Start => "\"0\"",
            Self::CratePath => "::rillkit",
        }
    }
}
