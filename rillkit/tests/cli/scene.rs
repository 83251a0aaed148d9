//! A server, and runs of the program on it.

use std::io::Write;
use std::process::{Command, Stdio};

use rillkit_servers::Server;
use serde_json::Value;

pub(crate) struct Scene {
    pub(crate) server: Server,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self {
            server: Server::start(),
        }
    }

    /// The program on this server, with nothing else from the environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(arguments);
        command.env("REDIS_URL", self.server.url());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        ran(&mut self.command(arguments), "")
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        ran(&mut self.command(arguments), input)
    }

    /// What a run that ends well prints, as JSON.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["--json"]].concat();
        self.run(&arguments).document()
    }

    /// What a run that ends well prints.
    #[track_caller]
    pub(crate) fn text(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    }

    /// Adds an entry, and gives back its id.
    pub(crate) fn add(&self, stream: &str, data: &str) -> String {
        let add = ["XADD", stream, "*", "data", data];
        self.server.command(&add).text()
    }

    /// A group of this stream from its beginning, and what this consumer reads for it.
    pub(crate) fn read(&self, stream: &str, group: &str, consumer: &str, count: &str) {
        let create = ["XGROUP", "CREATE", stream, group, "0", "MKSTREAM"];
        self.server.connect().command(&create).expect("an answer");
        let read = [
            "XREADGROUP",
            "GROUP",
            group,
            consumer,
            "COUNT",
            count,
            "STREAMS",
            stream,
            ">",
        ];
        self.server.command(&read);
    }
}

impl Ran {
    #[track_caller]
    pub(crate) fn document(&self) -> Value {
        assert!(self.code == 0 || self.code == 4, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}

pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rillkit"));
    command.env_clear().args(arguments);
    command
}

pub(crate) fn ran(command: &mut Command, input: &str) -> Ran {
    let pipes = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = pipes.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // One that does not read its input may have ended by now.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("the program ends");
    Ran {
        code: output.status.code().expect("an exit code"),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}
