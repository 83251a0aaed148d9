//! What a safe trim is told, and what it tells.

use std::time::Duration;

use crate::entry_id::EntryId;

/// What a safe trim leaves alone, besides what groups need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spared {
    /// How many of the newest entries.
    pub(crate) newest: u64,
    /// What is younger than this by the server's clock.
    pub(crate) younger_than: Option<Duration>,
    /// Groups whose needs do not count.
    pub(crate) ignored_groups: Vec<String>,
    /// Whether a stream without a group that counts is trimmed by the rest of this. If not, all of
    /// it stays.
    pub(crate) unless_grouped: bool,
}

/// What one step of a safe trim did, and why it went no further.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TrimStep {
    pub(crate) removed: u64,
    pub(crate) left: u64,
    /// Everything below may go; `None` when nothing may.
    pub(crate) floor: Option<EntryId>,
    pub(crate) groups: Vec<Standing>,
}

/// How far a group is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) group: String,
    /// The last id that it was handed.
    pub(crate) last: EntryId,
    pub(crate) pending: u64,
    /// The lowest pending id.
    pub(crate) lowest: Option<EntryId>,
    /// Whether the stream holds anything that it was not handed.
    pub(crate) has_unread: bool,
    /// How much, where the server knows.
    pub(crate) unread: Option<u64>,
}
