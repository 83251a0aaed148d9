//! One running server of the chosen flavour.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::wait::PATIENCE;
use crate::{Client, Flavour, Reply, orphan, port, wait_until};

/// A server on a free loopback port that keeps nothing on disk. It is killed when dropped, and when the
/// process that started it ends in whatever way.
#[derive(Debug)]
pub struct Server {
    arguments: Vec<String>,
    port: u16,
    directory: Directory,
    child: Mutex<Option<Child>>,
}

/// How a start ended.
enum Start {
    Answers(Child),
    PortTaken,
}

impl Server {
    /// Starts a server of the [chosen](Flavour::chosen) flavour and returns once it answers.
    ///
    /// # Panics
    /// When its program is missing (the message names the script that installs it) or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with more arguments, such as `["--requirepass", "secret"]`. They win over those that
    /// every server gets: `--bind 127.0.0.1 --save "" --appendonly no` and a directory of its own.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn with(arguments: &[&str]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|&part| part.into()).collect();
        let directory = Directory::new();
        for _ in 0..100 {
            let port = port::free();
            if let Start::Answers(child) = launch(port, &directory.0, &arguments) {
                return Self {
                    arguments,
                    port,
                    directory,
                    child: Mutex::new(Some(child)),
                };
            }
        }
        panic!("lost 100 races for a free port")
    }

    /// Starts a replica of `master`, which has no password, and returns once it is in step.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn replica_of(master: &Self) -> Self {
        master.command(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
        let port = master.port.to_string();
        let replica = Self::with(&["--replicaof", "127.0.0.1", &port]);
        let online = format!("port={},state=online", replica.port);
        wait_until("the replica is in step", || {
            let info = master.command(&["INFO", "replication"]).text();
            info.contains(&online)
        });
        replica
    }

    /// The flavour that servers are started of.
    #[must_use]
    pub fn flavour() -> Flavour {
        Flavour::chosen()
    }

    /// The version that the server's program states, such as `[7, 0, 15]`.
    #[must_use]
    pub fn version() -> [u32; 3] {
        Flavour::program().version
    }

    /// `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port, the same after a [`restart`](Self::restart).
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's own directory, where a relative `--unixsocket` is made. It goes when the server is dropped.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory.0
    }

    /// The process id.
    ///
    /// # Panics
    /// When the server is stopped.
    #[must_use]
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.child()
            .as_ref()
            .expect("the server was stopped; `restart` starts it again")
            .id()
    }

    /// Kills the server, so that connecting to its port is refused. What it held is gone, unless it was
    /// started with `--appendonly yes`.
    pub fn stop(&self) {
        if let Some(mut child) = self.child().take() {
            child.kill().expect("a child can be killed");
            child.wait().expect("a child can be waited for");
        }
    }

    /// Stops the server if it runs, and starts it on the same port with the same arguments.
    ///
    /// # Panics
    /// When it does not start again.
    pub fn restart(&self) {
        self.stop();
        match launch(self.port, &self.directory.0, &self.arguments) {
            Start::Answers(child) => *self.child() = Some(child),
            Start::PortTaken => panic!("port {} was taken during the restart", self.port),
        }
    }

    /// Stops the server's clock: it keeps its connections and port, and answers nothing until the
    /// [`thaw`](Self::thaw).
    ///
    /// # Panics
    /// When the server is stopped.
    pub fn freeze(&self) {
        let pid = self.pid();
        signal("STOP", pid);
        wait_until("the server has frozen", || is_stopped(pid));
    }

    /// Lets a frozen server go on.
    ///
    /// # Panics
    /// When the server is stopped.
    pub fn thaw(&self) {
        signal("CONT", self.pid());
    }

    /// A new connection, authenticated where the server was started with `--requirepass`.
    ///
    /// # Panics
    /// When the server does not accept it.
    #[must_use]
    #[track_caller]
    pub fn connect(&self) -> Client {
        match connect(self.port, &self.arguments) {
            Some(client) => client,
            None => panic!("the server on port {} accepts no connection", self.port),
        }
    }

    /// Asks the server itself, on a new connection.
    ///
    /// # Panics
    /// When the server does not answer. What it refuses is a [`Reply::Error`].
    #[track_caller]
    pub fn command<A: AsRef<[u8]>>(&self, arguments: &[A]) -> Reply {
        match self.connect().command(arguments) {
            Ok(reply) => reply,
            Err(error) => panic!("the server on port {} did not answer: {error}", self.port),
        }
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A directory that goes when this value goes.
#[derive(Debug)]
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "rillkit-server-{}-{}",
            process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = env::temp_dir().join(name);
        // A process that was killed may have left one of this name.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path)
            .unwrap_or_else(|error| panic!("cannot create the directory {path:?}: {error}"));
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The system's own cleaning takes what this one misses.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Starts the program and waits until it answers, or until it has ended because the port is taken.
fn launch(port: u16, directory: &Path, arguments: &[String]) -> Start {
    let log = directory.join("server.log");
    let output = File::create(&log).expect("the server's directory can be written");
    let errors = output.try_clone().expect("a file can be opened twice");
    let mut command = orphan::command(&Flavour::program().path);
    if arguments.iter().any(|argument| argument == "--sentinel") {
        // A sentinel writes what it knows into its configuration, and takes no settings of data.
        let configuration = directory.join("sentinel.conf");
        File::create(&configuration).expect("the server's directory can be written");
        command.arg(configuration);
    } else {
        command.args(["--save", "", "--appendonly", "no"]);
    }
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"])
        .arg(directory)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    let mut child = orphan::spawn(command).expect("a program that told its version can be started");
    let said = || fs::read_to_string(&log).unwrap_or_default();

    let deadline = Instant::now() + PATIENCE;
    while !answers(port, arguments, child.id()) {
        if child.try_wait().expect("a child can be asked").is_some() {
            let said = said();
            if said.contains("Address already in use") {
                return Start::PortTaken;
            }
            panic!("the server ended at its start; it said:\n{said}");
        }
        if Instant::now() > deadline {
            // Nobody else will: the caller never sees this child.
            let _ = child.kill();
            let _ = child.wait();
            panic!(
                "the server did not answer within {PATIENCE:?}; it said:\n{}",
                said()
            );
        }
        thread::sleep(Duration::from_millis(2));
    }
    Start::Answers(child)
}

/// Whether the server on `port` is ready, and is ours rather than one that won the race for the port.
fn answers(port: u16, arguments: &[String], pid: u32) -> bool {
    let Some(mut client) = connect(port, arguments) else {
        return false;
    };
    if !matches!(client.command(&["PING"]), Ok(Reply::Text(text)) if text == b"PONG") {
        return false;
    }
    let own = format!("process_id:{pid}\r\n");
    matches!(client.command(&["INFO", "server"]), Ok(Reply::Text(text))
        if String::from_utf8_lossy(&text).contains(&own))
}

fn connect(port: u16, arguments: &[String]) -> Option<Client> {
    let mut client = Client::connect(port).ok()?;
    let password = arguments
        .iter()
        .skip_while(|argument| *argument != "--requirepass")
        .nth(1);
    if let Some(password) = password {
        client.command(&["AUTH", password]).ok()?;
    }
    Some(client)
}

/// The shell's own `kill`, which is everywhere; the program of that name is not.
fn signal(name: &str, pid: u32) {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{name} {pid}")])
        .status()
        .expect("a shell can be started");
    assert!(status.success(), "process {pid} takes no signal {name}");
}

/// Whether the process takes no more steps; a signal is sent before it has its effect. Without `/proc` it is
/// taken to be so.
fn is_stopped(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat
            .rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('T')),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::time::Duration;

    use super::Server;
    use crate::{Client, Reply, wait_until};

    #[test]
    fn a_server_answers_as_soon_as_it_is_there() {
        let server = Server::start();
        assert_eq!(server.command(&["PING"]).text(), "PONG");
        assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
        assert!(server.directory().is_dir());
    }

    #[test]
    fn it_is_of_the_stated_version() {
        let server = Server::start();
        let info = server.command(&["INFO", "server"]).text();
        let [major, minor, patch] = Server::version();
        assert!(
            info.contains(&format!("_version:{major}.{minor}.{patch}\r\n")),
            "{info}"
        );
    }

    #[test]
    fn servers_run_side_by_side_and_share_nothing() {
        let (one, other) = (Server::start(), Server::start());
        one.command(&["SET", "key", "value"]);
        assert_eq!(one.command(&["GET", "key"]).text(), "value");
        assert!(other.command(&["GET", "key"]).is_nil());
    }

    #[test]
    fn the_pending_list_is_the_servers_own_word() {
        let server = Server::start();
        server.command(&["XGROUP", "CREATE", "jobs", "workers", "0", "MKSTREAM"]);
        let id = server.command(&["XADD", "jobs", "*", "data", "{}"]).text();
        let read = [
            "XREADGROUP",
            "GROUP",
            "workers",
            "me",
            "STREAMS",
            "jobs",
            ">",
        ];
        assert_eq!(server.command(&read)[0][1][0][0].text(), id);

        let pending = server.command(&["XPENDING", "jobs", "workers"]);
        assert_eq!(pending[0].int(), 1);
        assert_eq!(pending[3][0][0].text(), "me");
        assert!(server.command(&read).is_nil());
    }

    #[test]
    fn bytes_stay_bytes() {
        let server = Server::start();
        let value = [0, 255, b'\r', b'\n'];
        server.command(&[b"SET".as_slice(), b"key", &value]);
        assert_eq!(server.command(&["GET", "key"]), Reply::Text(value.into()));
    }

    #[test]
    fn a_refusal_is_a_reply() {
        let server = Server::start();
        assert!(server.command(&["NONSENSE"]).error().starts_with("ERR "));
    }

    #[test]
    fn a_password_is_asked_of_others_and_given_by_us() {
        let server = Server::with(&["--requirepass", "secret"]);
        assert_eq!(server.command(&["PING"]).text(), "PONG");
        let mut stranger = Client::connect(server.port()).unwrap();
        let refusal = stranger.command(&["PING"]).unwrap().error();
        assert!(refusal.starts_with("NOAUTH"), "{refusal}");
    }

    #[test]
    #[should_panic(expected = "the server ended at its start; it said:")]
    fn wrong_arguments_end_the_start() {
        let _ = Server::with(&["--no-such-setting", "1"]);
    }

    #[test]
    fn a_restart_keeps_the_port_and_forgets_the_data() {
        let server = Server::start();
        let (port, pid) = (server.port(), server.pid());
        server.command(&["SET", "key", "value"]);
        server.restart();
        assert_eq!(server.port(), port);
        assert_ne!(server.pid(), pid);
        assert!(server.command(&["GET", "key"]).is_nil());
    }

    #[test]
    fn with_an_append_only_file_a_restart_forgets_nothing() {
        let server = Server::with(&["--appendonly", "yes"]);
        server.command(&["SET", "key", "value"]);
        server.restart();
        assert_eq!(server.command(&["GET", "key"]).text(), "value");
    }

    #[test]
    fn a_stopped_server_refuses_connections() {
        let server = Server::start();
        server.stop();
        let error = Client::connect(server.port()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        server.stop();
        server.restart();
        assert_eq!(server.command(&["PING"]).text(), "PONG");
    }

    #[test]
    fn a_frozen_server_is_silent_until_it_is_thawed() {
        let server = Server::start();
        let mut client = server.connect();
        server.freeze();
        client.set_patience(Duration::from_millis(50)).unwrap();
        let error = client.command(&["PING"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        server.thaw();
        client.set_patience(Duration::from_secs(10)).unwrap();
        assert_eq!(client.receive().unwrap().text(), "PONG");
    }

    #[test]
    fn a_frozen_server_can_be_stopped() {
        let server = Server::start();
        server.freeze();
        server.stop();
        assert!(Client::connect(server.port()).is_err());
    }

    #[test]
    fn a_dropped_server_leaves_nothing() {
        let server = Server::start();
        let (port, directory) = (server.port(), server.directory().to_owned());
        drop(server);
        assert!(Client::connect(port).is_err());
        assert!(!directory.exists());
    }

    #[test]
    fn a_server_outlives_the_thread_that_started_it() {
        let server = std::thread::spawn(Server::start).join().unwrap();
        wait_until("the server answers", || {
            server.command(&["PING"]).text() == "PONG"
        });
    }
}
