//! An error's text, made fit for logs and the DLQ.

use crate::outcome::BoxError;
use crate::wire;

/// The text of an error as it goes into logs and the DLQ: at most `limit` characters, never blank.
pub(crate) fn error_text(error: &BoxError) -> String {
    let text = error.to_string();
    capped(&text)
}

/// At most [`wire::ERROR_LIMIT`] characters, never blank.
pub(crate) fn capped(text: &str) -> String {
    if text.trim().is_empty() {
        return "error without a message".to_owned();
    }
    text.chars().take(wire::ERROR_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_texts_are_capped_and_never_blank() {
        assert_eq!(capped(" \n"), "error without a message");
        assert_eq!(capped(&"ä".repeat(2000)).chars().count(), 1000);
    }
}
