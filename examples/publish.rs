//! Publishes what `quickstart` handles: one greeting, then several in one round trip.

use rillkit::Broker;
use serde::Serialize;

#[derive(Serialize)]
struct Greeting {
    name: &'static str,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let broker = Broker::from_env()?;
    eprintln!("store: {broker}");

    let id = broker
        .publish("greetings", &Greeting { name: "ada" })
        .header("language", "en")
        .await?;
    println!("published {id}");

    let more = [Greeting { name: "grace" }, Greeting { name: "linus" }];
    let ids = broker.publish_all("greetings", &more).await?;
    println!("published {} more", ids.len());
    Ok(())
}
