//! What can be asked on the command line.

mod dlq;

use std::time::Duration;

use clap::{Args as Group, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use rillkit::EntryId;

pub(crate) use self::dlq::{DlqCommand, Filters, Purge, Queue, Replay};
use crate::time;

const AFTER_HELP: &str = "\
The server is `--url`, else what the environment says: REDIS_URL, or REDIS_HOST, REDIS_PORT, \
REDIS_USERNAME, REDIS_PASSWORD, REDIS_DB and REDIS_SSL, else redis://localhost:6379/0. A password \
is better in the environment: others on the machine can see arguments.

Exit codes:
  0  done
  1  the server refused, or something that was named is not there
  2  the arguments cannot be understood
  3  the server cannot be reached
  4  `check` found something to mend";

/// Looks after the streams of RillKit: groups, pending messages, dead letters.
#[derive(Debug, Parser)]
#[command(name = "rillkit", version, after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Group)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Shared {
    /// The server, such as `redis://host:6379`, `rediss://..` or `redis+cluster://..`
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Prints JSON, for programs: one document, and from `tail` one on each line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colours. `auto`: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,
    /// No progress, and no word that is not a result
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum When {
    Auto,
    Always,
    Never,
}

impl When {
    pub(crate) fn choice(self) -> anstream::ColorChoice {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
    }

    /// Errors are printed by it too.
    pub(crate) fn write_global(self) {
        self.choice().write_global();
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Streams at a glance: length, age, what is pending and not read, dead letters
    Stats(Stats),
    /// The groups of a stream, and their consumers
    Groups(Groups),
    /// What a group was handed and has not settled, oldest first
    Pending(Pending),
    /// Dead letters: counts and shows them, moves them back, deletes them
    #[command(subcommand)]
    Dlq(Box<DlqCommand>),
    /// Publishes a message, or one for each line of the standard input
    Publish(Publish),
    /// Messages that wait for their time
    #[command(subcommand)]
    Delayed(DelayedCommand),
    /// Removes what every group has handled, and says what holds the rest back
    Trim(Trim),
    /// Follows what is added to a stream; no group notices
    Tail(Tail),
    /// Compares what runs with what the server holds; exits with 4 when there is something to mend
    Check(Check),
    /// Prints the completions of a shell
    Completions {
        /// The shell, as in `rillkit completions bash > /etc/bash_completion.d/rillkit`
        shell: Shell,
    },
}

#[derive(Debug, Group)]
pub(crate) struct Stats {
    /// The streams; without any, all of the server
    pub(crate) streams: Vec<String>,
}

#[derive(Debug, Group)]
pub(crate) struct Groups {
    /// The stream
    pub(crate) stream: String,
    /// Lists the consumers of each group as well
    #[arg(long, short)]
    pub(crate) consumers: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Pending {
    /// The stream
    pub(crate) stream: String,
    /// The group
    pub(crate) group: String,
    /// Only what is pending for this consumer
    #[arg(long)]
    pub(crate) consumer: Option<String>,
    /// Only what has not been touched for so long, such as `90s`, `5m` or `2h`
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub(crate) idle: Option<Duration>,
    /// Begins at this entry
    #[arg(long, value_name = "ID", default_value = "0-0")]
    pub(crate) from: EntryId,
    /// How many at most
    #[arg(long, short = 'n', default_value_t = 100)]
    pub(crate) count: usize,
}

#[derive(Debug, Group)]
pub(crate) struct Trim {
    /// The stream
    pub(crate) stream: String,
    /// Leaves so many of the newest entries, handled or not
    #[arg(long, value_name = "COUNT")]
    pub(crate) keep: Option<u64>,
    /// Removes only what is older than this, such as `12h` or `7d`
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub(crate) older_than: Option<Duration>,
    /// Takes no account of this group: what it has not handled goes as well
    #[arg(long, value_name = "GROUP")]
    pub(crate) ignore: Vec<String>,
    /// Trims a stream that has no groups too
    #[arg(long)]
    pub(crate) even_without_groups: bool,
    /// Does it; without this it only says what it would do
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Publish {
    /// The stream
    pub(crate) stream: String,
    /// The body, as JSON; `-` reads one from each line of the standard input
    #[arg(value_name = "JSON|-")]
    pub(crate) body: String,
    /// Adds a header to each message
    #[arg(long, short = 'H', value_name = "NAME=VALUE", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// Makes it safe to publish it again: what has the same id is there once, for a day
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Publishes it after this time, such as `10m` or `2h`, if a worker of the stream runs by then;
    /// prints the id by which `delayed cancel` takes it back
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub(crate) delay: Option<Duration>,
    /// Keeps about so many of the newest entries, and drops what is older, handled or not
    #[arg(long, value_name = "COUNT")]
    pub(crate) maxlen: Option<u64>,
    /// Drops entries that are older than this, handled or not
    #[arg(long, value_name = "TIME", value_parser = time::parse, conflicts_with = "maxlen")]
    pub(crate) max_age: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DelayedCommand {
    /// Lists them, the soonest first
    List {
        /// The stream
        stream: String,
        /// How many at most
        #[arg(long, short = 'n', default_value_t = 100)]
        count: usize,
    },
    /// Takes them back, so that nobody gets them
    Cancel {
        /// The stream
        stream: String,
        /// Their ids, as `delayed list` shows them
        #[arg(required_unless_present = "all")]
        ids: Vec<String>,
        /// All of them; without `--yes` it only says how many
        #[arg(long, conflicts_with = "ids")]
        all: bool,
        /// Does it
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Debug, Group)]
pub(crate) struct Tail {
    /// The stream
    pub(crate) stream: String,
    /// Follows its dead-letter queue instead; `--dlq=NAME` where that is not `<stream>-dlq`
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) dlq: Option<String>,
    /// Begins with the newest entries that are there
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10)]
    pub(crate) last: usize,
    /// Begins behind this entry; `0` is the beginning
    #[arg(long, value_name = "ID", conflicts_with = "last")]
    pub(crate) after: Option<EntryId>,
    /// Ends with what is there now
    #[arg(long)]
    pub(crate) no_follow: bool,
    /// Shows entries in full. Otherwise they are cut to the width of the terminal
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Check {
    /// The streams; without any, all of the server
    pub(crate) streams: Vec<String>,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn headers_are_names_and_values() {
        assert_eq!(header("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(header("a").is_err() && header("=b").is_err());
    }
}
