//! A publication with an id can be repeated: whoever does not know whether it arrived publishes it
//! again, and there is one message all the same.

use rillkit::{Broker, Message, Stream, subscribe};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
    pieces: u32,
}

const ORDERS: Stream<Order> = Stream::new("orders");

#[subscribe(stream = ORDERS, group = "shipping")]
async fn ship(order: Order, msg: Message) {
    let id = msg.fields().text("rk-id").unwrap_or_default();
    println!("{id}: {} shipped", order.pieces);
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let broker = Broker::from_env_or("memory://")?;
    eprintln!("store: {broker}");

    for number in [42, 43] {
        let order = Order { number, pieces: 3 };
        let id = format!("order-{number}");
        let first = broker.publish(ORDERS, &order).id(&id).await?;
        // As after a crash, or a request that the customer sent twice.
        let again = broker.publish(ORDERS, &order).id(&id).await?;
        println!("{id}: the same entry: {}", first == again);
    }
    let running = broker.start().await?;
    running.drained().await?;
    running.stop().await;
    Ok(())
}
