//! A stream that does not grow for ever: each publish may trim it, whatever was handled; a handler can
//! delete what it acks; and a safe trim removes what every group has handled and nothing else.

use rillkit::{Broker, Stream, handlers, subscribe};

/// Old readings are of no use, so that each publish drops all but the newest three.
const READINGS: Stream<u32> = Stream::new("readings").maxlen_exact(3);

/// The only group of its stream: nothing has to stay for others.
#[subscribe(stream = "mails", group = "senders", delete_on_ack = true)]
async fn send(mail: String) {
    println!("mail {mail} is sent");
}

/// No order may be lost.
const ORDERS: Stream<u32> = Stream::new("orders");

#[subscribe(stream = ORDERS, group = "shipping")]
async fn ship(order: u32) {
    println!("order {order} is shipped");
}

#[subscribe(stream = ORDERS, group = "accounts")]
async fn book(_order: u32) {}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let broker = Broker::from_env_or("memory://")?.with_handlers(handlers![send, ship, book]);
    eprintln!("store: {broker}");

    broker.publish_all(READINGS, &[1, 2, 3, 4, 5]).await?;
    let look = broker.trim(READINGS).dry_run().await?;
    println!("{} readings are left", look.left);

    let running = broker.clone().only(["send"]).start().await?;
    broker.publish_all("mails", ["a", "b"]).await?;
    running.drained().await?;
    let look = broker.trim("mails").dry_run().await?;
    println!("{} mails are left", look.left);
    running.stop().await;

    // Both groups have handled the first two orders, and only shipping the third.
    let running = broker.clone().only(["orders"]).start().await?;
    broker.publish_all(ORDERS, &[1, 2]).await?;
    running.drained().await?;
    running.stop().await;
    let running = broker.clone().only(["ship"]).start().await?;
    broker.publish(ORDERS, &3).await?;
    running.drained().await?;
    running.stop().await;

    let trimmed = broker.trim(ORDERS).await?;
    println!(
        "{} orders are removed, {} left",
        trimmed.removed, trimmed.left
    );
    for hold in &trimmed.holds {
        println!("{} has not handled: {}", hold.group, hold.reason);
    }
    let trimmed = broker.trim(ORDERS).ignoring(["accounts"]).await?;
    println!("without accounts {} more", trimmed.removed);
    Ok(())
}
