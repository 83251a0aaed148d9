//! One payment for each order, however often its message is published.

use std::sync::atomic::{AtomicU32, Ordering};

use rillkit::{Broker, Message, Running, State, subscribe};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Payment {
    order: u32,
    cents: u32,
}

/// A bank that is busy at the first call.
struct Bank {
    calls: AtomicU32,
}

/// The key is what the publisher says: the field `rk-id`.
#[subscribe(
    stream = "payments",
    group = "bank",
    claim_idle_ms = 200,
    idempotent = true
)]
async fn pay(payment: Payment, bank: State<Bank>) -> Result<(), &'static str> {
    if bank.calls.fetch_add(1, Ordering::Relaxed) == 0 {
        println!("  order {}: the bank is busy", payment.order);
        return Err("the bank is busy");
    }
    println!("  order {}: paid {} cents", payment.order, payment.cents);
    Ok(())
}

/// The key is made of the body. An order's receipt is sent once in an hour.
#[subscribe(
    stream = "receipts",
    group = "mail",
    idempotent = order,
    idempotent_for_ms = 3_600_000
)]
async fn send_receipt(payment: Payment, msg: Message) {
    println!(
        "  receipt for order {}, key {}",
        payment.order,
        msg.idempotency_key()
    );
}

fn order(payment: &Payment) -> u32 {
    payment.order
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let calls = AtomicU32::new(0);
    let broker = Broker::from_env_or("memory://")?.with_state(Bank { calls });
    eprintln!("store: {broker}");
    let running = broker.start().await?;

    println!("payments");
    let body = serde_json::to_string(&Payment {
        order: 1,
        cents: 500,
    })?;
    for _ in 0..3 {
        let fields = [("data", body.as_str()), ("rk-id", "order-1")];
        broker.publish_fields("payments", fields).await?;
    }
    running.drained().await?;
    println!("  duplicates: {}", duplicates(&running, "pay"));

    println!("receipts");
    for (order, cents) in [(1, 500), (1, 500), (2, 700), (1, 500)] {
        let payment = Payment { order, cents };
        broker.publish("receipts", &payment).await?;
    }
    running.drained().await?;
    println!("  duplicates: {}", duplicates(&running, "send_receipt"));
    running.stop().await;
    Ok(())
}

fn duplicates(running: &Running, name: &str) -> u64 {
    let health = running.health();
    let handlers = health.handlers.iter();
    handlers
        .filter(|handler| handler.handler == name)
        .map(|handler| handler.duplicates)
        .sum()
}
