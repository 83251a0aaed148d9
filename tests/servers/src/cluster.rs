//! A cluster of servers, its replicas, and slots on the move.

use std::collections::BTreeSet;

use crate::{Certificates, Client, Flavour, Reply, Server, TlsServer, wait_until};

/// All slots, shared out evenly among the nodes of a cluster.
const SLOTS: usize = 16_384;

/// Nodes on loopback ports that serve all slots. They end when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
    /// Where the nodes listen with TLS, if they do.
    tls_ports: Option<Vec<u16>>,
}

/// A slot on its way from one node to another.
#[derive(Debug)]
pub struct Migration<'a> {
    cluster: &'a Cluster,
    slot: String,
    from: usize,
    to: usize,
}

impl Cluster {
    /// Starts so many nodes without replicas, and returns once each of them knows who serves what.
    ///
    /// # Panics
    /// When a node does not start or the nodes do not find together.
    #[must_use]
    pub fn start(nodes: usize) -> Self {
        Self::of((0..nodes).map(|_| node()).collect(), None)
    }

    /// The same with TLS, between the nodes too. Without TLS they are there for the test's own questions.
    ///
    /// # Panics
    /// As [`start`](Self::start), and when the chosen flavour was built without TLS.
    #[must_use]
    pub fn with_tls(nodes: usize, certificates: &Certificates) -> Self {
        let encrypted = ["--tls-cluster", "yes", "--tls-replication", "yes"];
        let encrypted = [&encrypted[..], &["--tls-auth-clients", "no"], &CLUSTER].concat();
        let nodes = (0..nodes).map(|_| TlsServer::with(certificates, &encrypted).into_parts());
        let (nodes, ports) = nodes.unzip();
        Self::of(nodes, Some(ports))
    }

    fn of(nodes: Vec<Server>, tls_ports: Option<Vec<u16>>) -> Self {
        let cluster = Self { nodes, tls_ports };
        let (nodes, count) = (&cluster.nodes, cluster.nodes.len());
        for (place, node) in nodes.iter().enumerate() {
            let (first, last) = (place * SLOTS / count, (place + 1) * SLOTS / count - 1);
            order(node, &["SET-CONFIG-EPOCH", &(place + 1).to_string()]);
            // `ADDSLOTSRANGE` is younger than the oldest server.
            let slots: Vec<_> = (first..=last).map(|slot| slot.to_string()).collect();
            let mut add = vec!["ADDSLOTS"];
            add.extend(slots.iter().map(String::as_str));
            order(node, &add);
            if place > 0 {
                meet(&nodes[0], cluster.port(place));
            }
        }
        cluster.wait(count);
        cluster
    }

    /// `redis+cluster://127.0.0.1:PORT,..`, with the ports of all nodes, or the same with `rediss`.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = match self.tls_ports {
            None => "redis",
            Some(_) => "rediss",
        };
        let places = 0..self.nodes.len();
        let nodes: Vec<_> = places
            .map(|place| format!("127.0.0.1:{}", self.port(place)))
            .collect();
        format!("{scheme}+cluster://{}", nodes.join(","))
    }

    /// Where the node at this place is reached by other nodes.
    fn port(&self, place: usize) -> u16 {
        match &self.tls_ports {
            None => self.nodes[place].port(),
            Some(ports) => ports[place],
        }
    }

    /// The nodes, in the order in which they were started.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The place of the node that serves this key.
    ///
    /// # Panics
    /// When none does.
    #[must_use]
    pub fn owner(&self, key: &str) -> usize {
        self.nodes
            .iter()
            .position(|node| serves(node, key))
            .unwrap_or_else(|| panic!("no node serves `{key}`"))
    }

    /// Asks the node that serves this key.
    ///
    /// # Panics
    /// When none does, or it does not answer.
    #[track_caller]
    pub fn command(&self, key: &str, arguments: &[&str]) -> Reply {
        self.nodes[self.owner(key)].command(arguments)
    }

    /// Starts a replica of the node at this place, without TLS, and returns its own place once it has everything.
    ///
    /// # Panics
    /// When it does not get that far.
    pub fn add_replica(&mut self, of: usize) -> usize {
        assert!(self.tls_ports.is_none(), "a replica has no TLS");
        let replica = node();
        meet(&self.nodes[0], replica.port());
        let master = id(&self.nodes[of]);
        wait_until("the replica knows its master", || {
            ask(&replica, &["CLUSTER", "REPLICATE", &master]) == Some(Reply::Text(b"OK".into()))
        });
        wait_until("the replica has everything", || {
            info(&replica, &["INFO", "replication"]).contains("master_link_status:up")
        });
        self.nodes.push(replica);
        self.wait(self.nodes.len());
        self.nodes.len() - 1
    }

    /// Moves the slot of `key`, with its keys, to the node at the place `to`: in one step where the server
    /// can do that.
    ///
    /// # Panics
    /// When the nodes refuse.
    pub fn move_slot(&self, key: &str, to: usize) {
        if Server::flavour() != Flavour::Valkey91 {
            let migration = self.migration(key, to);
            migration.move_keys();
            return migration.finish();
        }
        let (slot, target) = (self.slot(key), id(&self.nodes[to]));
        let range = ["SLOTSRANGE", &slot, &slot, "NODE", &target];
        order(
            &self.nodes[self.owner(key)],
            &[&["MIGRATESLOTS"], &range[..]].concat(),
        );
        wait_until("all nodes know of the move", || {
            serves(&self.nodes[to], key) && self.agrees()
        });
    }

    /// Begins to move the slot of `key` to the node at the place `to`. Its keys are where they were.
    ///
    /// # Panics
    /// When the nodes refuse.
    #[must_use]
    pub fn migration(&self, key: &str, to: usize) -> Migration<'_> {
        let from = self.owner(key);
        let slot = self.slot(key);
        let (source, target) = (id(&self.nodes[from]), id(&self.nodes[to]));
        order(&self.nodes[to], &["SETSLOT", &slot, "IMPORTING", &source]);
        order(&self.nodes[from], &["SETSLOT", &slot, "MIGRATING", &target]);
        Migration {
            cluster: self,
            slot,
            from,
            to,
        }
    }

    fn slot(&self, key: &str) -> String {
        let slot = self.nodes[0].command(&["CLUSTER", "KEYSLOT", key]);
        slot.int().to_string()
    }

    /// Waits until all nodes agree, and serve all slots.
    fn wait(&self, count: usize) {
        wait_until("all nodes of the cluster know each other", || {
            let whole = |node: &Server| {
                let info = info(node, &["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok")
                    && info.contains("cluster_slots_assigned:16384")
                    && info.contains(&format!("cluster_known_nodes:{count}\r\n"))
            };
            self.nodes.iter().all(whole) && self.agrees()
        });
    }

    /// Whether all nodes say the same about who has what, and since when.
    fn agrees(&self) -> bool {
        let views: BTreeSet<_> = self.nodes.iter().map(view).collect();
        views.len() == 1
    }
}

