//! Errors that no retry can help: three ways to say so. The message goes to the dead-letter queue
//! at once, though this handler would otherwise be retried for ever.

use rillkit::{Broker, HandlerError, Message, ResultExt, subscribe};

#[subscribe(stream = "amounts", group = "accounts", max_retries = None)]
async fn book(amount: String, msg: Message) -> Result<(), HandlerError> {
    // An error that no retry can help ..
    let amount: i64 = amount.parse().or_reject()?;
    // .. one that is made here ..
    if amount < 0 {
        return Err(HandlerError::reject(format!("{amount} is negative")));
    }
    // .. and a mark on the message, for a handler that has no error to return.
    if amount > 1_000_000 {
        msg.reject(format_args!("{amount} needs a person to look at it"));
        return Ok(());
    }
    println!("booked {amount}");
    Ok(())
}

#[subscribe(stream = "amounts-dlq", group = "support")]
async fn dead_letter(letter: Message) {
    let text = |name| letter.fields().text(name).unwrap_or_default();
    let (error, reason) = (text("x-error"), text("x-reason"));
    println!("{reason} on delivery {}: {error}", text("x-deliveries"));
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let broker = Broker::from_env_or("memory://")?;
    eprintln!("store: {broker}");
    let running = broker.start().await?;

    for amount in ["12", "twelve", "-12", "12000000"] {
        broker.publish("amounts", amount).await?;
        running.drained().await?;
    }
    running.stop().await;
    Ok(())
}
