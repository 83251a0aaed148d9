//! Scripts that ack, for entries that stay on the stream and for such that go with it.

use redis::Script;

use crate::store::Acked;

/// How every script writes an ack, up to the id.
const ACK: &str = "redis.call('XACK', KEYS[1], ARGV[1], ";

/// One script, and the same that deletes what it acks.
pub(super) struct Acking {
    stays: Script,
    goes: Script,
}

impl Acking {
    pub(super) fn new(lua: &str) -> Self {
        Self {
            stays: Script::new(lua),
            goes: Script::new(&source(lua, Acked::Goes)),
        }
    }

    pub(super) fn when(&self, acked: Acked) -> &Script {
        match acked {
            Acked::Stays => &self.stays,
            Acked::Goes => &self.goes,
        }
    }
}

/// The text of the script that is meant.
pub(super) fn source(lua: &str, acked: Acked) -> String {
    match acked {
        Acked::Stays => lua.to_owned(),
        Acked::Goes => {
            let prelude = include_str!("scripts/ack_and_delete.lua");
            format!("{prelude}{}", lua.replace(ACK, "ack_and_delete("))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ack that is written in another way would leave its entry on the stream.
    #[test]
    fn every_script_that_acks_what_is_there_can_delete() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/redis/scripts");
        let mut seen = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let lua = std::fs::read_to_string(&path).unwrap();
            // A take acks only what the stream no longer holds.
            let is_other = path.ends_with("ack_and_delete.lua") || path.ends_with("take.lua");
            if is_other || !lua.contains("'XACK'") {
                continue;
            }
            seen += 1;
            let acks = lua.matches("'XACK'").count();
            assert_eq!(acks, lua.matches(ACK).count(), "{}", path.display());
            let both = Acking::new(&lua);
            let (stays, goes) = (both.when(Acked::Stays), both.when(Acked::Goes));
            assert_ne!(stays.get_hash(), goes.get_hash());
        }
        assert!(seen >= 4, "{seen} scripts");
    }
}
