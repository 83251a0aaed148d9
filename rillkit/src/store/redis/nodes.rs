//! What is known about a cluster: its nodes, and which of them has each slot.

use redis::Value;

use super::address::Address;
use super::link::Link;
use super::reply;
use super::slot;
use crate::store::{Fault, FaultClass};

/// The nodes, each with its one connection, and the slots.
#[derive(Default)]
pub(super) struct Nodes {
    links: Vec<Link>,
    /// By slot, the place in `links` of the node that has it; empty until the cluster was asked.
    owners: Vec<Option<u16>>,
    /// A node could not be reached or disowned what it had: the cluster has to be asked again.
    in_doubt: bool,
}

/// A row of `CLUSTER SLOTS`: the first and the last slot of a range, and the node that has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    first: u16,
    last: u16,
    /// Empty where the node that answers does not know its own.
    host: String,
    port: u16,
}

impl Nodes {
    /// The node that has this slot, unless the cluster has to be asked first.
    pub(super) fn owner(&self, slot: u16) -> Option<Link> {
        if self.in_doubt {
            return None;
        }
        let owner = *self.owners.get(usize::from(slot))?;
        Some(self.links[usize::from(owner?)].clone())
    }

    pub(super) fn doubt(&mut self) {
        self.in_doubt = true;
    }

    pub(super) fn links(&self) -> &[Link] {
        &self.links
    }

    /// The node at this address, as `from` calls it.
    pub(super) fn at(&mut self, from: &Address, host: &str, port: u16) -> Result<Link, Fault> {
        self.place(from, host, port)
            .map(|place| self.links[usize::from(place)].clone())
    }

    /// Notes that this node has the slot, as `from` says.
    pub(super) fn moved(
        &mut self,
        slot: u16,
        from: &Address,
        host: &str,
        port: u16,
    ) -> Result<(), Fault> {
        let place = self.place(from, host, port)?;
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = Some(place);
        }
        Ok(())
    }

    /// Takes over what `from` says about all slots; nodes that have none are forgotten.
    pub(super) fn learn(&mut self, from: &Address, ranges: &[Range]) -> Result<(), Fault> {
        let mut learned = Self {
            links: Vec::new(),
            owners: vec![None; slot::COUNT],
            in_doubt: false,
        };
        for range in ranges {
            let link = self.at(from, &range.host, range.port)?;
            let known = |other: &Link| other.address().same(link.address());
            let place = learned.links.iter().position(known).unwrap_or_else(|| {
                learned.links.push(link.clone());
                learned.links.len() - 1
            });
            let slots = usize::from(range.first)..=usize::from(range.last);
            if let Some(owners) = learned.owners.get_mut(slots) {
                owners.fill(Some(index(place)?));
            }
        }
        *self = learned;
        Ok(())
    }

    fn place(&mut self, from: &Address, host: &str, port: u16) -> Result<u16, Fault> {
        let address = from
            .at(host, port)
            .map_err(|error| Fault::new(FaultClass::Config, error.to_string()))?;
        let known = |link: &Link| link.address().same(&address);
        let place = self.links.iter().position(known);
        index(place.unwrap_or_else(|| {
            self.links.push(Link::new(address));
            self.links.len() - 1
        }))
    }
}

fn index(place: usize) -> Result<u16, Fault> {
    u16::try_from(place).map_err(|_| reply::odd("CLUSTER SLOTS"))
}

/// Reads the answer to `CLUSTER SLOTS`: `[[first, last, [host, port, ..], replica, ..], ..]`. What
/// servers add behind these is not looked at.
pub(super) fn ranges(answer: Value) -> Result<Vec<Range>, Fault> {
    reply::array(answer)?.into_iter().map(range).collect()
}

fn range(row: Value) -> Result<Range, Fault> {
    let odd = || reply::odd("CLUSTER SLOTS");
    let mut row = reply::array(row)?.into_iter();
    let mut next = || row.next().ok_or_else(odd);
    let (first, last, node) = (next()?, next()?, reply::array(next()?)?);
    let [host, port, ..] = node.as_slice() else {
        return Err(odd());
    };
    let small = |number: &Value| u16::try_from(reply::number(number)?).map_err(|_| odd());
    let host = match host {
        Value::Nil => String::new(),
        host => reply::text(host.clone())?,
    };
    Ok(Range {
        first: small(&first)?,
        last: small(&last)?,
        // What a node says that is to be called by a name and was not given one.
        host: if host == "?" { String::new() } else { host },
        port: small(port)?,
    })
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    fn answer(wire: &str) -> Result<Vec<Range>, Fault> {
        ranges(parse_redis_value(wire.as_bytes()).expect("a reply"))
    }

    fn address(url: &str) -> Address {
        Address::from_url(url).expect("a good URL")
    }

    fn range(first: u16, last: u16, host: &str, port: u16) -> Range {
        Range {
            first,
            last,
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn ranges_are_read_whatever_stands_behind_them() {
        let old = "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$1\r\na\r\n:1\r\n";
        let with_replica_and_more = "*1\r\n*4\r\n:0\r\n:5\r\n*4\r\n$1\r\na\r\n:1\r\n$2\r\nid\r\n*0\r\n*2\r\n$1\r\nb\r\n:2\r\n";
        for wire in [old, with_replica_and_more] {
            assert_eq!(answer(wire), Ok(vec![range(0, 5, "a", 1)]), "{wire}");
        }
        for unknown in ["$-1", "$0\r\n", "$1\r\n?"] {
            let wire = format!("*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n{unknown}\r\n:1\r\n");
            assert_eq!(answer(&wire), Ok(vec![range(0, 5, "", 1)]), "{unknown}");
        }
        for odd in [
            "*1\r\n:1\r\n",
            "*1\r\n*2\r\n:0\r\n:5\r\n",
            "*1\r\n*3\r\n:0\r\n:70000\r\n*0\r\n",
        ] {
            assert!(answer(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_slot_has_the_node_that_was_last_named_for_it() {
        let (from, mut nodes) = (address("redis://a:1"), Nodes::default());
        let owner = |nodes: &Nodes, slot| nodes.owner(slot).map(|it| it.address().to_string());
        assert_eq!(owner(&nodes, 0), None);

        let rows = [
            range(0, 5, "", 1),
            range(6, 9, "b", 2),
            range(10, 11, "", 1),
        ];
        nodes.learn(&from, &rows).expect("good addresses");
        let named = [0, 5, 6, 10].map(|slot| owner(&nodes, slot));
        assert_eq!(named.map(Option::unwrap), ["a:1", "a:1", "b:2", "a:1"]);
        assert_eq!(owner(&nodes, 12), None);
        assert_eq!(nodes.links().len(), 2);

        nodes.moved(5, &from, "c", 3).expect("a good address");
        assert_eq!(owner(&nodes, 5).as_deref(), Some("c:3"));
        nodes.doubt();
        assert_eq!(owner(&nodes, 0), None);
        nodes.learn(&from, &rows[1..2]).expect("good addresses");
        assert_eq!(nodes.links().len(), 1);
    }
}
