//! Every example prints what stands in the file beside it, in process and on a real server.
//!
//! Ids are masked, and a time may be a little longer than the one that is expected; nothing else is.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process};

use rillkit_servers::{Server, wait_until};

/// How much longer than expected a printed time may be, in seconds.
const LATE: f64 = 1.5;

macro_rules! examples {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        mod in_process {
            $(#[test] fn $name() { super::in_process(stringify!($name)); })*
        }

        mod on_a_server {
            $(#[test] fn $name() { super::on_a_server(stringify!($name)); })*
        }
    };
}

examples! {
    ack_policies
    attempts
    backoff
    decode_errors
    delayed
    dlq_tools
    exactly_once
    graceful_stop
    idempotent
    idempotent_sql
    idempotent_publish
    reject
    retries_dlq
    slow_handler
    state
    testing
    trimming
    typed_stream
}

fn in_process(name: &str) {
    Run::start(name, None).ends_with_its_output();
}

fn on_a_server(name: &str) {
    let server = Server::start();
    Run::start(name, Some(&server)).ends_with_its_output();
}

/// A worker in one process, a publisher in another.
#[test]
fn quickstart_and_publish() {
    let server = Server::start();
    let mut worker = Run::start("quickstart", Some(&server));
    Run::start("publish", Some(&server)).ends_with_its_output();
    let expected = expected("quickstart");
    wait_until("the worker has greeted everybody", || {
        worker.output() == expected || worker.has_ended()
    });
    let terminate = format!("kill -TERM {}", worker.child.id());
    let sent = Command::new("sh").args(["-c", &terminate]).status();
    assert!(sent.expect("a shell can be started").success());
    worker.ends_with_its_output();
}

#[test]
fn every_example_is_run() {
    let tested: BTreeSet<String> = NAMES
        .iter()
        .chain(&["quickstart", "publish"])
        .map(|name| (*name).to_owned())
        .collect();
    let files = fs::read_dir(env!("CARGO_MANIFEST_DIR")).expect("the folder of the examples");
    let files: BTreeSet<String> = files
        .map(|file| file.expect("a file of the folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    assert_eq!(tested, files);
}

/// One example that runs. It is killed when dropped.
struct Run {
    name: String,
    child: Child,
    folder: PathBuf,
}

impl Run {
    fn start(name: &str, server: Option<&Server>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("rillkit-example-{}-{number}", process::id()));
        // A process that was killed may have left one of this name.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder for what it prints");
        let file = |name| File::create(folder.join(name)).expect("a file for what it prints");

        let mut command = Command::new(programs().join(name));
        for (variable, _) in env::vars_os() {
            let text = variable.to_string_lossy();
            if text.starts_with("REDIS_") || text.starts_with("RILLKIT_") {
                command.env_remove(&variable);
            }
        }
        if let Some(server) = server {
            command.env("REDIS_URL", server.url());
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .expect("an example can be started");
        Self {
            name: name.to_owned(),
            child,
            folder,
        }
    }

    fn has_ended(&mut self) -> bool {
        let ended = self.child.try_wait().expect("a child can be asked");
        ended.is_some()
    }

    fn output(&self) -> String {
        fs::read_to_string(self.folder.join("stdout")).expect("what it printed is UTF-8")
    }

    /// It ends by itself, well, and with the output that is expected.
    #[track_caller]
    fn ends_with_its_output(mut self) {
        wait_until("the example has ended", || self.has_ended());
        let status = self.child.wait().expect("a child can be waited for");
        let (printed, expected) = (self.output(), expected(&self.name));
        let log = fs::read_to_string(self.folder.join("stderr")).unwrap_or_default();
        assert!(
            status.success() && same(&printed, &expected),
            "the example {} ended with {status}\n-- printed\n{printed}\n-- expected\n{expected}\n-- log\n{log}",
            self.name
        );
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Both fail where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn expected(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("{name}.out"));
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Whether two outputs agree, word by word, but for ids and times.
fn same(printed: &str, expected: &str) -> bool {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let (printed, expected) = (printed.split('\n'), expected.split('\n'));
    printed.clone().count() == expected.clone().count()
        && printed.zip(expected).all(|(printed, expected)| {
            let (printed, expected) = (words(printed), words(expected));
            printed.len() == expected.len()
                && (0..printed.len()).all(|at| {
                    printed[at] == expected[at]
                        || (is_id(&printed[at]) && is_id(&expected[at]))
                        || expected.get(at + 1).is_some_and(|unit| unit == "s")
                            && is_later(&printed[at], &expected[at])
                })
        })
}

fn is_id(word: &str) -> bool {
    word.split_once('-')
        .is_some_and(|(ms, seq)| ms.parse::<u64>().is_ok() && seq.parse::<u64>().is_ok())
}

fn is_later(printed: &str, expected: &str) -> bool {
    match (printed.parse::<f64>(), expected.parse::<f64>()) {
        (Ok(printed), Ok(expected)) => (expected..expected + LATE).contains(&printed),
        _ => false,
    }
}

#[test]
fn ids_and_times_are_masked_and_nothing_else() {
    let text = "a 1764543210123-0\nafter 0.3 s";
    assert!(same(text, text));
    assert!(same("a 5-1\nafter 0.4 s", text));
    assert!(!same("a 5-1\nafter 0.2 s", text));
    assert!(!same("a 5-1\nafter 4.3 s", text));
    assert!(!same("a b\nafter 0.3 s", text));
    assert!(!same("a  5-1\nafter 0.3 s", text));
    assert!(!same("a 5-1\nafter 0.3 s\n", text));
    assert!(!same("b 2", "b 1"));
}

/// Where the programs are, built as this test was; there is nothing to do when they are up to date.
fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let test = env::current_exe().expect("the path of this test");
        let profile = test
            .ancestors()
            .nth(2)
            .expect("the folder of the build's profile");
        let target = profile.parent().expect("the target folder");
        let mut build = Command::new(env!("CARGO"));
        build
            .args(["build", "--workspace", "--all-features", "--examples"])
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        // What cargo tells this test about its package would make build scripts run again.
        for (variable, _) in env::vars_os() {
            let text = variable.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                build.env_remove(&variable);
            }
        }
        if profile.ends_with("release") {
            build.arg("--release");
        }
        let built = build.output().expect("cargo can be started");
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "the examples do not build:\n{said}");
        profile.join("examples")
    })
}
