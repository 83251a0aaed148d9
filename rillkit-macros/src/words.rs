//! The wording that several messages share.

use quote::ToTokens;

/// `` `a`, `b`, `c` ``.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// Tokens as one writes them: printed as they are, they are set wide apart.
pub(crate) fn text(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (wide, close) in [
        (" < ", "<"),
        (" >", ">"),
        (" :: ", "::"),
        ("& ", "&"),
        (" ,", ","),
        ("[ ", "["),
        (" ]", "]"),
    ] {
        text = text.replace(wide, close);
    }
    text
}

/// The name that was probably meant, if one is near enough to say so.
pub(crate) fn nearest(
    written: &str,
    names: impl IntoIterator<Item = &'static str>,
) -> Option<&'static str> {
    let written = plain(written);
    let (distance, name) = names
        .into_iter()
        .map(|name| (distance(&written, &plain(name)), name))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + plain(name).len() / 4).then_some(name)
}

/// Without case and underscores: `AckAlways` and `ack_always` are one name to whoever mixes them up.
fn plain(name: &str) -> Vec<char> {
    name.chars()
        .filter(|c| *c != '_')
        .flat_map(char::to_lowercase)
        .collect()
}

/// The number of letters to insert, remove or replace (Levenshtein).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["stream", "group", "max_retries", "ack_policy"];

    #[test]
    fn a_near_name_is_suggested() {
        assert_eq!(nearest("max_retry", NAMES), Some("max_retries"));
        assert_eq!(nearest("maxRetries", NAMES), Some("max_retries"));
        assert_eq!(nearest("steam", NAMES), Some("stream"));
        assert_eq!(nearest("policy", NAMES), Some("ack_policy"));
    }

    #[test]
    fn a_far_name_is_not() {
        assert_eq!(nearest("prefetch", NAMES), None);
        assert_eq!(nearest("", NAMES), None);
    }
}
