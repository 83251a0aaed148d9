//! Retries, the dead-letter queue and its replay: one message is fine, one fails twice, one fails
//! until somebody mends the fault.

use std::sync::atomic::{AtomicBool, Ordering};

use rillkit::{Broker, Message, subscribe};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Job {
    name: String,
}

#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error("not yet")]
    NotYet,
    #[error("bad input")]
    BadInput,
}

static MENDED: AtomicBool = AtomicBool::new(false);

#[subscribe(
    stream = "jobs",
    group = "workers",
    max_retries = 2,
    claim_idle_ms = 300
)]
async fn run_job(job: Job, msg: Message) -> Result<(), JobError> {
    println!("{} runs, delivery {}", job.name, msg.deliveries());
    match job.name.as_str() {
        "flaky" if msg.deliveries() < 3 => Err(JobError::NotYet),
        "broken" if !MENDED.load(Ordering::Relaxed) => Err(JobError::BadInput),
        _ => Ok(()),
    }
}

/// The DLQ is a stream like any other: this handler sees each dead letter, and leaves it there.
#[subscribe(stream = "jobs-dlq", group = "support")]
async fn dead_letter(letter: Message) {
    println!("dead letter");
    for (name, value) in letter.fields().iter().take(6) {
        let (name, value) = (
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(value),
        );
        println!("  {name}: {value}");
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let broker = Broker::from_env_or("memory://")?;
    eprintln!("store: {broker}");
    let running = broker.start().await?;

    for name in ["ok", "flaky", "broken"].map(String::from) {
        broker.publish("jobs", &Job { name }).await?;
    }
    running.drained().await?;

    println!("the fault is mended");
    MENDED.store(true, Ordering::Relaxed);
    let replayed = broker.replay_dlq("jobs").await?;
    running.drained().await?;
    println!("replayed: {replayed}");
    println!("left in the DLQ: {}", broker.replay_dlq("jobs").await?);
    running.stop().await;
    Ok(())
}