impl Migration<'_> {
    /// Moves the keys; the slot is still the old node's, which sends on whoever asks for them.
    ///
    /// # Panics
    /// When a node refuses.
    pub fn move_keys(&self) {
        let from = self.source();
        loop {
            let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", &self.slot, "100"]);
            let keys: Vec<_> = keys.list().iter().map(Reply::text).collect();
            if keys.is_empty() {
                return;
            }
            let port = self.cluster.port(self.to).to_string();
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            migrate.extend(keys.iter().map(String::as_str));
            let moved = from.command(&migrate);
            assert!(matches!(moved, Reply::Text(_)), "{moved:?}");
        }
    }

    /// Gives the slot to the new node, and waits until all have heard of it.
    ///
    /// # Panics
    /// When a node refuses.
    pub fn finish(self) {
        let target = id(self.target());
        order(self.target(), &["SETSLOT", &self.slot, "NODE", &target]);
        order(self.source(), &["SETSLOT", &self.slot, "NODE", &target]);
        // A node that did not know of the last move would number the next one wrongly.
        wait_until("all nodes know of the move", || self.cluster.agrees());
    }

    fn source(&self) -> &Server {
        &self.cluster.nodes[self.from]
    }

    fn target(&self) -> &Server {
        &self.cluster.nodes[self.to]
    }
}

const CLUSTER: [&str; 4] = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];

fn node() -> Server {
    Server::with(&CLUSTER)
}

fn id(node: &Server) -> String {
    node.command(&["CLUSTER", "MYID"]).text()
}

fn meet(one: &Server, other: u16) {
    order(one, &["MEET", "127.0.0.1", &other.to_string()]);
}

/// A `CLUSTER` command that must be obeyed.
fn order(node: &Server, arguments: &[&str]) {
    let reply = node.command(&[&["CLUSTER"], arguments].concat());
    assert_eq!(reply, Reply::Text(b"OK".into()), "CLUSTER {arguments:?}");
}

/// The reply of a node that may be gone.
fn ask(node: &Server, arguments: &[&str]) -> Option<Reply> {
    Client::connect(node.port()).ok()?.command(arguments).ok()
}

fn serves(node: &Server, key: &str) -> bool {
    matches!(ask(node, &["EXISTS", key]), Some(Reply::Int(_)))
}

fn info(node: &Server, arguments: &[&str]) -> String {
    match ask(node, arguments) {
        Some(Reply::Text(text)) => String::from_utf8_lossy(&text).into_owned(),
        _ => String::new(),
    }
}

/// What a node says of each: id, epoch and slots.
fn view(node: &Server) -> Vec<String> {
    let nodes = info(node, &["CLUSTER", "NODES"]);
    let mut view: Vec<_> = nodes
        .lines()
        .map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            let (id, epoch, slots) = (words[0], words[6], words[8..].join(" "));
            format!("{id} {epoch} {slots}")
        })
        .collect();
    view.sort();
    view
}

#[cfg(test)]
mod tests {
    use super::Cluster;

    #[test]
    fn each_node_serves_its_share_and_sends_on_the_rest() {
        let cluster = Cluster::start(2);
        let (one, other) = ("foo", "bar");
        assert_eq!((cluster.owner(one), cluster.owner(other)), (1, 0));
        let moved = cluster.nodes()[0].command(&["GET", one]).error();
        let expected = format!("MOVED 12182 127.0.0.1:{}", cluster.nodes()[1].port());
        assert_eq!(moved, expected);
    }

    #[test]
    fn a_slot_moves_with_its_keys() {
        let cluster = Cluster::start(2);
        cluster.command("{foo}", &["SET", "{foo}", "1"]);
        let migration = cluster.migration("{foo}", 0);
        migration.move_keys();
        let sent_on = cluster.nodes()[1].command(&["GET", "{foo}"]).error();
        assert!(sent_on.starts_with("ASK "), "{sent_on}");
        migration.finish();
        assert_eq!(cluster.owner("{foo}"), 0);
        assert_eq!(cluster.command("{foo}", &["GET", "{foo}"]).text(), "1");
    }

    #[test]
    fn a_cluster_of_one_node_serves_everything() {
        let cluster = Cluster::start(1);
        assert_eq!((cluster.owner("foo"), cluster.owner("bar")), (0, 0));
    }
}
