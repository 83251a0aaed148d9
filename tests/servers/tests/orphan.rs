//! A server ends with the process that started it, however that one ends.

#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rillkit_servers::{Client, wait_until};

/// A process that holds a server, and that server's port.
fn holder() -> (Child, u16) {
    let mut holder = Command::new(env!("CARGO_BIN_EXE_rillkit-servers"))
        // What is killed cannot remove its server's directory.
        .env("TMPDIR", env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was built with this test");
    let output = holder.stdout.take().expect("its output is piped");
    let url = BufReader::new(output)
        .lines()
        .next()
        .expect("it prints a line")
        .expect("the line is UTF-8");
    let (_, port) = url.rsplit_once(':').expect("the line is a URL");
    (holder, port.parse().expect("the URL ends with a port"))
}

#[test]
fn a_killed_process_leaves_no_server() {
    let (mut holder, port) = holder();
    assert!(Client::connect(port).is_ok());
    holder.kill().expect("a child can be killed");
    holder.wait().expect("a child can be waited for");
    wait_until("the server is gone", || Client::connect(port).is_err());
}

#[test]
fn a_process_that_ends_leaves_no_server() {
    let (mut holder, port) = holder();
    drop(holder.stdin.take());
    let status = holder.wait().expect("a child can be waited for");
    assert!(status.success());
    assert!(Client::connect(port).is_err());
}
