//! Reads the server's replies, by move and without loss: order, duplicates and bytes that are not
//! text stay as they are.

use std::time::Duration;

use redis::Value;

use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::store::{Entry, Fault, FaultClass};

/// A reply that is not of the shape the command is documented to have.
pub(super) fn odd(what: &str) -> Fault {
    Fault::new(
        FaultClass::Wait,
        format!("the server's answer to `{what}` has an unexpected shape"),
    )
}

/// The entries of an `XREADGROUP` of one stream: `[[key, entries]]`, or nil when nothing came.
pub(super) fn read(reply: Value) -> Result<Vec<Entry>, Fault> {
    let entries = match reply {
        Value::Nil => return Ok(Vec::new()),
        Value::Array(mut streams) => match streams.pop() {
            Some(Value::Array(mut stream)) => stream.pop(),
            _ => None,
        },
        _ => None,
    };
    self::entries(entries.ok_or_else(|| odd("XREADGROUP"))?)
}

/// A list of entries, each `[id, fields]`.
pub(super) fn entries(reply: Value) -> Result<Vec<Entry>, Fault> {
    let Value::Array(replies) = reply else {
        return Err(odd("entries"));
    };
    // Collecting results would grow the list step by step.
    let mut entries = Vec::with_capacity(replies.len());
    for reply in replies {
        entries.push(entry(reply)?);
    }
    Ok(entries)
}

fn entry(reply: Value) -> Result<Entry, Fault> {
    let Value::Array(mut parts) = reply else {
        return Err(odd("an entry"));
    };
    let (Some(fields), Some(id)) = (parts.pop(), parts.pop()) else {
        return Err(odd("an entry"));
    };
    Ok(Entry {
        id: self::id(&id)?,
        fields: self::fields(fields)?,
    })
}

/// `[name, value, name, value, ..]`.
pub(super) fn fields(reply: Value) -> Result<Fields, Fault> {
    let Value::Array(flat) = reply else {
        return Err(odd("fields"));
    };
    let mut flat = flat.into_iter();
    let mut fields = Fields::default();
    while let (Some(name), Some(value)) = (flat.next(), flat.next()) {
        fields.push(bytes(name)?, bytes(value)?);
    }
    Ok(fields)
}

pub(super) fn bytes(reply: Value) -> Result<Vec<u8>, Fault> {
    match reply {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        Value::Int(number) => Ok(number.to_string().into_bytes()),
        _ => Err(odd("a string")),
    }
}

/// A list of strings, or a single one. One that is gone by now is none.
pub(super) fn pieces(reply: Value) -> Result<Vec<Vec<u8>>, Fault> {
    match reply {
        Value::Nil => Ok(Vec::new()),
        Value::Array(pieces) => pieces.into_iter().map(bytes).collect(),
        one => bytes(one).map(|one| vec![one]),
    }
}

pub(super) fn text(reply: Value) -> Result<String, Fault> {
    Ok(match String::from_utf8(bytes(reply)?) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

pub(super) fn id(reply: &Value) -> Result<EntryId, Fault> {
    let id = match reply {
        Value::BulkString(bytes) => EntryId::parse(bytes),
        Value::SimpleString(text) => EntryId::parse(text.as_bytes()),
        _ => None,
    };
    id.ok_or_else(|| odd("an entry id"))
}

/// A count; servers send it as an integer or as text, and a nonsense below zero as it is.
pub(super) fn number(reply: &Value) -> Result<u64, Fault> {
    match reply {
        Value::Int(number) => Ok(u64::try_from(*number).unwrap_or(0)),
        Value::BulkString(digits) => std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| odd("a number")),
        _ => Err(odd("a number")),
    }
}

pub(super) fn milliseconds(reply: &Value) -> Result<Duration, Fault> {
    number(reply).map(Duration::from_millis)
}

pub(super) fn array(reply: Value) -> Result<Vec<Value>, Fault> {
    match reply {
        Value::Array(items) => Ok(items),
        Value::Nil => Ok(Vec::new()),
        _ => Err(odd("a list")),
    }
}

/// The value of one name in a flat list of names and values, as `XINFO` answers.
pub(super) fn named<'a>(row: &'a [Value], name: &str) -> Option<&'a Value> {
    row.chunks_exact(2).find_map(|pair| match &pair[0] {
        Value::BulkString(known) if known == name.as_bytes() => Some(&pair[1]),
        Value::SimpleString(known) if known == name => Some(&pair[1]),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    fn reply(wire: &[u8]) -> Value {
        parse_redis_value(wire).expect("a reply")
    }

    #[test]
    fn entries_keep_order_duplicates_and_bytes() {
        let wire = b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-2\r\n*4\r\n$1\r\n\xff\r\n$1\r\na\r\n$1\r\n\xff\r\n$0\r\n\r\n";
        let entries = read(reply(wire)).expect("entries");
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].id, EntryId { ms: 1, seq: 2 });
        let fields: Vec<_> = entries[0].fields.iter().collect();
        assert_eq!(
            fields,
            [(&b"\xff"[..], &b"a"[..]), (&b"\xff"[..], &b""[..])]
        );
    }

    #[test]
    fn nothing_is_no_entries() {
        assert_eq!(read(reply(b"*-1\r\n")), Ok(Vec::new()));
        assert_eq!(read(reply(b"$-1\r\n")), Ok(Vec::new()));
    }

    #[test]
    fn an_odd_reply_is_an_error_not_a_panic() {
        for wire in [
            &b":1\r\n"[..],
            b"*0\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*1\r\n$1\r\nx\r\n",
        ] {
            assert!(read(reply(wire)).is_err(), "{wire:?}");
        }
    }

    #[test]
    fn missing_and_nil_values_are_told_apart() {
        let row = array(reply(
            b"*4\r\n$4\r\nname\r\n$1\r\na\r\n$3\r\nlag\r\n$-1\r\n",
        ))
        .expect("a list");
        assert_eq!(named(&row, "lag"), Some(&Value::Nil));
        assert_eq!(named(&row, "entries-read"), None);
    }
}
