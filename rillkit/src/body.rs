//! How a handler's first parameter is made from an entry.

use serde::de::DeserializeOwned;

use crate::message::Message;

/// A type that a handler's first parameter can have: anything that is `Deserialize` and owns its
/// data, read from the JSON in the field `data`; or [`Message`], undecoded.
#[diagnostic::on_unimplemented(
    message = "a handler's body cannot be decoded into `{Self}`",
    label = "this type is neither `Deserialize` nor `Message`",
    note = "derive it: `#[derive(serde::Deserialize)] struct ..`; or take `Message` to read the entry undecoded"
)]
pub trait Body: Sized {
    /// Which `Stream` constants it can be read from: [`Decoded`] or [`Undecoded`].
    #[doc(hidden)]
    type Kind;

    /// Decodes the body, or says in one line why that cannot be done.
    #[doc(hidden)]
    fn from_message(message: &Message) -> Result<Self, Undecodable>;
}

/// A body that is read from a stream of its own type.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum Decoded {}

/// A body that is read from a stream of any type.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum Undecoded {}

/// Why an entry cannot be decoded, in the words of its DLQ entry.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecodable(pub(crate) String);

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned> Body for T {
    type Kind = Decoded;

    fn from_message(message: &Message) -> Result<Self, Undecodable> {
        let data = message
            .data()
            .ok_or_else(|| Undecodable("entry has no 'data' field".to_owned()))?;
        serde_json::from_slice(data).map_err(|error| Undecodable(describe::<T>(&error)))
    }
}

impl Body for Message {
    type Kind = Undecoded;

    fn from_message(message: &Message) -> Result<Self, Undecodable> {
        Ok(message.clone())
    }
}

fn describe<T>(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    match error.classify() {
        Category::Data => format!(
            "body does not match {}: {error}",
            short_name(std::any::type_name::<T>())
        ),
        Category::Io | Category::Syntax | Category::Eof => {
            format!("body is not valid JSON: {error}")
        }
    }
}

/// A type's name without the modules it lives in: `alloc::vec::Vec<app::Job>` is `Vec<Job>`.
fn short_name(name: &str) -> String {
    let mut short = String::with_capacity(name.len());
    let mut word = 0;
    for c in name.chars() {
        if c == ':' {
            short.truncate(word);
            continue;
        }
        short.push(c);
        if !(c.is_alphanumeric() || c == '_') {
            word = short.len();
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Job {
        name: String,
    }

    fn decode(data: &[u8]) -> Result<Job, String> {
        Job::from_message(&Message::detached("s", "g", 1, [("data", data)]))
            .map_err(|error| error.0)
    }

    #[test]
    fn a_body_is_read_from_data() {
        assert_eq!(
            decode(br#"{"name":"a"}"#),
            Ok(Job {
                name: "a".to_owned()
            })
        );
    }

    #[test]
    fn each_mistake_has_its_words() {
        assert!(
            decode(b"this is not json")
                .unwrap_err()
                .starts_with("body is not valid JSON: ")
        );
        assert!(
            decode(b"")
                .unwrap_err()
                .starts_with("body is not valid JSON: ")
        );
        assert!(
            decode(br#"{"name":"a""#)
                .unwrap_err()
                .starts_with("body is not valid JSON: ")
        );
        assert!(
            decode(b"{\"name\":\"\xff\"}")
                .unwrap_err()
                .starts_with("body is not valid JSON: ")
        );
        assert!(
            decode(br#"{"name":1}"#)
                .unwrap_err()
                .starts_with("body does not match Job: ")
        );
        assert!(
            decode(br#"{"name":"a"} x"#)
                .unwrap_err()
                .starts_with("body is not valid JSON: ")
        );
        let none = Job::from_message(&Message::detached("s", "g", 1, [("other", "1")]));
        assert_eq!(
            none,
            Err(Undecodable("entry has no 'data' field".to_owned()))
        );
    }

    #[test]
    fn deep_bodies_are_refused_not_overflowed() {
        let deep = "[".repeat(100_000);
        let error =
            serde_json::Value::from_message(&Message::detached("s", "g", 1, [("data", deep)]));
        assert!(error.unwrap_err().0.contains("recursion limit"));
    }

    #[test]
    fn type_names_are_short() {
        assert_eq!(short_name("alloc::vec::Vec<app::jobs::Job>"), "Vec<Job>");
        assert_eq!(short_name("(app::A, alloc::string::String)"), "(A, String)");
    }
}
