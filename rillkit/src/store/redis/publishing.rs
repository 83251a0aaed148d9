//! Publications that ask for more than an entry.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::{RedisStore, ms, reply, slot, xadd};
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::store::{Fault, Options};

static PUBLISH_ONCE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/publish_once.lua")));

/// The longest time that a server can add to its clock without loss: Lua counts in floats.
const LONGEST: u64 = 1 << 52;

impl RedisStore {
    pub(in crate::store) async fn publish_with(
        &self,
        stream: &str,
        fields: &Fields,
        options: &Options,
    ) -> Result<EntryId, Fault> {
        let Some(once) = &options.once else {
            let added = self.links.run(stream, &xadd(stream, fields)).await?;
            return reply::id(&added);
        };
        let added = self
            .links
            .run_script(stream, &PUBLISH_ONCE, |script| {
                script.key(stream).key(marker(stream, &once.id));
                script.arg(lifetime(once.lifetime));
                for (name, value) in fields.iter() {
                    script.arg(name).arg(value);
                }
            })
            .await?;
        reply::id(&added)
    }
}

/// The key that says what was published under this id.
fn marker(stream: &str, id: &str) -> String {
    slot::beside(stream, &format!("published:{id}"))
}

/// As a server takes it: not zero, and not beyond its clock.
fn lifetime(lifetime: Duration) -> u64 {
    ms(lifetime).clamp(1, LONGEST)
}
