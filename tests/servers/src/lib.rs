//! Real servers for RillKit's tests, and a proxy that breaks the way to them.
//!
//! - [`Server`] starts a Redis or Valkey on a free loopback port and ends it when dropped. Which one is
//!   said by `RILLKIT_TEST_SERVER`, so that the same tests run on each [`Flavour`].
//! - [`TlsServer`] is one that also listens with [`Certificates`] of its own; [`Sentinel`] watches a master and
//!   promotes its replica ([`Server::replica_of`]).
//! - [`Server::command`] and [`Client`] ask the server itself, without RillKit and without a Redis
//!   library, so that a test asserts on what the server holds.
//! - [`Cluster`] starts several that share the slots, with replicas or TLS where a test asks for them, and moves slots.
//! - [`Proxy`] stands between a worker and its server and refuses, cuts, stalls, delays, or loses the reply
//!   of a command that the server has carried out.
//! - [`wait_until`] awaits a condition where a test would otherwise sleep.
//!
//! Nothing here is skipped when something is missing: it panics and names the cure.

#![forbid(unsafe_code)]

mod certificates;
mod client;
mod cluster;
mod flavour;
mod orphan;
mod port;
mod proxy;
mod reply;
mod sentinel;
mod server;
mod tls;
mod wait;

pub use certificates::{Certificate, Certificates};
pub use client::Client;
pub use cluster::{Cluster, Migration};
pub use flavour::Flavour;
pub use proxy::Proxy;
pub use reply::Reply;
pub use sentinel::Sentinel;
pub use server::Server;
pub use tls::TlsServer;
pub use wait::wait_until;
