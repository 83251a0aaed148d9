//! Free loopback ports that nobody else is given by chance.
//!
//! They lie below the range from which the kernel takes the source ports of outgoing connections. A port of
//! that range would not do: while its server is down, a client that keeps trying to reconnect can be given
//! this very port as its source, and then it is connected to itself and the server cannot come back.

use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::ops::Range;

const PORTS: Range<u16> = 15_000..32_000;

/// Listens on a random port of the range.
pub(crate) fn listen() -> TcpListener {
    (0..1_000)
        .find_map(|_| TcpListener::bind(("127.0.0.1", random())).ok())
        .expect("a free loopback port between 15000 and 32000")
}

/// A port that was free a moment ago.
pub(crate) fn free() -> u16 {
    number(&listen())
}

/// The port that `listener` listens on.
pub(crate) fn number(listener: &TcpListener) -> u16 {
    listener
        .local_addr()
        .expect("a listener has an address")
        .port()
}

fn random() -> u16 {
    let hash = RandomState::new().hash_one(());
    let span = u64::from(PORTS.end - PORTS.start);
    PORTS.start + u16::try_from(hash % span).expect("the range is of u16")
}
