//! Publications that ask for more than an entry.

use std::time::Duration;

use super::{Fault, Store};
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::trim::Trim;

/// Fields that a script can hand to one command; 3990 pass, 4100 do not, on every server.
pub(crate) const SCRIPT_FIELDS: usize = 3_900;

/// That an entry is added once, however often it is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Once {
    /// What is published under the same id to the same stream is the same message.
    pub(crate) id: String,
    /// How long that is known.
    pub(crate) lifetime: Duration,
}

impl Once {
    pub(crate) fn new(id: &str, lifetime: Duration) -> Self {
        Self {
            id: id.to_owned(),
            lifetime,
        }
    }
}

impl Store {
    /// Adds an entry, and trims as [`publish`](Self::publish) does, unless something was published
    /// under that id before: then nothing is done, and the id of that entry is the answer.
    pub(crate) async fn publish_once(
        &self,
        stream: &str,
        fields: &Fields,
        trim: Option<Trim>,
        once: &Once,
    ) -> Result<EntryId, Fault> {
        match self {
            Self::Redis(it) => it.publish_once(stream, fields, trim, once).await,
            Self::Memory(it) => it.publish_once(stream, fields, trim, once).await,
        }
    }
}
