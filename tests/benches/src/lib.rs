//! What the benchmarks share: the payload, the meter that a handler reports to, RillKit's handlers,
//! and the loop that somebody would write by hand.

pub mod by_hand;
pub mod handlers;
pub mod meter;
pub mod order;
