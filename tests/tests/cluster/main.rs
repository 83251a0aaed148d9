//! A Redis Cluster on loopback ports: starts, deliveries, slots that move, and nodes that are replaced.

mod deliveries;
mod failover;
mod migration;
mod scene;
mod starts;
