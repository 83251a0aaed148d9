//! A stream as a constant: publisher and handlers agree on the type of the bodies at compile time,
//! and on the name of the dead-letter stream.

use rillkit::{Broker, HandlerError, Message, Stream, subscribe};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
    pieces: u32,
}

const ORDERS: Stream<Order> = Stream::new("orders").dlq("orders-failed");

/// A dead letter keeps its body, so its stream carries the same type.
const FAILED: Stream<Order> = Stream::new("orders-failed");

#[subscribe(stream = ORDERS, group = "shipping")]
async fn ship(order: Order) -> Result<(), HandlerError> {
    if order.pieces == 0 {
        return Err(HandlerError::reject("nothing to ship"));
    }
    println!("order {}: {} shipped", order.number, order.pieces);
    Ok(())
}

#[subscribe(stream = FAILED, group = "support")]
async fn look_into(order: Order, msg: Message) {
    let error = msg.fields().text("x-error").unwrap_or_default();
    println!("order {} in {}: {error}", order.number, msg.stream());
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let broker = Broker::from_env_or("memory://")?;
    eprintln!("store: {broker}");
    let running = broker.start().await?;

    // Any other type than `&Order` would not compile.
    let order = |number, pieces| Order { number, pieces };
    broker.publish(ORDERS, &order(1, 3)).await?;
    let more = [order(2, 5), order(3, 0)];
    broker.publish_all(ORDERS, &more).await?;
    running.drained().await?;
    running.stop().await;
    Ok(())
}
