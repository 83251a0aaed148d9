//! What a server answers, and how it is written on the wire.

use std::ops::Index;

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing: a missing key, or a blocking read that ran out of time.
    Nil,
    /// A number.
    Int(i64),
    /// A status such as `OK`, or a string of bytes.
    Text(Vec<u8>),
    /// Several answers.
    List(Vec<Self>),
    /// The server refused; the text begins with its code, such as `WRONGTYPE`.
    Error(String),
}

impl Reply {
    /// The number.
    ///
    /// # Panics
    /// When the reply is something else.
    #[must_use]
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            _ => self.is_not("a number"),
        }
    }

    /// The text, which must be UTF-8; [`bytes`](Self::bytes) takes any.
    ///
    /// # Panics
    /// When the reply is something else.
    #[must_use]
    #[track_caller]
    pub fn text(&self) -> String {
        match String::from_utf8(self.bytes()) {
            Ok(text) => text,
            Err(_) => self.is_not("UTF-8 text"),
        }
    }

    /// The text as bytes.
    ///
    /// # Panics
    /// When the reply is something else.
    #[must_use]
    #[track_caller]
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(bytes) => bytes.clone(),
            _ => self.is_not("text"),
        }
    }

    /// The parts; `reply[0][1]` reaches one of them.
    ///
    /// # Panics
    /// When the reply is something else.
    #[must_use]
    #[track_caller]
    pub fn list(&self) -> Vec<Self> {
        match self {
            Self::List(replies) => replies.clone(),
            _ => self.is_not("a list"),
        }
    }

    /// The refusal.
    ///
    /// # Panics
    /// When the reply is something else.
    #[must_use]
    #[track_caller]
    pub fn error(&self) -> String {
        match self {
            Self::Error(text) => text.clone(),
            _ => self.is_not("an error"),
        }
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }

    #[track_caller]
    fn is_not(&self, expected: &str) -> ! {
        panic!(
            "expected {expected}, the server answered {}",
            self.described()
        )
    }

    fn described(&self) -> String {
        match self {
            Self::Nil => "nil".into(),
            Self::Int(number) => format!("the number {number}"),
            Self::Text(bytes) => format!("the text {:?}", String::from_utf8_lossy(bytes)),
            Self::List(replies) => {
                let parts: Vec<_> = replies.iter().map(Self::described).collect();
                format!("a list of [{}]", parts.join(", "))
            }
            Self::Error(text) => format!("the error {text:?}"),
        }
    }

    /// The reply (or request) that `bytes` begin with, and its length; `None` while it is incomplete.
    ///
    /// # Panics
    /// When `bytes` are not RESP.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let line_end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let line = &bytes[..line_end];
        let end = line_end + 2;
        let Some((kind, rest)) = line.split_first() else {
            return Some((Self::Text(Vec::new()), end));
        };
        match kind {
            b':' => Some((Self::Int(number(rest)), end)),
            b'-' => Some((Self::Error(String::from_utf8_lossy(rest).into()), end)),
            b'_' => Some((Self::Nil, end)),
            b'+' | b',' | b'#' | b'(' => Some((Self::Text(rest.to_vec()), end)),
            b'$' | b'=' | b'!' => parse_text(bytes, end, number(rest)),
            b'*' | b'~' | b'>' => parse_list(bytes, end, number(rest)),
            b'%' => parse_list(bytes, end, number(rest) * 2),
            _ => Some((Self::Text(line.to_vec()), end)),
        }
    }
}

impl Index<usize> for Reply {
    type Output = Self;

    #[track_caller]
    fn index(&self, index: usize) -> &Self {
        match self {
            Self::List(replies) if index < replies.len() => &replies[index],
            _ => self.is_not(&format!("a list with an item {index}")),
        }
    }
}

fn number(digits: &[u8]) -> i64 {
    str::from_utf8(digits)
        .ok()
        .and_then(|digits| digits.parse().ok())
        .expect("a number in RESP is written in decimal digits")
}

fn parse_text(bytes: &[u8], start: usize, length: i64) -> Option<(Reply, usize)> {
    let Ok(length) = usize::try_from(length) else {
        return Some((Reply::Nil, start));
    };
    let end = start + length;
    (bytes.len() >= end + 2).then(|| (Reply::Text(bytes[start..end].to_vec()), end + 2))
}

fn parse_list(bytes: &[u8], start: usize, length: i64) -> Option<(Reply, usize)> {
    let Ok(length) = usize::try_from(length) else {
        return Some((Reply::Nil, start));
    };
    let mut end = start;
    let mut replies = Vec::new();
    for _ in 0..length {
        let (reply, used) = Reply::parse(&bytes[end..])?;
        replies.push(reply);
        end += used;
    }
    Some((Reply::List(replies), end))
}

#[cfg(test)]
mod tests {
    use super::Reply;

    fn text(text: &str) -> Reply {
        Reply::Text(text.into())
    }

    #[test]
    fn every_kind_is_parsed() {
        let cases: [(&[u8], Reply); 13] = [
            (b"+OK\r\n", text("OK")),
            (b":-42\r\n", Reply::Int(-42)),
            (b"-ERR no\r\n", Reply::Error("ERR no".into())),
            (b"$-1\r\n", Reply::Nil),
            (b"*-1\r\n", Reply::Nil),
            (b"_\r\n", Reply::Nil),
            (b"$0\r\n\r\n", text("")),
            (b"$4\r\na\r\nb\r\n", text("a\r\nb")),
            (b"*0\r\n", Reply::List(vec![])),
            (
                b"*2\r\n:1\r\n*1\r\n$1\r\na\r\n",
                Reply::List(vec![Reply::Int(1), Reply::List(vec![text("a")])]),
            ),
            (
                b"%1\r\n+a\r\n:1\r\n",
                Reply::List(vec![text("a"), Reply::Int(1)]),
            ),
            (b"#t\r\n", text("t")),
            (b"PING\r\n", text("PING")),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Reply::parse(bytes), Some((expected, bytes.len())));
        }
    }

    #[test]
    fn an_incomplete_reply_is_none_at_every_byte() {
        let whole = b"*2\r\n$3\r\nabc\r\n:1\r\n";
        for cut in 0..whole.len() {
            assert_eq!(Reply::parse(&whole[..cut]), None);
        }
    }

    #[test]
    fn what_follows_is_left_alone() {
        assert_eq!(Reply::parse(b":1\r\n:2\r\n"), Some((Reply::Int(1), 4)));
    }

    #[test]
    fn a_list_is_reached_into_by_index() {
        let reply = Reply::List(vec![Reply::List(vec![text("id"), Reply::Int(7)])]);
        assert_eq!(reply[0][0].text(), "id");
        assert_eq!(reply[0][1].int(), 7);
        assert_eq!(reply.list().len(), 1);
    }

    #[test]
    #[should_panic(expected = "expected a number, the server answered the error \"WRONGTYPE x\"")]
    fn a_wrong_guess_says_what_the_server_answered() {
        let _ = Reply::Error("WRONGTYPE x".into()).int();
    }
}
