//! Entries that cannot be decoded: each goes to the dead-letter queue on its first delivery, with
//! its fields as they were, and its neighbours are handled.

use rillkit::{Broker, Message, subscribe};
use serde::Deserialize;

#[derive(Deserialize)]
struct Signup {
    email: String,
}

/// It may be retried for ever, and an undecodable entry is not retried all the same.
#[subscribe(stream = "signups", group = "mailers", max_retries = None)]
async fn welcome(signup: Signup) {
    println!("welcome {}", signup.email);
}

#[subscribe(stream = "signups-dlq", group = "support")]
async fn dead_letter(letter: Message) {
    let text = |name| letter.fields().text(name).unwrap_or("none");
    println!("dead letter: {}", text("x-error"));
    println!("  deliveries: {}", text("x-deliveries"));
    println!("  data: {}", text("data"));
    println!("  other: {}", text("other"));
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let broker = Broker::from_env_or("memory://")?;
    eprintln!("store: {broker}");
    let running = broker.start().await?;

    // What other programs may write: an entry is given field by field here.
    for (name, value) in [
        ("data", "this is not json"),
        ("other", "no body"),
        ("data", r#"{"email": 7}"#),
        ("data", r#"{"email": "ada@example.com"}"#),
    ] {
        broker.publish_fields("signups", [(name, value)]).await?;
        running.drained().await?;
    }
    running.stop().await;
    Ok(())
}
