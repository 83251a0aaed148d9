//! A handler that takes ten times as long as its lease. The lease is renewed while it runs, so it
//! runs once, although a second worker waits for whatever is left alone too long.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rillkit::{Broker, Message, subscribe};

static RUNS: AtomicU32 = AtomicU32::new(0);

#[subscribe(stream = "videos", group = "encoders", claim_idle_ms = 300)]
async fn encode(video: String, msg: Message) {
    RUNS.fetch_add(1, Ordering::Relaxed);
    println!("{video} begins, delivery {}", msg.deliveries());
    tokio::time::sleep(Duration::from_secs(3)).await;
    println!("{video} ends");
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let broker = Broker::from_env_or("memory://")?;
    eprintln!("store: {broker}");
    let workers = [broker.start().await?, broker.start().await?];

    broker.publish("videos", "holiday.mov").await?;
    for worker in &workers {
        worker.drained().await?;
    }
    println!("runs: {}", RUNS.load(Ordering::Relaxed));
    for worker in workers {
        worker.stop().await;
    }
    Ok(())
}
