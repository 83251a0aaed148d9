//! What can be asked about dead letters.

use std::time::Duration;

use clap::{Args as Group, Subcommand};
use rillkit::EntryId;

use crate::time;

#[derive(Debug, Subcommand)]
pub(crate) enum DlqCommand {
    /// Dead letters in numbers: by reason, error, handler and group
    Stats {
        #[command(flatten)]
        queue: Queue,
        #[command(flatten)]
        filters: Filters,
    },
    /// Lists dead letters
    List {
        #[command(flatten)]
        queue: Queue,
        #[command(flatten)]
        filters: Filters,
        /// How many at most
        #[arg(long, short = 'n', default_value_t = 100)]
        count: usize,
        /// Begins with the newest
        #[arg(long)]
        newest: bool,
        /// Begins behind this letter
        #[arg(long, value_name = "ID")]
        after: Option<EntryId>,
    },
    /// Shows one dead letter with all its fields and its body
    Show {
        #[command(flatten)]
        queue: Queue,
        /// The letter's id in the dead-letter queue
        id: EntryId,
    },
    /// Moves one dead letter back to its stream with another body
    Edit {
        #[command(flatten)]
        queue: Queue,
        /// The letter's id in the dead-letter queue
        id: EntryId,
        /// The new body; without it, the editor that `VISUAL` or `EDITOR` names has the old one
        #[arg(value_name = "JSON")]
        body: Option<String>,
    },
    /// Moves dead letters back to their stream, oldest first; without `--yes` it only says which
    Replay(Replay),
    /// Deletes dead letters; without `--yes` it only says how many
    Purge(Purge),
}

#[derive(Debug, Group)]
pub(crate) struct Queue {
    /// The stream whose messages failed
    pub(crate) stream: String,
    /// The dead-letter queue, where it is neither what the running workers use nor `<stream>-dlq`
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// The letters that a replay has put aside
    #[arg(long)]
    pub(crate) parked: bool,
}

#[derive(Debug, Group)]
#[command(next_help_heading = "Which letters (all that is given has to hold)")]
pub(crate) struct Filters {
    /// `error`, `panic`, `timeout`, `rejected`, `decode` or `exhausted`
    #[arg(long)]
    pub(crate) reason: Vec<String>,
    /// Those whose error has this text in it
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Vec<String>,
    /// Those of this handler
    #[arg(long, value_name = "NAME")]
    pub(crate) handler: Vec<String>,
    /// Those of this group
    #[arg(long)]
    pub(crate) group: Vec<String>,
    /// Those that are older than this, such as `2h` or `30d`
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub(crate) older_than: Option<Duration>,
    /// Those that are younger than this
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub(crate) younger_than: Option<Duration>,
    /// From this id on
    #[arg(long, value_name = "ID")]
    pub(crate) from: Option<EntryId>,
    /// Up to this id
    #[arg(long, value_name = "ID")]
    pub(crate) to: Option<EntryId>,
    /// These alone
    #[arg(long, value_name = "ID")]
    pub(crate) id: Vec<EntryId>,
}

#[derive(Debug, Group)]
pub(crate) struct Replay {
    #[command(flatten)]
    pub(crate) queue: Queue,
    #[command(flatten)]
    pub(crate) filters: Filters,
    /// How many at most
    #[arg(long, short = 'n')]
    pub(crate) count: Option<usize>,
    /// How many in a second, at most
    #[arg(long, value_name = "PER_SECOND")]
    pub(crate) rate: Option<f64>,
    /// Puts letters aside that were replayed so often already, into `<queue>-parked`
    #[arg(long, value_name = "COUNT")]
    pub(crate) at_most_replays: Option<u64>,
    /// Stops when more than this share of the replayed messages fails again; 0.2 is a fifth
    #[arg(long, value_name = "SHARE")]
    pub(crate) stop_when_failing: Option<f64>,
    /// Shows them to every group of the stream, and not only to the one in which each failed
    #[arg(long)]
    pub(crate) to_every_group: bool,
    /// Does it
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Purge {
    #[command(flatten)]
    pub(crate) queue: Queue,
    #[command(flatten)]
    pub(crate) filters: Filters,
    /// How many at most
    #[arg(long, short = 'n')]
    pub(crate) count: Option<usize>,
    /// All letters, where nothing says which
    #[arg(long)]
    pub(crate) all: bool,
    /// Does it
    #[arg(long, short)]
    pub(crate) yes: bool,
}
