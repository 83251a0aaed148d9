//! Retries, the dead-letter queue and its replay: one message is fine, one fails twice, one fails
//! until somebody mends the fault.

use std::sync::atomic::{AtomicBool, Ordering};

use rillkit::{Broker, Message, Running, subscribe};
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

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let broker = Broker::from_env_or("memory://")?;
    let running: Running = broker.start().await?;
    for name in ["ok", "flaky", "broken"] {
        broker
            .publish(
                "jobs",
                &Job {
                    name: name.to_owned(),
                },
            )
            .await?;
    }
    running.drained().await?;

    MENDED.store(true, Ordering::Relaxed);
    println!(
        "the fault is mended, replayed: {}",
        broker.replay_dlq("jobs").await?
    );
    running.drained().await?;
    running.stop().await;
    Ok(())
}
