//! A stop: what runs may end, what was not started is left to others as if it had never been read.

use rillkit::{Broker, Message, subscribe};
use tokio::sync::Notify;

static STARTED: Notify = Notify::const_new();
static GO_ON: Notify = Notify::const_new();

#[subscribe(stream = "reports", group = "printers")]
async fn print(report: String, msg: Message) {
    println!("{report} begins, delivery {}", msg.deliveries());
    STARTED.notify_one();
    GO_ON.notified().await;
    println!("{report} ends");
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let broker = Broker::from_env_or("memory://")?;
    eprintln!("store: {broker}");

    let old = broker.start().await?;
    broker.publish_all("reports", ["one", "two"]).await?;
    STARTED.notified().await;

    println!("the old worker is stopped");
    // The stop first, then what lets the handler end.
    tokio::join!(old.stop(), async { GO_ON.notify_one() });
    println!("the old worker has stopped");

    let new = broker.start().await?;
    STARTED.notified().await;
    GO_ON.notify_one();
    new.drained().await?;
    new.stop().await;
    Ok(())
}
