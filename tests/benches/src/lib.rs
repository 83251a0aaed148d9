//! What the benchmarks share: the payload, the meter that a handler reports to, RillKit's handlers,
//! the loop that somebody would write by hand, and what a process has used.

pub mod by_hand;
pub mod handlers;
pub mod many;
pub mod meter;
pub mod order;
pub mod process;
