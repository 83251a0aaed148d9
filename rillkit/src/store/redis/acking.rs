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
    fn every_ack_of_these_scripts_deletes() {
        for lua in [
            include_str!("scripts/ack.lua"),
            include_str!("scripts/ack_all.lua"),
            include_str!("scripts/commit.lua"),
            include_str!("scripts/dead_letter.lua"),
        ] {
            assert_eq!(
                lua.matches("'XACK'").count(),
                lua.matches(ACK).count(),
                "{lua}"
            );
            assert_ne!(lua.matches(ACK).count(), 0, "{lua}");
            let both = Acking::new(lua);
            assert_ne!(
                both.when(Acked::Stays).get_hash(),
                both.when(Acked::Goes).get_hash()
            );
        }
    }
}
