//! The four ack policies, each with a handler that fails.

use rillkit::{Broker, Message, subscribe};

fn fail(msg: &Message) -> Result<(), &'static str> {
    println!("  delivery {} fails", msg.deliveries());
    Err("no luck")
}

/// A failure is retried, and ends in the dead-letter queue.
#[subscribe(
    stream = "nack-on-error",
    group = "workers",
    dlq = "failed",
    ack_policy = nack_on_error,
    max_retries = 1,
    claim_idle_ms = 200
)]
async fn nack_on_error(msg: Message) -> Result<(), &'static str> {
    fail(&msg)
}

/// A failure is logged, and that is all.
#[subscribe(
    stream = "ack-always",
    group = "workers",
    dlq = "failed",
    ack_policy = ack_always
)]
async fn ack_always(msg: Message) -> Result<(), &'static str> {
    fail(&msg)
}

/// Acked before it runs: it never runs twice, and is lost if the process ends in the run.
#[subscribe(
    stream = "ack-first",
    group = "workers",
    dlq = "failed",
    ack_policy = ack_first
)]
async fn ack_first(msg: Message) -> Result<(), &'static str> {
    fail(&msg)
}

/// Only marks count: without one the message comes back, whatever the handler returns.
#[subscribe(
    stream = "manual",
    group = "workers",
    dlq = "failed",
    ack_policy = manual,
    max_retries = 1,
    claim_idle_ms = 200
)]
async fn manual(msg: Message) -> Result<(), &'static str> {
    if msg.is_redelivery() {
        println!("  delivery {} is marked as done", msg.deliveries());
        msg.ack();
        return Ok(());
    }
    fail(&msg)
}

#[subscribe(stream = "failed", group = "support")]
async fn dead_letter(letter: Message) {
    let error = letter.fields().text("x-error").unwrap_or_default();
    println!("  dead letter: {error}");
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let broker = Broker::from_env_or("memory://")?;
    eprintln!("store: {broker}");
    let running = broker.start().await?;

    for stream in ["nack-on-error", "ack-always", "ack-first", "manual"] {
        println!("{stream}");
        broker.publish(stream, "a body").await?;
        running.drained().await?;
    }
    running.stop().await;
    Ok(())
}
