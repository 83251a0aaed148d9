//! Worker processes, to be killed, frozen and stopped.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rillkit_servers::wait_until;

use crate::place::Place;

/// A running worker process; killed when dropped.
pub(crate) struct Process {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts a worker of one stream.
    pub(crate) fn start(place: &Place, stream: &str) -> Self {
        Self::with(place, stream, &[])
    }

    /// The same with more variables in its environment.
    pub(crate) fn with(place: &Place, stream: &str, variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_worker"))
            .env("REDIS_URL", &place.url)
            .env("RILLKIT_ONLY", stream)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the worker can be started");
        let said = Arc::new(Mutex::new(Vec::new()));
        let (lines, output) = (Arc::clone(&said), child.stdout.take().expect("a pipe"));
        let reader = thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                lines.lock().expect("never poisoned").push(line);
            }
        });
        Self {
            child,
            said,
            reader: Some(reader),
        }
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().expect("never poisoned").clone()
    }

    pub(crate) fn has_said(&self, line: &str) -> bool {
        self.said().iter().any(|said| said == line)
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, line: &str) {
        wait_until(&format!("the worker says `{line}`"), || self.has_said(line));
    }

    /// Waits until a line holds these words.
    #[track_caller]
    pub(crate) fn wait_for_words(&self, words: &str) {
        wait_until(&format!("the worker says `{words}`"), || {
            self.said().iter().any(|said| said.contains(words))
        });
    }

    /// The jobs that it started, with their deliveries.
    pub(crate) fn started(&self) -> Vec<(String, u64)> {
        self.lines("start ")
    }

    /// The jobs that it ended, with their deliveries.
    pub(crate) fn ended(&self) -> Vec<(String, u64)> {
        self.lines("end ")
    }

    fn lines(&self, kind: &str) -> Vec<(String, u64)> {
        let parse = |line: &String| {
            let (name, delivery) = line.strip_prefix(kind)?.rsplit_once(' ')?;
            Some((name.to_owned(), delivery.parse().ok()?))
        };
        self.said().iter().filter_map(parse).collect()
    }

    /// Sends a signal, by the shell's own `kill`.
    pub(crate) fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &command]).status();
        assert!(status.expect("a shell").success(), "{command}");
    }

    /// Stops its clock until it is sent `CONT`.
    pub(crate) fn freeze(&self) {
        self.signal("STOP");
        // A signal is sent before it has its effect. Where there is no `/proc` that is not to be seen.
        let tasks = format!("/proc/{}/task", self.child.id());
        wait_until("every thread of the worker has stopped", || {
            let threads = fs::read_dir(&tasks).into_iter().flatten().flatten();
            let mut states = threads.map(|thread| fs::read_to_string(thread.path().join("stat")));
            states.all(|state| state.is_ok_and(|state| state.contains(") T ")))
        });
    }

    /// Its memory in kilobytes; nothing where there is no `/proc`.
    pub(crate) fn resident(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
        number.map_or(0, |number| number.parse().expect("a number"))
    }

    /// `kill -9`; what it said is complete afterwards.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.wait();
    }

    /// Waits until it has ended.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the worker has ended", || {
            status = self.child.try_wait().expect("a child can be asked");
            status.is_some()
        });
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader never panics");
        }
        status.expect("it has ended")
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        let status = self.child.try_wait().expect("a child can be asked");
        status.is_some()
    }

    /// Waits until it has ended; what it said about its error.
    pub(crate) fn error(&mut self) -> String {
        let status = self.wait();
        assert!(!status.success(), "it ended well");
        self.errors()
    }

    /// What it wrote to its standard error; it must have ended.
    pub(crate) fn errors(&mut self) -> String {
        let mut error = String::new();
        let mut pipe = self.child.stderr.take().expect("a pipe");
        pipe.read_to_string(&mut error).expect("text");
        error
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
