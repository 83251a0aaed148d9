//! Child processes that cannot be orphaned: when this process ends, in whatever way, they are killed.

use std::ffi::OsStr;
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{LazyLock, Mutex};
use std::thread;

type Order = (Command, Sender<io::Result<Child>>);

/// The kernel ties a child to the **thread** that started it, and a test's thread ends with the test. So one
/// thread, which lasts as long as the process, starts them all.
static STARTER: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
    let (orders, incoming) = mpsc::channel::<Order>();
    thread::Builder::new()
        .name("rillkit-servers".into())
        .spawn(move || {
            for (mut command, answer) in incoming {
                // Whoever gave the order waits for the answer.
                let _ = answer.send(command.spawn());
            }
        })
        .expect("a thread can be started");
    Mutex::new(orders)
});

/// Whether the system has `setpriv` (util-linux), which asks the kernel for the kill. Without it a child
/// outlives a parent that is killed, but not one that panics.
static SETPRIV: LazyLock<bool> = LazyLock::new(|| {
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
});

/// A command that runs `program` under its own pid and dies with this process.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    if *SETPRIV {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program.as_ref());
        command
    } else {
        Command::new(program)
    }
}

/// Starts `command`, on the thread that its life is tied to.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    let (answer, answered) = mpsc::channel();
    STARTER
        .lock()
        .expect("nobody panics while holding this lock")
        .send((command, answer))
        .expect("the starting thread lasts as long as the process");
    answered
        .recv()
        .expect("the starting thread answers every order")
}
