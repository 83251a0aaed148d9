//! Words from elsewhere made fit for a terminal, and the colours of ours.

use anstyle::{AnsiColor, Style};

pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const ODD: Style = AnsiColor::Yellow.on_default();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const HEAD: Style = Style::new().bold();

/// On one line, and without anything that a terminal would obey.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            plain.extend(c.escape_debug());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Bytes as text; what is not UTF-8 is replaced.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// At most so many characters, the last of them telling that there is more.
pub(crate) fn cut(text: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if text.chars().count() > width => {
            let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
            cut.push('…');
            cut
        }
        _ => text.to_owned(),
    }
}

/// `1 message`, `2 messages`.
pub(crate) fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_nothing_to_obey() {
        assert_eq!(plain("a\n\u{1b}[31mb\tü"), "a\\n\\u{1b}[31mb\\tü");
    }

    #[test]
    fn long_lines_are_cut() {
        assert_eq!(cut("abcdef", Some(4)), "abc…");
        assert_eq!(cut("abcd", Some(4)), "abcd");
        assert_eq!(cut("abcdef", None), "abcdef");
    }
}
