//! How messages are delivered, retried, dead-lettered and handed on, on a real server and in process.

mod boundaries;
mod connections;
mod decode;
mod dlq;
mod failover;
mod faults;
mod group;
mod kill;
mod latency;
mod lease;
mod limits;
mod load;
mod outage;
mod peer;
mod place;
mod policies;
mod process;
mod publishing;
mod reference;
mod replay;
mod shutdown;
mod slots;
mod startup;
mod takeover;
mod trimmed;
