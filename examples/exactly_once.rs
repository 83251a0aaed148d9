//! Commands that are applied together with the ack: once for each message, however often it runs.

use rillkit::{Broker, HandlerError, Message, Tx, subscribe};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Payment {
    account: String,
    cents: i64,
}

#[subscribe(stream = "payments", group = "ledger", claim_idle_ms = 300)]
async fn book(payment: Payment, msg: Message, tx: Tx) -> Result<(), HandlerError> {
    tx.hincr_by("balances", &payment.account, payment.cents);
    tx.publish("receipts", &payment.account)?;
    // Nothing of that has happened yet: a run that fails here leaves no trace in Redis.
    if payment.account == "bob" && !msg.is_redelivery() {
        println!(
            "{}: {} cents, and then it fails",
            payment.account, payment.cents
        );
        return Err("no connection to the bank".into());
    }
    println!("{}: {} cents", payment.account, payment.cents);
    Ok(())
}

#[subscribe(stream = "receipts", group = "printers")]
async fn print(account: String) {
    println!("a receipt for {account}");
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let broker = Broker::from_env_or("memory://")?;
    eprintln!("store: {broker}");
    let running = broker.start().await?;

    for (account, cents) in [("bob", 300), ("ann", 500), ("ann", -200)] {
        let account = account.to_owned();
        let payment = Payment { account, cents };
        broker.publish("payments", &payment).await?;
        running.drained().await?;
    }
    println!("balances: {}", broker.peek("balances").await?.join(" "));
    running.stop().await;
    Ok(())
}
