//! Times for people: how long ago, and how long.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rillkit::EntryId;

const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// The two largest units of it: `3d 4h`, `12s`, `0.3s`.
pub(crate) fn short(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if ms < 1000 {
        return format!("{ms}ms");
    }
    let Some(at) = UNITS.iter().position(|(_, unit)| ms >= *unit) else {
        return "0ms".to_owned();
    };
    let (name, unit) = UNITS[at];
    let (next, smaller) = UNITS[at + 1];
    match (ms % unit) / smaller {
        rest if rest > 0 && next != "ms" => format!("{}{name} {rest}{next}", ms / unit),
        _ => format!("{}{name}", ms / unit),
    }
}

/// Reads `300ms`, `90s`, `5m`, `2h`, `7d`, and several of these in a row.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as `300ms`, `90s`, `5m`, `2h`, `7d` or `1h30m`".to_owned();
    let (mut total, mut rest) = (0u64, text.trim());
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let unit = UNITS.iter().find(|(name, _)| *name == &rest[..letters]);
        let (_, unit) = unit.ok_or_else(wrong)?;
        total = number
            .checked_mul(*unit)
            .and_then(|ms| total.checked_add(ms))
            .ok_or_else(wrong)?;
        rest = rest[letters..].trim_start();
    }
    if text.trim().is_empty() {
        return Err(wrong());
    }
    Ok(Duration::from_millis(total))
}

/// Milliseconds since 1970, by this machine's clock.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// How long ago an entry was added, if its id was made from a clock.
pub(crate) fn age(id: EntryId, now: u64) -> Duration {
    Duration::from_millis(now.saturating_sub(id.ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_two_units() {
        for (ms, told) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_500, "1s"),
            (61_000, "1m 1s"),
            (3_600_000, "1h"),
            (90_061_000, "1d 1h"),
        ] {
            assert_eq!(short(Duration::from_millis(ms)), told);
        }
    }

    #[test]
    fn times_are_read() {
        for (text, ms) in [
            ("300ms", 300),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("7d 1s", 604_801_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for wrong in ["", "5", "m", "5x", "-1s", "99999999999999999999d", "1.5h"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
