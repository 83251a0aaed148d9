//! What is told of a delivery that failed, and how it is written: one JSON object in the history
//! beside the stream, and a list of them in a dead letter. Which are kept is decided in `history`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::Value;

use crate::error_text::ErrorText;
use crate::fields::Fields;
use crate::wire::dead;

/// A delivery that failed, as a dead letter tells of it in its field `x-attempts`.
///
/// ```
/// use rillkit::{FailedDelivery, Message, subscribe};
///
/// #[subscribe(stream = "jobs-dlq", group = "support")]
/// async fn explain(_letter: serde_json::Value, msg: Message) {
///     for failed in FailedDelivery::all_in(msg.fields()) {
///         println!("delivery {} on {}: {}", failed.number(), failed.consumer(), failed.error());
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedDelivery {
    number: u64,
    consumer: String,
    began_ms: u64,
    ended_ms: u64,
    reason: String,
    error: ErrorText,
}

impl FailedDelivery {
    /// One that ends now, after `run`.
    pub(crate) fn now(
        number: u64,
        consumer: &str,
        run: Duration,
        (reason, error): (&str, ErrorText),
    ) -> Self {
        // For people to read; nothing is decided by it.
        let ended = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            number,
            consumer: consumer.to_owned(),
            began_ms: ms(ended.saturating_sub(run)),
            ended_ms: ms(ended),
            reason: reason.to_owned(),
            error,
        }
    }

    /// All that a dead letter with these fields tells of, by their numbers. Of many, the first and
    /// the newest are told; and where a number is missing, nothing is known of that delivery: its
    /// process was killed in the run, or the history was lost. Nothing is told by a letter that
    /// another program wrote.
    ///
    /// ```
    /// use rillkit::{FailedDelivery, Message};
    ///
    /// let attempts = r#"[{"n":2,"consumer":"web-1","reason":"error","error":"bad input"}]"#;
    /// let letter = Message::detached("jobs-dlq", "support", 1, [("x-attempts", attempts)]);
    /// let failed = FailedDelivery::all_in(letter.fields());
    /// assert_eq!(failed[0].number(), 2);
    /// assert_eq!(failed[0].error(), "bad input");
    /// ```
    #[must_use]
    pub fn all_in(letter: &Fields) -> Vec<Self> {
        let attempts = letter
            .get(dead::ATTEMPTS)
            .and_then(|json| serde_json::from_slice::<Vec<Value>>(json).ok());
        let mut failed: Vec<_> = attempts
            .iter()
            .flatten()
            .filter_map(Self::from_json)
            .collect();
        failed.sort_by_key(Self::number);
        failed
    }

    fn from_json(json: &Value) -> Option<Self> {
        let text = |name| json[name].as_str().unwrap_or_default().to_owned();
        let chain = json["chain"].as_array().into_iter().flatten();
        Some(Self {
            number: json["n"].as_u64()?,
            consumer: text("consumer"),
            began_ms: json["began"].as_u64().unwrap_or_default(),
            ended_ms: json["ended"].as_u64().unwrap_or_default(),
            reason: text("reason"),
            error: ErrorText {
                text: text("error"),
                chain: chain
                    .filter_map(|cause| cause.as_str().map(str::to_owned))
                    .collect(),
            },
        })
    }

    /// The one object.
    pub(crate) fn to_json(&self) -> String {
        // Texts and numbers are all there is.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The number of the delivery, from 1.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The name of the worker's consumer.
    #[must_use]
    pub fn consumer(&self) -> &str {
        &self.consumer
    }

    /// When the run began, in milliseconds since 1970, by the worker's own clock.
    #[must_use]
    pub fn began_ms(&self) -> u64 {
        self.began_ms
    }

    /// When it ended, in milliseconds since 1970, by the worker's own clock.
    #[must_use]
    pub fn ended_ms(&self) -> u64 {
        self.ended_ms
    }

    /// Why it counts as failed: `error`, `panic`, `timeout`, `rejected` or `decode`; `unmarked` where
    /// the policy is `manual` and the handler ended without a mark.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What the error said, up to 1000 characters.
    #[must_use]
    pub fn error(&self) -> &str {
        &self.error.text
    }

    /// What the errors behind it said, the nearest first: its
    /// [`source()`](std::error::Error::source), and so on; together up to 1000 characters.
    #[must_use]
    pub fn chain(&self) -> &[String] {
        &self.error.chain
    }
}

impl Serialize for FailedDelivery {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("FailedDelivery", 7)?;
        object.serialize_field("n", &self.number)?;
        object.serialize_field("consumer", &self.consumer)?;
        object.serialize_field("began", &self.began_ms)?;
        object.serialize_field("ended", &self.ended_ms)?;
        object.serialize_field("reason", &self.reason)?;
        object.serialize_field("error", &self.error.text)?;
        if !self.error.chain.is_empty() {
            object.serialize_field("chain", &self.error.chain)?;
        }
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(attempts: &str) -> Fields {
        [(b"x-attempts".to_vec(), attempts.as_bytes().to_vec())]
            .into_iter()
            .collect()
    }

    fn failed(number: u64, chain: &[&str]) -> FailedDelivery {
        FailedDelivery {
            number,
            consumer: "web-1".to_owned(),
            began_ms: 1_700_000_000_000,
            ended_ms: 1_700_000_000_250,
            reason: "error".to_owned(),
            error: ErrorText {
                text: "cannot \"save\"\n".to_owned(),
                chain: chain.iter().map(|&cause| cause.to_owned()).collect(),
            },
        }
    }

    #[test]
    fn what_is_written_is_read_again_in_order() {
        let (first, second) = (failed(1, &[]), failed(2, &["disk full"]));
        assert_eq!(
            second.to_json(),
            r#"{"n":2,"consumer":"web-1","began":1700000000000,"ended":1700000000250,"reason":"error","error":"cannot \"save\"\n","chain":["disk full"]}"#
        );
        assert!(!first.to_json().contains("chain"));
        let list = letter(&format!("[{},{}]", second.to_json(), first.to_json()));
        assert_eq!(FailedDelivery::all_in(&list), [first, second]);
    }

    #[test]
    fn what_others_wrote_is_no_error() {
        for odd in ["", "[", "3", "{\"n\":1}", "[3,null,{\"n\":-1}]", "[]"] {
            assert_eq!(FailedDelivery::all_in(&letter(odd)), [], "{odd}");
        }
        assert_eq!(FailedDelivery::all_in(&Fields::default()), []);
        let sparse = &FailedDelivery::all_in(&letter(r#"[{"n":7,"chain":[1,"a"]}]"#))[0];
        assert_eq!((sparse.number(), sparse.error()), (7, ""));
        assert_eq!(sparse.chain(), ["a"]);
    }

    #[test]
    fn one_that_ends_now_began_before() {
        let run = Duration::from_millis(1500);
        let failed = FailedDelivery::now(1, "web-1", run, ("error", "bad".into()));
        assert_eq!(failed.ended_ms() - failed.began_ms(), 1500);
    }
}
