//! What other programs call the things that a letter says. Pure: the fields of an entry in, those of
//! a letter out.

use crate::entry_id::EntryId;
use crate::error_text::capped;
use crate::fields::Fields;
use crate::wire::dead;

/// One thing that a letter says: our name for it, theirs (the first that is there counts), and how a
/// value is read. A value that cannot be read stays a field of the message.
struct Known {
    ours: &'static str,
    theirs: &'static [&'static str],
    read: fn(&str) -> Option<String>,
}

/// The names that make an entry a letter: without one of them it is none.
const ORIGINAL_ID: &[&str] = &["original_id", "original_message_id"];
const STREAM: &[&str] = &["original_stream", "source_stream"];

const KNOWN: &[Known] = &[
    Known {
        ours: dead::ORIGINAL_ID,
        theirs: ORIGINAL_ID,
        read: id,
    },
    Known {
        ours: dead::STREAM,
        theirs: STREAM,
        read: text,
    },
    Known {
        ours: dead::GROUP,
        theirs: &["original_group", "consumer_group", "group"],
        read: text,
    },
    Known {
        ours: dead::ERROR,
        theirs: &[
            "error",
            "error_message",
            "last_error",
            "exception",
            "reason",
        ],
        read: error,
    },
    Known {
        ours: dead::DELIVERIES,
        theirs: &[
            "deliveries",
            "delivery_count",
            "times_delivered",
            "attempts",
            "retry_count",
        ],
        read: number,
    },
    Known {
        ours: dead::CONSUMER,
        theirs: &["original_consumer", "consumer"],
        read: text,
    },
    Known {
        ours: dead::FAILED_AT,
        theirs: &["failed_at", "dead_at", "moved_at"],
        read: time,
    },
];

/// The letter of this stream that an entry is, `None` where it is no letter, or another stream's. What
/// is not known by name is the message's own, and kept in order.
pub(super) fn letter(id: EntryId, entry: &Fields, stream: &str) -> Option<Fields> {
    let first = |names: &[&str]| names.iter().find_map(|name| entry.text(name));
    first(ORIGINAL_ID)?;
    if first(STREAM).is_some_and(|of| of != stream) {
        return None;
    }
    let mut known = Vec::new();
    for Known { ours, theirs, read } in KNOWN {
        let found = theirs
            .iter()
            .find_map(|name| Some((*name, entry.text(name)?)));
        if let Some((name, value)) = found.and_then(|(name, value)| Some((name, read(value)?))) {
            known.push((name, *ours, value));
        }
    }
    let is_own = |name: &[u8]| {
        !dead::is_ours(name) && !known.iter().any(|(theirs, ..)| theirs.as_bytes() == name)
    };
    let own = entry.iter().filter(|(name, _)| is_own(name));
    let mut letter: Fields = own
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    for ours in dead::ALL {
        let said = known.iter().find(|(_, name, _)| *name == ours);
        match (said, ours) {
            (Some((.., value)), _) => letter.push(ours, value.as_str()),
            (None, dead::STREAM) => letter.push(ours, stream),
            (None, dead::ERROR) => letter.push(ours, capped("")),
            // When it was written is near to when it failed.
            (None, dead::FAILED_AT) => letter.push(ours, id.ms.to_string()),
            (None, _) => {}
        }
    }
    Some(letter)
}

fn text(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

fn error(value: &str) -> Option<String> {
    Some(capped(value))
}

fn id(value: &str) -> Option<String> {
    EntryId::parse(value.as_bytes()).map(|id| id.to_string())
}

fn number(value: &str) -> Option<String> {
    value.parse::<u64>().ok().map(|number| number.to_string())
}

/// Milliseconds since 1970, or seconds with or without a fraction. The numbers do not meet: so many
/// seconds are 3000 years, and so many milliseconds were in 1973.
fn time(value: &str) -> Option<String> {
    let number: f64 = value.parse().ok()?;
    let ms = if number < 1e11 {
        number * 1000.0
    } else {
        number
    };
    (0.0..1e15).contains(&ms).then(|| format!("{ms:.0}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: EntryId = EntryId { ms: 9, seq: 1 };

    fn fields(fields: &[(&str, &str)]) -> Fields {
        fields
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect()
    }

    #[test]
    fn what_is_known_by_name_is_ours_and_the_rest_is_the_messages() {
        for (theirs, ours) in [
            (
                &[
                    ("original_id", "17-3"),
                    ("original_stream", "jobs"),
                    ("data", "1"),
                    ("error", "bad input"),
                    ("attempts", "4"),
                    ("failed_at", "1764543210.5"),
                    ("colour", "red"),
                ][..],
                &[
                    ("data", "1"),
                    ("colour", "red"),
                    ("x-original-id", "17-3"),
                    ("x-stream", "jobs"),
                    ("x-error", "bad input"),
                    ("x-deliveries", "4"),
                    ("x-failed-at", "1764543210500"),
                ][..],
            ),
            // The most particular name counts, and the other is the message's.
            (
                &[
                    ("consumer_group", "workers"),
                    ("group", "blue"),
                    ("original_message_id", "17"),
                    ("consumer", "c1"),
                ],
                &[
                    ("group", "blue"),
                    ("x-original-id", "17-0"),
                    ("x-stream", "jobs"),
                    ("x-group", "workers"),
                    ("x-error", "error without a message"),
                    ("x-consumer", "c1"),
                    ("x-failed-at", "9"),
                ],
            ),
            // What cannot be read is the message's.
            (
                &[
                    ("original_id", "first"),
                    ("attempts", "many"),
                    ("failed_at", "yesterday"),
                ],
                &[
                    ("original_id", "first"),
                    ("attempts", "many"),
                    ("failed_at", "yesterday"),
                    ("x-stream", "jobs"),
                    ("x-error", "error without a message"),
                    ("x-failed-at", "9"),
                ],
            ),
            // Fields of an earlier end are replaced.
            (
                &[("original_id", "1-1"), ("x-error", "old"), ("error", "new")],
                &[
                    ("x-original-id", "1-1"),
                    ("x-stream", "jobs"),
                    ("x-error", "new"),
                    ("x-failed-at", "9"),
                ],
            ),
        ] {
            let letter = letter(ID, &fields(theirs), "jobs").expect("a letter");
            assert_eq!(texts(&letter), ours, "{theirs:?}");
        }
        for none in [
            &[("data", "1"), ("error", "e")][..],
            &[("original_id", "1-1"), ("original_stream", "another")],
        ] {
            assert_eq!(letter(ID, &fields(none), "jobs"), None, "{none:?}");
        }
    }

    fn texts(fields: &Fields) -> Vec<(&str, &str)> {
        let text = |bytes| std::str::from_utf8(bytes).expect("text");
        fields
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect()
    }

    #[test]
    fn times_are_in_seconds_or_milliseconds() {
        for (value, ms) in [
            ("1764543210", Some("1764543210000")),
            ("1764543210.123", Some("1764543210123")),
            ("1764543210123", Some("1764543210123")),
            ("0", Some("0")),
            ("-1", None),
            ("1e300", None),
            ("NaN", None),
            ("", None),
            ("2025-11-30T12:00:00Z", None),
        ] {
            assert_eq!(time(value).as_deref(), ms, "{value}");
        }
    }
}
