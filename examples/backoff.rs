//! Growing retry delays: 0.3 seconds at first, then twice as long each time.

use std::sync::Mutex;
use std::time::Instant;

use rillkit::{Broker, Message, subscribe};

static LAST_RUN: Mutex<Option<Instant>> = Mutex::new(None);

#[subscribe(
    stream = "calls",
    group = "callers",
    max_retries = 3,
    claim_idle_ms = 300,
    backoff = 2.0
)]
async fn call(_number: String, msg: Message) -> Result<(), &'static str> {
    let now = Instant::now();
    let last = LAST_RUN.lock().expect("nobody panics").replace(now);
    let gap = last.map_or(0.0, |last| (now - last).as_secs_f64());
    println!("delivery {} after {gap:.1} s", msg.deliveries());
    Err("nobody answers")
}

#[subscribe(stream = "calls-dlq", group = "support")]
async fn given_up(letter: Message) {
    let error = letter.fields().text("x-error").unwrap_or_default();
    let deliveries = letter.fields().text("x-deliveries").unwrap_or_default();
    println!("given up after {deliveries} deliveries: {error}");
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let broker = Broker::from_env_or("memory://")?;
    eprintln!("store: {broker}");
    let running = broker.start().await?;

    broker.publish("calls", "555-0100").await?;
    running.drained().await?;
    running.stop().await;
    Ok(())
}
