//! A letter's body in an editor.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use rillkit::EntryId;

use crate::failure::Failure;

/// What the user makes of this text; `None` when it is left as it is.
pub(super) fn edited(id: EntryId, text: &str) -> Result<Option<String>, Failure> {
    let editor = ["VISUAL", "EDITOR"].into_iter().find_map(|name| {
        let editor = std::env::var(name).ok();
        editor.filter(|editor| !editor.trim().is_empty())
    });
    let Some(editor) = editor else {
        let text = "no editor is known: set `EDITOR`, or give the new body as JSON";
        return Err(Failure::Usage(text.to_owned()));
    };
    let failed = |error| Failure::Failed(format!("the body cannot be edited: {error}"));
    let draft = Draft::new(id, text).map_err(failed)?;
    run(&editor, &draft.0).map_err(failed)?;
    let after = fs::read_to_string(&draft.0).map_err(failed)?;
    Ok((after != text).then_some(after))
}

/// The setting is a command with its arguments, as everywhere.
fn run(editor: &str, draft: &Path) -> io::Result<()> {
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or(editor);
    let status = Command::new(program).args(words).arg(draft).status();
    let named = |error: io::Error| io::Error::new(error.kind(), format!("`{program}`: {error}"));
    match status.map_err(named)?.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("`{program}` failed"))),
    }
}

/// A file that nobody else may read, and that goes when it is dropped.
struct Draft(PathBuf);

impl Draft {
    fn new(id: EntryId, text: &str) -> io::Result<Self> {
        let name = format!("rillkit-{id}-{}.json", process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path)?;
        let draft = Self(path);
        file.write_all(text.as_bytes())?;
        Ok(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
