//! Runs the scripts that stand beside this file, with a Python that has redis-py.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde_json::Value;

/// A script that runs. It ends with the test.
pub(crate) struct Script {
    child: Child,
    said: Arc<Mutex<Vec<Value>>>,
    reader: Option<JoinHandle<()>>,
}

impl Script {
    pub(crate) fn start(name: &str, arguments: &[&str]) -> Self {
        let script = root().join("tests/tests/python").join(name);
        let mut child = Command::new(&*PYTHON)
            .arg("-B")
            .arg(script)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python can be started");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let said: Arc<Mutex<Vec<Value>>> = Arc::default();
        let hears = Arc::clone(&said);
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let value = serde_json::from_str(&line).expect("a line of JSON");
                lock(&hears).push(value);
            }
        });
        Self {
            child,
            said,
            reader: Some(reader),
        }
    }

    /// Runs it to its end; what it said.
    pub(crate) fn run(name: &str, arguments: &[&str]) -> Vec<Value> {
        Self::start(name, arguments).end()
    }

    /// Waits for its end; what it said.
    pub(crate) fn end(mut self) -> Vec<Value> {
        // Kept open until then: the script ends when it is closed.
        let input = self.child.stdin.take();
        let reader = self.reader.take().expect("not ended before");
        reader.join().expect("every line is JSON");
        let status = self.child.wait().expect("it can be waited for");
        drop(input);
        assert!(status.success(), "the script failed: {status}");
        self.said()
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> Vec<Value> {
        lock(&self.said).clone()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first that has redis-py.
static PYTHON: LazyLock<PathBuf> = LazyLock::new(|| {
    let own = root().join(".python/bin/python");
    let known = [own, "python3".into(), "/usr/bin/python3".into()];
    let found = known.into_iter().find(|python| {
        let mut import = Command::new(python);
        import
            .args(["-c", "from redis import Redis"])
            .stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    });
    found.expect("a Python with redis-py; `scripts/python` installs one")
});

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
