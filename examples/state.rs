//! What handlers share: a value given to the broker, which a handler asks for by its type.

use std::collections::HashMap;
use std::sync::Mutex;

use anyhow::Context;
use rillkit::{Broker, State, subscribe};

struct Stock {
    pieces: Mutex<HashMap<String, u32>>,
}

/// The start fails when a handler asks for a state that nobody provided.
#[subscribe(stream = "deliveries", group = "warehouse")]
async fn store(item: String, stock: State<Stock>) -> anyhow::Result<()> {
    let mut pieces = stock.pieces.lock().expect("nobody panics");
    let known = pieces
        .get_mut(&item)
        .with_context(|| format!("no place for {item}"))?;
    *known += 1;
    println!("{item}: {known}");
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let shelves = [("chair".to_owned(), 0), ("table".to_owned(), 7)];
    let stock = Stock {
        pieces: Mutex::new(HashMap::from(shelves)),
    };
    let broker = Broker::from_env_or("memory://")?.with_state(stock);
    eprintln!("store: {broker}");
    let running = broker.start().await?;

    let bodies = ["chair", "table", "chair"];
    broker.publish_all("deliveries", bodies).await?;
    running.drained().await?;
    running.stop().await;
    Ok(())
}
