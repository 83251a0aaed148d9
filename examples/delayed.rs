//! Messages that are published later: after a time, at a time, and not at all when they are taken
//! back before.

use std::time::{Duration, Instant, SystemTime};

use rillkit::{Broker, State, Stream, subscribe};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Reminder {
    to: String,
}

const REMINDERS: Stream<Reminder> = Stream::new("reminders");

fn reminder(to: &str) -> Reminder {
    Reminder { to: to.to_owned() }
}

#[subscribe(stream = REMINDERS, group = "senders")]
async fn remind(reminder: Reminder, began: State<Instant>) {
    let after = began.elapsed().as_secs_f64();
    println!("{} is reminded after {after:.1} s", reminder.to);
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let began = Instant::now();
    let broker = Broker::from_env_or("memory://")?.with_state(began);
    eprintln!("store: {broker}");
    let running = broker.start().await?;

    let after = Duration::from_millis(600);
    broker
        .publish(REMINDERS, &reminder("ada"))
        .delay(after)
        .await?;
    let at = SystemTime::now() + Duration::from_millis(300);
    broker.publish(REMINDERS, &reminder("grace")).at(at).await?;
    // With an id, so that another process knows its name.
    let never = broker.publish(REMINDERS, &reminder("linus"));
    never
        .id("linus-1")
        .delay(Duration::from_millis(400))
        .await?;
    println!("{} wait", broker.delayed(REMINDERS).await?.total);
    let cancelled = broker.cancel_delayed(REMINDERS, "linus-1").await?;
    println!("linus is not reminded: {cancelled}");

    while broker.delayed(REMINDERS).await?.total > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.drained().await?;
    running.stop().await;
    Ok(())
}
