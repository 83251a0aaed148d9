//! The worker processes.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::ledger::{Ledger, Worker, now};

/// How long a worker may take to stop: the grace period, the last steps, and the machine's own time.
const STOP: Duration = Duration::from_secs(20);

/// Those that live, and the ledger that they report to.
pub(crate) struct Fleet {
    ledger: Arc<Mutex<Ledger>>,
    living: Vec<Process>,
    /// Told to stop, and not looked at since.
    stopping: Vec<(Process, Instant)>,
    pub(crate) complaints: Vec<String>,
}

struct Process {
    number: usize,
    child: Child,
    reader: JoinHandle<()>,
    thaws: Option<Instant>,
}

impl Fleet {
    pub(crate) fn new(ledger: Arc<Mutex<Ledger>>) -> Self {
        Self {
            ledger,
            living: Vec::new(),
            stopping: Vec::new(),
            complaints: Vec::new(),
        }
    }

    /// How many live that were not told to stop.
    pub(crate) fn size(&self) -> usize {
        self.living.len()
    }

    /// Starts a worker that goes this way to the server.
    pub(crate) fn start(&mut self, way: usize, url: &str) {
        let program = env::current_exe().expect("a program knows where it is");
        let mut child = Command::new(program)
            .arg("--worker")
            .env("REDIS_URL", url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Handlers that panic say so there.
            .stderr(Stdio::null())
            .spawn()
            .expect("a worker can be started");
        let number = self.note(|ledger| {
            ledger.workers.push(Worker {
                way,
                ..Worker::default()
            });
            ledger.workers.len() - 1
        });
        let (ledger, output) = (Arc::clone(&self.ledger), child.stdout.take());
        let reader = thread::spawn(move || {
            let output = BufReader::new(output.expect("a pipe"));
            for line in output.lines().map_while(Result::ok) {
                lock(&ledger).note(number, &line);
            }
        });
        self.living.push(Process {
            number,
            child,
            reader,
            thaws: None,
        });
    }

    /// `kill -9` of one of them.
    pub(crate) fn kill(&mut self, pick: usize) {
        if let Some(mut process) = self.take(pick) {
            process.child.kill().expect("a child can be killed");
            process.child.wait().expect("a child can be waited for");
            process.reader.join().expect("the reader never panics");
            self.note(|ledger| ledger.workers[process.number].killed = Some(now()));
        }
    }

    /// SIGTERM to one of them.
    pub(crate) fn stop(&mut self, pick: usize) {
        if let Some(process) = self.take(pick) {
            self.note(|ledger| ledger.workers[process.number].told_to_stop = Some(now()));
            signal("TERM", &process.child);
            self.stopping.push((process, Instant::now()));
        }
    }

    /// SIGSTOP to one of them, until `thaw` finds that it is over.
    pub(crate) fn freeze(&mut self, pick: usize, hold: Duration) {
        let size = self.living.len().max(1);
        let Some(process) = self.living.get_mut(pick % size) else {
            return;
        };
        if process.thaws.is_none() {
            let number = process.number;
            let began = now();
            signal("STOP", &process.child);
            process.thaws = Some(Instant::now() + hold);
            self.note(|ledger| ledger.workers[number].frozen.push((began, u64::MAX)));
        }
    }

    /// SIGCONT to those whose time has come, or to all; and a look at those that were told to stop.
    pub(crate) fn look(&mut self, thaw_all: bool) {
        let mut thawed = Vec::new();
        let stopping = self.stopping.iter_mut().map(|(process, _)| process);
        for process in self.living.iter_mut().chain(stopping) {
            let is_over = |at: &mut Instant| thaw_all || *at <= Instant::now();
            if process.thaws.take_if(is_over).is_some() {
                signal("CONT", &process.child);
                thawed.push(process.number);
            }
        }
        for number in thawed {
            self.note(|ledger| {
                let last = ledger.workers[number].frozen.last_mut();
                last.expect("it was frozen").1 = now();
            });
        }
        for (mut process, told) in std::mem::take(&mut self.stopping) {
            let number = process.number;
            match process.child.try_wait().expect("a child can be asked") {
                None if told.elapsed() < STOP || process.thaws.is_some() => {
                    self.stopping.push((process, told));
                    continue;
                }
                None => {
                    let late = format!("worker {number} has not stopped within {STOP:?}");
                    self.complaints.push(late);
                    process.child.kill().expect("a child can be killed");
                    process.child.wait().expect("a child can be waited for");
                }
                Some(status) if !status.success() => {
                    let bad = format!("worker {number} was told to stop and ended with {status}");
                    self.complaints.push(bad);
                }
                Some(_) => {}
            }
            process.reader.join().expect("the reader never panics");
            self.note(|ledger| ledger.workers[number].stopped = Some(now()));
        }
        for process in &mut self.living {
            if let Some(status) = process.child.try_wait().expect("a child can be asked") {
                let gone = format!("worker {} ended by itself: {status}", process.number);
                self.complaints.push(gone);
            }
        }
        self.living
            .retain_mut(|process| matches!(process.child.try_wait(), Ok(None)));
    }

    /// Stops all of them and waits until they have.
    pub(crate) fn stop_all(&mut self) {
        self.look(true);
        while self.size() > 0 {
            self.stop(0);
        }
        while !self.stopping.is_empty() {
            self.look(true);
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn take(&mut self, pick: usize) -> Option<Process> {
        let size = self.living.len();
        (size > 0).then(|| self.living.remove(pick % size))
    }

    fn note<T>(&self, note: impl FnOnce(&mut Ledger) -> T) -> T {
        note(&mut lock(&self.ledger))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let stopping = self.stopping.iter_mut().map(|(process, _)| process);
        for process in self.living.iter_mut().chain(stopping) {
            // It may have ended before.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

/// The ledger, also after a panic of somebody who held it.
pub(crate) fn lock(ledger: &Mutex<Ledger>) -> std::sync::MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shell's own `kill`, which is everywhere.
fn signal(name: &str, child: &Child) {
    let command = format!("kill -{name} {}", child.id());
    // It may have ended by itself, which is found out by the next look.
    let _ = Command::new("sh").args(["-c", &command]).status();
}
