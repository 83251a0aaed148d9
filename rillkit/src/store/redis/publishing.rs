//! Publications that ask for more than an entry.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::cut::Cut;
use super::{RedisStore, ms, reply, slot};
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::store::{Fault, Once};
use crate::trim::Trim;

static PUBLISH_ONCE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/publish_once.lua")));

/// The longest time that a server can add to its clock without loss: Lua counts in floats.
pub(super) const LONGEST: u64 = 1 << 52;

impl RedisStore {
    pub(in crate::store) async fn publish_once(
        &self,
        stream: &str,
        fields: &Fields,
        trim: Option<Trim>,
        once: &Once,
    ) -> Result<EntryId, Fault> {
        let cut = match trim {
            None => None,
            Some(trim) => Some(self.cut(stream, trim).await?),
        };
        let added = self
            .links
            .run_script(stream, &PUBLISH_ONCE, |script| {
                script.key(stream).key(marker(stream, &once.id));
                script.arg(lifetime(once.lifetime));
                for word in cut.iter().flat_map(Cut::words) {
                    script.arg(word);
                }
                script.arg("*");
                for (name, value) in fields.iter() {
                    script.arg(name).arg(value);
                }
            })
            .await?;
        reply::id(&added)
    }
}

/// The key that says what was published under this id.
pub(super) fn marker(stream: &str, id: &str) -> String {
    slot::beside(stream, &format!("published:{id}"))
}

/// As a server takes it: not zero, and not beyond its clock.
pub(super) fn lifetime(lifetime: Duration) -> u64 {
    ms(lifetime).clamp(1, LONGEST)
}
