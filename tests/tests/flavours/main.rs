//! The ways to reach a server: by a Unix socket, with credentials, over TLS, through sentinels.

mod credentials;
mod place;
mod sentinel;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_cluster;
mod unix;
