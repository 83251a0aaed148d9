//! Completions for shells.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(shell: Shell, output: &mut Output) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "rillkit", &mut text);
    output.raw(&text)
}
