//! What a publication asks for beyond its entry.

use std::time::Duration;

use super::{Fault, Store};
use crate::entry_id::EntryId;
use crate::fields::Fields;

/// Fields that a script can hand to one command; 3990 pass, 4100 do not, on every server.
pub(crate) const SCRIPT_FIELDS: usize = 3_900;

/// All that one publication asks for. A plain one has none of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) once: Option<Once>,
}

/// That an entry is added once, however often it is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Once {
    /// What is published under the same id to the same stream is the same message.
    pub(crate) id: String,
    /// How long that is known.
    pub(crate) lifetime: Duration,
}

impl Store {
    /// Adds an entry as these options ask. With [`Options::once`] it is added once, and the id of
    /// the entry from before is the answer later; only then it is safe to repeat.
    pub(crate) async fn publish_with(
        &self,
        stream: &str,
        fields: &Fields,
        options: &Options,
    ) -> Result<EntryId, Fault> {
        match self {
            Self::Redis(it) => it.publish_with(stream, fields, options).await,
            Self::Memory(it) => it.publish_with(stream, fields, options).await,
        }
    }
}
