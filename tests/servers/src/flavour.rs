//! Which server is tested on, and where its program is.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// A server that the tests run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// `redis-6.2`, the oldest supported.
    Redis62,
    /// `redis-7.0`, the default: the `redis-server` of the `PATH`, whatever its version.
    Redis70,
    /// `redis-8.2`.
    Redis82,
    /// `valkey-8.1`.
    Valkey81,
    /// `valkey-9.1`.
    Valkey91,
}

/// The program of a flavour, looked at once.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) version: [u32; 3],
}

static CHOSEN: LazyLock<Flavour> = LazyLock::new(|| match env::var("RILLKIT_TEST_SERVER") {
    Ok(name) => Flavour::named(&name),
    Err(_) => Flavour::Redis70,
});

static PROGRAM: LazyLock<Program> = LazyLock::new(|| CHOSEN.find());

impl Flavour {
    const ALL: [Self; 5] = [
        Self::Redis62,
        Self::Redis70,
        Self::Redis82,
        Self::Valkey81,
        Self::Valkey91,
    ];

    /// The flavour named by `RILLKIT_TEST_SERVER`, `redis-7.0` where it is unset.
    ///
    /// # Panics
    /// When the variable names no flavour.
    #[must_use]
    pub fn chosen() -> Self {
        *CHOSEN
    }

    /// The name, as in `RILLKIT_TEST_SERVER`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis62 => "redis-6.2",
            Self::Redis70 => "redis-7.0",
            Self::Redis82 => "redis-8.2",
            Self::Valkey81 => "valkey-8.1",
            Self::Valkey91 => "valkey-9.1",
        }
    }

    /// The program of the chosen flavour.
    pub(crate) fn program() -> &'static Program {
        &PROGRAM
    }

    fn named(name: &str) -> Self {
        Self::ALL
            .into_iter()
            .find(|flavour| flavour.name() == name)
            .unwrap_or_else(|| {
                let names = Self::ALL.map(Self::name).join("`, `");
                panic!("RILLKIT_TEST_SERVER is `{name}`; expected one of `{names}`")
            })
    }

    fn find(self) -> Program {
        if let Some(path) = env::var_os("RILLKIT_SERVER_BIN") {
            let path = PathBuf::from(path);
            let version = version_of(&path).unwrap_or_else(|| {
                panic!(
                    "RILLKIT_SERVER_BIN is {path:?}, which does not run as a Redis or Valkey server"
                )
            });
            return Program { path, version };
        }
        let path = self.place();
        let version = version_of(&path).unwrap_or_else(|| {
            panic!(
                "no {} at {path:?} that runs; `{}` installs it",
                self.name(),
                self.cure()
            )
        });
        self.check(&path, version);
        Program { path, version }
    }

    /// Where the program is: on the `PATH`, or where `scripts/servers` puts it.
    fn place(self) -> PathBuf {
        let program = match self {
            Self::Redis70 => return "redis-server".into(),
            Self::Redis62 | Self::Redis82 => "redis-server",
            Self::Valkey81 | Self::Valkey91 => "valkey-server",
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        root.join(".servers").join(self.name()).join(program)
    }

    fn cure(self) -> String {
        match self {
            Self::Redis70 => "scripts/test".into(),
            _ => format!("scripts/servers {}", self.name()),
        }
    }

    /// The default may be of any version, which is said once; the others are what they are called.
    fn check(self, path: &Path, version: [u32; 3]) {
        let [major, minor, patch] = version;
        if self.name().ends_with(&format!("-{major}.{minor}")) {
            return;
        }
        let found = format!("{path:?} is of version {major}.{minor}.{patch}");
        match self {
            Self::Redis70 => eprintln!("rillkit-servers: instead of redis-7.0, {found}"),
            _ => panic!("{found}; `{}` installs {}", self.cure(), self.name()),
        }
    }
}

/// The version that a server program states, as in `Redis server v=7.0.15 sha=..`.
fn version_of(path: &Path) -> Option<[u32; 3]> {
    let output = Command::new(path).arg("--version").output().ok()?;
    parse_version(str::from_utf8(&output.stdout).ok()?)
}

fn parse_version(stated: &str) -> Option<[u32; 3]> {
    let version = stated
        .split_whitespace()
        .find_map(|word| word.strip_prefix("v="))?;
    let numbers: Vec<u32> = version
        .split('.')
        .map(|number| number.parse().ok())
        .collect::<Option<_>>()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::{Flavour, parse_version};

    #[test]
    fn every_flavour_is_found_by_its_name() {
        for flavour in Flavour::ALL {
            assert_eq!(Flavour::named(flavour.name()), flavour);
        }
    }

    #[test]
    #[should_panic(expected = "RILLKIT_TEST_SERVER is `redis`; expected one of `redis-6.2`, ")]
    fn an_unknown_name_lists_the_known_ones() {
        let _ = Flavour::named("redis");
    }

    #[test]
    #[should_panic(expected = "`scripts/servers valkey-9.1` installs valkey-9.1")]
    fn a_wrong_version_names_the_cure() {
        Flavour::Valkey91.check("valkey-server".as_ref(), [8, 1, 0]);
    }

    #[test]
    fn the_stated_version_is_parsed() {
        assert_eq!(
            parse_version("Redis server v=7.0.15 sha=00000000:0"),
            Some([7, 0, 15])
        );
        assert_eq!(parse_version("Valkey server v=9.1.2"), Some([9, 1, 2]));
        assert_eq!(parse_version("something else"), None);
    }
}
