//! Where results go: a table or JSON to the standard output, words to the standard error.

use std::io::{IsTerminal, Stdout, Write};

use anstream::AutoStream;
use serde::Serialize;

use crate::args::Shared;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::table::Table;

#[derive(Debug)]
pub(crate) struct Output {
    stdout: AutoStream<Stdout>,
    pub(crate) json: bool,
    quiet: bool,
}

impl Output {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self {
            stdout: AutoStream::new(std::io::stdout(), shared.color.choice()),
            json: shared.json,
            quiet: shared.quiet,
        }
    }

    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        Ok(writeln!(self.stdout, "{line}")?)
    }

    pub(crate) fn table(&mut self, table: &Table) -> Result<(), Failure> {
        Ok(write!(self.stdout, "{table}")?)
    }

    /// A document, on lines of its own.
    pub(crate) fn document(&mut self, document: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(document).map_err(std::io::Error::from)?;
        self.line(&text)
    }

    /// A document on one line.
    pub(crate) fn document_line(&mut self, document: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(document).map_err(std::io::Error::from)?;
        self.line(&text)
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.stdout.write_all(bytes)?)
    }

    /// A word that is no result.
    pub(crate) fn note(&self, words: &str) {
        if !self.quiet {
            anstream::eprintln!("{words}");
        }
    }

    /// The width to cut lines to, where there is a terminal.
    pub(crate) fn width(&self) -> Option<usize> {
        if !std::io::stdout().is_terminal() {
            return None;
        }
        terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
    }

    /// How long work goes on, for whoever watches.
    pub(crate) fn progress(&self, doing: &'static str, total: Option<u64>) -> Progress {
        let watched = !self.quiet && std::io::stderr().is_terminal();
        Progress::new(doing, total, watched)
    }
}
