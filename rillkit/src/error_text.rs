//! An error's text, made fit for logs and the DLQ.

use crate::outcome::BoxError;
use crate::wire;

/// Errors behind one that are told of.
const CAUSES: usize = 16;

/// What an error says, and what the errors behind it say (its `source()`, and so on).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorText {
    /// At most [`wire::ERROR_LIMIT`] characters, never blank.
    pub(crate) text: String,
    /// At most [`wire::ERROR_LIMIT`] characters together, none of them blank.
    pub(crate) chain: Vec<String>,
}

impl ErrorText {
    pub(crate) fn of(error: &BoxError) -> Self {
        let (mut chain, mut left) = (Vec::new(), wire::ERROR_LIMIT);
        let mut cause = error.source();
        for _ in 0..CAUSES {
            let Some(found) = cause else { break };
            let text: String = found.to_string().chars().take(left).collect();
            left -= text.chars().count();
            if !text.trim().is_empty() {
                chain.push(text);
            }
            cause = found.source();
        }
        Self {
            text: capped(&error.to_string()),
            chain,
        }
    }
}

/// An error with nothing behind it.
impl<T: AsRef<str>> From<T> for ErrorText {
    fn from(text: T) -> Self {
        Self {
            text: capped(text.as_ref()),
            chain: Vec::new(),
        }
    }
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
    use std::error::Error;
    use std::fmt;

    use super::*;

    #[test]
    fn error_texts_are_capped_and_never_blank() {
        assert_eq!(capped(" \n"), "error without a message");
        assert_eq!(capped(&"ä".repeat(2000)).chars().count(), 1000);
    }

    #[test]
    fn the_errors_behind_one_are_told_in_order() {
        let error = anyhow::anyhow!("disk full")
            .context("cannot write")
            .context("cannot save");
        let text = ErrorText::of(&error.into());
        assert_eq!(text.text, "cannot save");
        assert_eq!(text.chain, ["cannot write", "disk full"]);
        assert_eq!(ErrorText::of(&"alone".into()), ErrorText::from("alone"));
    }

    /// An error that is behind itself.
    #[derive(Debug)]
    struct Endless(String);

    impl fmt::Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0)
        }
    }

    impl Error for Endless {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(self)
        }
    }

    #[test]
    fn a_chain_is_capped_as_a_whole() {
        let chain = |text: String| ErrorText::of(&Endless(text).into()).chain;
        assert_eq!(chain("x".to_owned()).len(), CAUSES);
        let long = chain("ä".repeat(600));
        let lengths: Vec<_> = long.iter().map(|text| text.chars().count()).collect();
        assert_eq!(lengths, [600, 400]);
        assert_eq!(chain(" ".to_owned()), [""; 0]);
    }
}
