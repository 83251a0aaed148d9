//! The tools for dead letters: count them, look at them, mend one, work some off, move the rest back.

use std::sync::atomic::{AtomicBool, Ordering};

use rillkit::dlq::{Filter, Letter};
use rillkit::{Broker, HandlerError, Stream, subscribe};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
    pieces: u32,
}

const ORDERS: Stream<Order> = Stream::new("orders");

static OPEN: AtomicBool = AtomicBool::new(false);

#[subscribe(stream = ORDERS, group = "shipping", max_retries = 0)]
async fn ship(order: Order) -> Result<(), HandlerError> {
    if order.pieces == 0 {
        return Err(HandlerError::reject("nothing to ship"));
    }
    if !OPEN.load(Ordering::Relaxed) {
        return Err(format!("order {}: the warehouse is closed", order.number).into());
    }
    println!("order {}: {} shipped", order.number, order.pieces);
    Ok(())
}

/// Does by other means what the handler could not.
async fn apologize(letter: Letter) -> anyhow::Result<()> {
    let order: Order = letter.body()?;
    anyhow::ensure!(order.number != 2, "order 2 needs a person");
    println!("order {}: we are sorry", order.number);
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let broker = Broker::from_env_or("memory://")?;
    eprintln!("store: {broker}");
    let running = broker.start().await?;
    for (number, pieces) in [(1, 0), (2, 0), (3, 0), (4, 3), (5, 8)] {
        broker.publish(ORDERS, &Order { number, pieces }).await?;
    }
    running.drained().await?;

    let dlq = broker.dlq(ORDERS);
    let stats = dlq.stats().await?;
    println!("{} dead letters", stats.count);
    for (error, count) in &stats.by_error {
        println!("  {count} x {error}");
    }

    let rejected = Filter::new().reason("rejected");
    let page = dlq.list().matching(rejected.clone()).count(2).await?;
    for letter in &page.letters {
        let order: Order = letter.body()?;
        println!("order {}: {}", order.number, letter.error().unwrap_or("?"));
    }

    println!("-- one is mended");
    let mended = Order {
        number: 1,
        pieces: 1,
    };
    OPEN.store(true, Ordering::Relaxed);
    dlq.edit(page.letters[0].id(), &mended).await?;
    running.drained().await?;

    println!("-- the others of its kind are worked off in place");
    let report = dlq.reprocess(apologize).matching(rejected.clone()).await?;
    println!("{} done, {} left as they were", report.done, report.failed);

    println!("-- what the closed warehouse kept is moved back");
    let closed = Filter::new().error_contains("closed");
    let would_be = dlq.replay().matching(closed.clone()).dry_run().await?;
    println!("{} would be moved", would_be.moved);
    let replay = dlq.replay().matching(closed).rate(100.0);
    let report = replay.at_most_replays(3).stop_when_failing(0.2).await?;
    running.drained().await?;
    println!("{} moved, {} put aside", report.moved, report.parked);

    let report = dlq.purge().matching(rejected).await?;
    println!("{} deleted, {} left", report.deleted, dlq.len().await?);
    running.stop().await;
    Ok(())
}
