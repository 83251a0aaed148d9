//! How an author tests a handler: called as the function it is, and on the in-process store with
//! the clock paused, where minutes of retries take no time.
//!
//! `cargo test --example testing` runs the tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rillkit::{HandlerError, State, Stream, subscribe};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    cents: u32,
}

const ORDERS: Stream<Order> = Stream::new("orders");

/// A bank that is down for the first few payments.
struct Bank {
    failures: u32,
    calls: AtomicU32,
}

impl Bank {
    async fn pay(&self, _cents: u32) -> Result<(), &'static str> {
        if self.calls.fetch_add(1, Ordering::Relaxed) < self.failures {
            return Err("the bank is down");
        }
        Ok(())
    }
}

/// The state is an `Arc`, so that a test can look at it afterwards.
#[subscribe(stream = ORDERS, group = "billing", claim_idle_ms = 60_000, backoff = 2.0)]
async fn bill(order: Order, bank: State<Arc<Bank>>) -> Result<(), HandlerError> {
    if order.cents == 0 {
        return Err(HandlerError::reject("nothing to pay"));
    }
    Ok(bank.pay(order.cents).await?)
}

fn main() {
    println!("the tests are the example: cargo test --example testing");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rillkit::{Broker, Message, handlers};
    use tokio::time::Instant;

    use super::*;

    fn bank(failures: u32) -> Arc<Bank> {
        let calls = AtomicU32::new(0);
        Arc::new(Bank { failures, calls })
    }

    #[tokio::test]
    async fn a_handler_is_a_function() {
        let good = bill(Order { cents: 100 }, State::new(bank(0))).await;
        assert!(good.is_ok());
        let empty = bill(Order { cents: 0 }, State::new(bank(0))).await;
        assert!(empty.unwrap_err().is_reject());
    }

    #[subscribe(stream = "reminders", group = "senders")]
    async fn remind(_to: String, msg: Message) {
        if msg.deliveries() > 2 {
            msg.reject("two reminders are enough");
        }
    }

    #[tokio::test]
    async fn a_message_is_made_up() {
        let third = Message::detached("reminders", "senders", 3, [("data", r#""ada""#)]);
        remind("ada".to_owned(), third.clone()).await;
        assert_eq!(third.marked(), Some("reject"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_bank_that_comes_back_is_paid() {
        let bank = bank(2);
        let broker = Broker::memory()
            .with_handlers(handlers![bill])
            .with_state(Arc::clone(&bank));
        let running = broker.start().await.unwrap();
        let began = Instant::now();
        broker.publish(ORDERS, &Order { cents: 100 }).await.unwrap();
        running.drained().await.unwrap();

        assert_eq!(bank.calls.load(Ordering::Relaxed), 3);
        // One minute, then two.
        assert_eq!(began.elapsed().as_secs(), 180);
        assert_eq!(broker.replay_dlq(ORDERS).await.unwrap(), 0);
        running.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_bank_that_stays_away_ends_in_a_dead_letter() {
        let bank = bank(u32::MAX);
        let broker = Broker::memory()
            .with_handlers(handlers![bill])
            .with_state(Arc::clone(&bank))
            .grace(Duration::ZERO);
        let running = broker.start().await.unwrap();
        broker.publish(ORDERS, &Order { cents: 100 }).await.unwrap();
        running.drained().await.unwrap();

        // `max_retries` is 3 when nothing is said: four runs.
        assert_eq!(bank.calls.load(Ordering::Relaxed), 4);
        running.stop().await;
        assert_eq!(broker.replay_dlq(ORDERS).await.unwrap(), 1);
    }
}
