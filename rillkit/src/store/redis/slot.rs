//! The hash slots of a Redis Cluster: which one a key is in, and whether two keys share one.

use crate::store::{Fault, FaultClass};

/// How many there are.
pub(super) const COUNT: usize = 16_384;

/// The slot of a key.
pub(super) fn of(key: &str) -> u16 {
    crc16(hashed(key).as_bytes()) % COUNT as u16
}

/// The part of a key that its slot depends on: what stands between the first `{` and the next `}`,
/// or all of it where that is nothing.
fn hashed(key: &str) -> &str {
    key.split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map_or(key, |(tag, _)| if tag.is_empty() { key } else { tag })
}

/// Whether a message can go from one to the other in one step.
pub(super) fn shared(stream: &str, dlq: &str) -> Result<(), Fault> {
    let (here, there) = (of(stream), of(dlq));
    if here == there {
        return Ok(());
    }
    let tagged = tagged(stream, '-', dlq);
    let cure = if of(&tagged) == here {
        format!(
            "name the dead-letter queue `{tagged}` (`dlq = \"{tagged}\"`, on a constant `.dlq(\"{tagged}\")`)"
        )
    } else {
        "give both names the same part in braces, as `{jobs}` and `{jobs}-dlq` have".to_owned()
    };
    Err(Fault::new(
        FaultClass::Config,
        format!(
            "`{stream}` and its dead-letter queue `{dlq}` are in different slots of the cluster \
             ({here} and {there}), so that no message can go from one to the other in one step; {cure}"
        ),
    ))
}

/// Whether a key is in the stream's slot; otherwise what to do.
pub(super) fn same(stream: &str, key: &str) -> Result<(), String> {
    let (here, there) = (of(stream), of(key));
    if here == there {
        return Ok(());
    }
    let tagged = tagged(stream, ':', key);
    let cure = if of(&tagged) == here {
        format!("name it `{tagged}`")
    } else {
        "give both names the same part in braces, as `{jobs}` and `{jobs}:total` have".to_owned()
    };
    Err(format!(
        "`{key}` and the stream `{stream}` are in different slots of the cluster ({there} and {here}); {cure}"
    ))
}

/// A name like this one, with the part in braces that leads to the stream's slot.
fn tagged(stream: &str, joint: char, name: &str) -> String {
    let tag = hashed(stream);
    match name.strip_prefix(stream) {
        Some(rest) => format!("{{{tag}}}{rest}"),
        None => format!("{{{tag}}}{joint}{name}"),
    }
}

/// The name of a key that stands beside a stream, in the stream's own slot: `rk:{jobs}:delayed`.
pub(super) fn beside(stream: &str, what: &str) -> String {
    // A stream whose name has a part in braces brings its slot along.
    if hashed(stream) == stream {
        format!("rk:{{{stream}}}:{what}")
    } else {
        format!("rk:{stream}:{what}")
    }
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (crc << 8) ^ CRC16[usize::from((crc >> 8) ^ u16::from(*byte))]
    })
}

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_server() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        // Answers of `CLUSTER KEYSLOT`.
        assert_eq!((of("orders"), of("orders-dlq")), (105, 11_368));
        for (key, like) in [
            ("{orders}-dlq", "orders"),
            ("a{orders}b", "orders"),
            ("a{orders}{b}", "orders"),
            ("{{orders}", "{orders"),
        ] {
            assert_eq!(of(key), of(like), "{key}");
        }
        assert_ne!(of("{}orders"), of("orders"));
        assert_eq!(hashed("{}orders"), "{}orders");
        assert_eq!(hashed("{orders"), "{orders");
    }

    #[test]
    fn a_key_beside_a_stream_is_in_its_slot() {
        for (stream, key) in [
            ("jobs", "rk:{jobs}:delayed"),
            ("{jobs}", "rk:{jobs}:delayed"),
            ("a{jobs}b", "rk:a{jobs}b:delayed"),
        ] {
            assert_eq!(beside(stream, "delayed"), key);
            assert_eq!(of(key), of(stream), "{stream}");
        }
    }

    #[test]
    fn a_key_in_another_slot_is_told_a_better_name() {
        for (stream, key) in [
            ("jobs", "jobs"),
            ("jobs", "{jobs}:total"),
            ("a{jobs}", "{jobs}"),
        ] {
            assert_eq!(same(stream, key), Ok(()), "{key}");
        }
        for (stream, key, cure) in [
            ("jobs", "total", "`{jobs}:total`"),
            ("jobs", "jobs:total", "`{jobs}:total`"),
            ("{jobs}", "{other}:total", "`{jobs}:{other}:total`"),
            ("jo}bs", "total", "the same part in braces"),
        ] {
            let error = same(stream, key).expect_err(key);
            assert!(error.contains(cure), "{error}");
        }
    }

    #[test]
    fn names_in_different_slots_are_told_the_cure() {
        for (stream, dlq) in [
            ("{jobs}", "{jobs}-dlq"),
            ("jobs", "{jobs}-dlq"),
            ("a{jobs}", "a{jobs}-dlq"),
        ] {
            assert_eq!(shared(stream, dlq), Ok(()), "{stream}");
        }
        for (stream, dlq, cure) in [
            ("jobs", "jobs-dlq", "`{jobs}-dlq`"),
            ("jobs", "dead", "`{jobs}-dead`"),
            ("a{jobs}", "dead", "`{jobs}-dead`"),
            ("jo}bs", "jo}bs-dlq", "the same part in braces"),
        ] {
            let fault = shared(stream, dlq).expect_err(stream);
            assert_eq!(fault.class, FaultClass::Config);
            assert!(fault.text.contains(cure), "{fault}");
        }
    }
}
