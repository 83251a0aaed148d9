//! The worker process: it does to each message what the plan says, and reports each run on its standard output,
//! `start STREAM ID NUMBER DELIVERY MICROSECONDS` and `end ..` with how it ended.

use std::future::pending;
use std::io::{self, Read, Write};
use std::process::{ExitCode, abort};
use std::thread;
use std::time::Duration;

use rillkit::{Broker, HandlerError, Message, subscribe};
use serde::{Deserialize, Serialize};

use crate::ledger::now;
use crate::plan::{Fate, fate, length};

/// The body of every message that can be decoded.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Body {
    pub(crate) number: u64,
}

#[subscribe(
    stream = "quick",
    group = "workers",
    claim_idle_ms = 1500,
    concurrency = 8
)]
async fn quick(body: Body, msg: Message) -> Result<(), HandlerError> {
    run(&body, &msg).await
}

#[subscribe(
    stream = "retried",
    group = "workers",
    max_retries = 4,
    claim_idle_ms = 600,
    backoff = 2.0,
    max_backoff_ms = 3000,
    timeout_ms = 300,
    concurrency = 4
)]
async fn retried(body: Body, msg: Message) -> Result<(), HandlerError> {
    run(&body, &msg).await
}

#[subscribe(
    stream = "once",
    group = "workers",
    max_retries = 0,
    claim_idle_ms = 1000,
    concurrency = 2
)]
async fn once(body: Body, msg: Message) -> Result<(), HandlerError> {
    run(&body, &msg).await
}

#[subscribe(
    stream = "slow",
    group = "workers",
    max_retries = None,
    claim_idle_ms = 1000,
    concurrency = 2
)]
async fn slow(body: Body, msg: Message) -> Result<(), HandlerError> {
    run(&body, &msg).await
}

#[subscribe(
    stream = "first",
    group = "workers",
    claim_idle_ms = 1000,
    ack_policy = ack_first
)]
async fn first(body: Body, msg: Message) -> Result<(), HandlerError> {
    run(&body, &msg).await
}

async fn run(body: &Body, msg: &Message) -> Result<(), HandlerError> {
    let mut report = Report::start(body, msg);
    tokio::time::sleep(length(msg.stream(), body.number)).await;
    let (how, result) = match fate(msg.stream(), body.number, msg.deliveries()) {
        Fate::Good => ("good", Ok(())),
        Fate::Err => ("failed", Err("bad input".into())),
        Fate::Reject => ("failed", Err(HandlerError::reject("no use"))),
        Fate::Panic => panic!("oh no"),
        Fate::Timeout => pending().await,
        Fate::Decode => ("failed", Err("it should not have been decoded".into())),
    };
    report.how = how;
    result
}

/// Says the start of a run, and how it ended, also when it is dropped.
struct Report {
    run: String,
    how: &'static str,
}

impl Report {
    fn start(body: &Body, msg: &Message) -> Self {
        let (stream, id, number) = (msg.stream(), msg.id(), body.number);
        let run = format!("{stream} {id} {number} {}", msg.deliveries());
        say(&format!("start {run} {}", now()));
        Self {
            run,
            how: "dropped",
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let how = if thread::panicking() {
            "failed"
        } else {
            self.how
        };
        say(&format!("end {} {} {how}", self.run, now()));
    }
}

/// In one piece: whoever reads it has it when this process dies the next moment.
fn say(line: &str) {
    let mut output = io::stdout().lock();
    // The reader is gone when the whole run is given up.
    let _ = output.write_all(format!("{line}\n").as_bytes());
}

/// Works until SIGTERM, or until whoever started it is gone.
pub(crate) fn main() -> ExitCode {
    thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        abort();
    });
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let ended = runtime.block_on(async {
        let broker = Broker::from_env()?;
        // Shorter than a slow run, so that a stop drops some.
        broker.grace(Duration::from_millis(1000)).run().await
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
