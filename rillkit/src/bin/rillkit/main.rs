//! The program `rillkit`: what those who look after streams want to see and do from a shell.
//!
//! `args` says what can be asked, and each command has a file of its own. Everything goes through
//! the public API of the crate. Results go to the standard output, as a table or as JSON, and
//! everything else to the standard error; `failure` has the exit codes.

mod args;
mod check;
mod completions;
mod connect;
mod delayed;
mod dlq;
mod failure;
mod groups;
mod output;
mod pending;
mod progress;
mod publish;
mod stats;
mod table;
mod tail;
mod text;
mod time;
mod trim;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::failure::Failure;
use crate::output::Output;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    args.shared.color.write_global();
    match run(args).await {
        Ok(()) | Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(text) = failure.text() {
                anstream::eprintln!("{}error:{:#} {text}", text::BAD, text::BAD);
            }
            ExitCode::from(failure.code())
        }
    }
}

async fn run(args: Args) -> Result<(), Failure> {
    let mut output = Output::new(&args.shared);
    let broker = || connect::broker(args.shared.url.as_deref());
    match args.command {
        Command::Stats(ask) => stats::run(&broker()?, &ask, &mut output).await,
        Command::Groups(ask) => groups::run(&broker()?, &ask, &mut output).await,
        Command::Pending(ask) => pending::run(&broker()?, &ask, &mut output).await,
        Command::Dlq(command) => dlq::run(&broker()?, &command, &mut output).await,
        Command::Delayed(command) => delayed::run(&broker()?, &command, &mut output).await,
        Command::Publish(ask) => publish::run(&broker()?, ask, &mut output).await,
        Command::Trim(ask) => trim::run(&broker()?, &ask, &mut output).await,
        Command::Tail(ask) => tail::run(&broker()?, &ask, &mut output).await,
        Command::Check(ask) => check::run(&broker()?, &ask, &mut output).await,
        Command::Completions { shell } => completions::run(shell, &mut output),
    }
}
