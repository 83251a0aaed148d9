//! What a dead letter tells of every delivery that failed: which one, why, and the errors behind the
//! error.

use anyhow::Context;
use rillkit::{Broker, FailedDelivery, Message, subscribe};

#[subscribe(
    stream = "payments",
    group = "cashiers",
    max_retries = 2,
    claim_idle_ms = 100,
    timeout_ms = 50
)]
async fn charge(_amount: u32, msg: Message) -> anyhow::Result<()> {
    match msg.deliveries() {
        1 => Err(std::io::Error::other("connection refused"))
            .context("the bank cannot be reached")
            .context("nothing was charged"),
        2 => std::future::pending().await,
        _ => anyhow::bail!("the card has expired"),
    }
}

#[subscribe(stream = "payments-dlq", group = "support")]
async fn explain(amount: u32, msg: Message) {
    println!("a payment of {amount} is dead");
    for failed in FailedDelivery::all_in(msg.fields()) {
        let (number, reason) = (failed.number(), failed.reason());
        println!("  delivery {number}, {reason}: {}", failed.error());
        for cause in failed.chain() {
            println!("    because {cause}");
        }
        eprintln!(
            "  on {}, from {} to {}",
            failed.consumer(),
            failed.began_ms(),
            failed.ended_ms()
        );
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
    broker.publish("payments", &12).await?;
    running.drained().await?;
    running.stop().await;
    Ok(())
}
