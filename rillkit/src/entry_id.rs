//! The id of an entry, as a number pair: small to keep, cheap to compare.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// The id of a stream entry, `<milliseconds>-<sequence>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// Milliseconds of the server's clock when the entry was added.
    pub ms: u64,
    /// Tells entries of one millisecond apart.
    pub seq: u64,
}

impl EntryId {
    /// The smallest id, `0-0`.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The largest id.
    pub const MAX: Self = Self {
        ms: u64::MAX,
        seq: u64::MAX,
    };

    /// The id just below, or `0-0`.
    pub(crate) fn before(self) -> Self {
        match (self.ms, self.seq) {
            (0, 0) => Self::MIN,
            (ms, 0) => Self {
                ms: ms - 1,
                seq: u64::MAX,
            },
            (ms, seq) => Self { ms, seq: seq - 1 },
        }
    }

    /// The id just above, or the largest.
    #[must_use]
    pub fn after(self) -> Self {
        match (self.ms, self.seq) {
            (u64::MAX, u64::MAX) => Self::MAX,
            (ms, u64::MAX) => Self { ms: ms + 1, seq: 0 },
            (ms, seq) => Self { ms, seq: seq + 1 },
        }
    }

    /// Reads `<ms>-<seq>` or `<ms>`, in one pass: there is one for each message.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (mut ms, mut number, mut digits) = (None, 0u64, 0);
        for byte in text {
            let digit = byte.wrapping_sub(b'0');
            if digit < 10 {
                number = match digits {
                    // Nineteen digits always fit.
                    0..19 => number * 10 + u64::from(digit),
                    _ => number.checked_mul(10)?.checked_add(digit.into())?,
                };
                digits += 1;
            } else if *byte == b'-' && ms.is_none() && digits > 0 {
                ms = Some(number);
                (number, digits) = (0, 0);
            } else {
                return None;
            }
        }
        match ms {
            _ if digits == 0 => None,
            Some(ms) => Some(Self { ms, seq: number }),
            None => Some(Self { ms: number, seq: 0 }),
        }
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// As text, `<ms>-<seq>`.
impl serde::Serialize for EntryId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// From text, as it is written.
impl<'de> serde::Deserialize<'de> for EntryId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for EntryId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text.as_bytes()).ok_or_else(|| {
            Error::new(
                ErrorKind::Input,
                format!(
                    "`{}` is not an entry id: expected `<ms>-<seq>`",
                    text.escape_debug()
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_and_written() {
        assert_eq!(EntryId::parse(b"17-3"), Some(EntryId { ms: 17, seq: 3 }));
        assert_eq!(EntryId::parse(b"17"), Some(EntryId { ms: 17, seq: 0 }));
        assert_eq!(
            EntryId::MAX.to_string(),
            "18446744073709551615-18446744073709551615"
        );
        assert_eq!(
            EntryId::MAX.to_string().parse::<EntryId>(),
            Ok(EntryId::MAX)
        );
        for bad in [
            "",
            "-",
            "1-",
            "-1",
            "a",
            "1-b",
            "18446744073709551616-0",
            "1-2-3",
            "+1-0",
        ] {
            assert_eq!(EntryId::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn ids_go_through_json_as_text() {
        let id = EntryId { ms: 17, seq: 3 };
        assert_eq!(serde_json::to_string(&id).unwrap(), r#""17-3""#);
        assert_eq!(serde_json::from_str::<EntryId>(r#""17-3""#).unwrap(), id);
        assert!(serde_json::from_str::<EntryId>(r#""x""#).is_err());
    }

    #[test]
    fn neighbours_of_an_id() {
        let id = EntryId { ms: 5, seq: 0 };
        assert_eq!(
            id.before(),
            EntryId {
                ms: 4,
                seq: u64::MAX
            }
        );
        assert_eq!(id.before().after(), id);
        assert_eq!(EntryId::MIN.before(), EntryId::MIN);
        assert_eq!(EntryId::MAX.after(), EntryId::MAX);
    }
}
