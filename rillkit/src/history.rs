//! The attempt history: what is kept beside a stream about deliveries that failed, while their
//! messages wait for the next one.
//!
//! It is there for people to read. Nothing is decided by it, and where it cannot be written or read
//! the messages go their way without it. Of each message a fixed number of rows is kept, whose names
//! follow from the delivery's number alone, so that nothing has to be read to write one.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::log;
use crate::post::Post;
use crate::store::{Fault, FaultClass, Row, Token};

/// Rows of one message that are overwritten in turn; the first delivery has one of its own. With the
/// last delivery, a dead letter tells of ten.
const IN_TURN: u64 = 8;

/// The row in which the failed delivery of this number is kept.
pub(crate) fn slot(number: u64) -> u64 {
    match number {
        0 | 1 => 0,
        later => 1 + (later - 2) % IN_TURN,
    }
}

/// The rows of the deliveries before this one, in their order.
pub(crate) fn slots_before(number: u64) -> impl Iterator<Item = u64> {
    let later = number.saturating_sub(IN_TURN).max(2)..number;
    (number > 1).then_some(0).into_iter().chain(later.map(slot))
}

/// A JSON list with these objects put in front of its own.
pub(crate) fn spliced<'a>(rows: impl Iterator<Item = &'a [u8]>, list: &[u8]) -> Vec<u8> {
    let mut all: Vec<&[u8]> = rows.collect();
    match list {
        [b'[', own @ .., b']'] if !own.is_empty() => all.push(own),
        _ => {}
    }
    [b"[", all.join(&b',').as_slice(), b"]"].concat()
}

/// Whether this worker keeps a history.
#[derive(Debug, Default)]
pub(crate) struct History {
    off: AtomicBool,
    told: AtomicBool,
}

impl History {
    pub(crate) fn is_on(&self) -> bool {
        !self.off.load(Ordering::Relaxed)
    }

    fn switch_off(&self) {
        self.off.store(true, Ordering::Relaxed);
    }
}

/// Keeps rows, if that can be done now.
pub(crate) async fn keep(post: &Post, rows: &[Row]) {
    if let Err(fault) = post.store.keep_history(&post.consumer, rows).await {
        trouble(post, &fault);
    }
}

/// Forgets what was kept of messages that are acked now.
pub(crate) async fn forget(post: &Post, acked: &[Token]) {
    if acked.is_empty() || !post.history.is_on() {
        return;
    }
    if let Err(fault) = post.store.forget_history(&post.consumer, acked).await {
        trouble(post, &fault);
    }
}

/// What the login may not do is not tried again. A server in trouble is the intake's to report.
pub(crate) fn trouble(post: &Post, fault: &Fault) {
    if fault.is_permission() {
        post.history.switch_off();
    }
    if fault.class == FaultClass::Config && !post.history.told.swap(true, Ordering::Relaxed) {
        log::no_history(&post.consumer, fault);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_newest_deliveries_are_kept() {
        for number in 1..100 {
            // What is in each row when this delivery begins.
            let mut rows = [0; 9];
            for before in 1..number {
                rows[slot(before) as usize] = before;
            }
            let told: Vec<_> = slots_before(number)
                .map(|slot| rows[slot as usize])
                .collect();
            let first = (number > 1).then_some(1).into_iter();
            let expected: Vec<u64> = first
                .chain(2.max(number.saturating_sub(8))..number)
                .collect();
            assert_eq!(told, expected, "{number}");
        }
        assert_eq!(slots_before(u64::MAX).count(), 9);
    }

    #[test]
    fn rows_go_in_front_of_a_list() {
        for (rows, list, expected) in [
            (&["{1}", "{2}"][..], "[{3}]", "[{1},{2},{3}]"),
            (&[], "[{3}]", "[{3}]"),
            (&["{1}"], "[]", "[{1}]"),
            (&[], "[]", "[]"),
        ] {
            let rows = rows.iter().map(|row| row.as_bytes());
            assert_eq!(spliced(rows, list.as_bytes()), expected.as_bytes());
        }
    }
}
