//! How often each of many texts occurred, in bounded memory.

use std::collections::HashMap;

/// Texts that are told apart; what comes beyond them is counted in one.
const DISTINCT: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: HashMap<String, u64>,
    beyond: u64,
}

impl Tally {
    pub(super) fn add(&mut self, text: &str) {
        if let Some(count) = self.counts.get_mut(text) {
            *count += 1;
        } else if self.counts.len() < DISTINCT {
            self.counts.insert(text.to_owned(), 1);
        } else {
            self.beyond += 1;
        }
    }

    /// The `count` most frequent texts, the most frequent first, and how many occurrences the others
    /// had.
    pub(super) fn top(self, count: usize) -> (Vec<(String, u64)>, u64) {
        let mut texts: Vec<_> = self.counts.into_iter().collect();
        texts.sort_by(|(a, many), (b, few)| few.cmp(many).then_with(|| a.cmp(b)));
        let rest = texts.split_off(count.min(texts.len()));
        let rest = rest.iter().map(|(_, count)| count).sum::<u64>();
        (texts, rest + self.beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_come_first_and_nothing_is_left_out() {
        let mut tally = Tally::default();
        for text in ["b", "a", "c", "c"] {
            tally.add(text);
        }
        let top = [("c".to_owned(), 2), ("a".to_owned(), 1)];
        assert_eq!(tally.top(2), (top.to_vec(), 1));
    }

    #[test]
    fn only_so_many_are_told_apart() {
        let mut tally = Tally::default();
        for number in 0..DISTINCT + 5 {
            tally.add(&number.to_string());
        }
        tally.add("0");
        let (texts, rest) = tally.top(usize::MAX);
        assert_eq!((texts.len(), rest), (DISTINCT, 5));
        assert_eq!(texts[0], ("0".to_owned(), 2));
    }
}
