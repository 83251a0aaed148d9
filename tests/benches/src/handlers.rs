//! RillKit's side: one handler for each setting that is measured.

use std::time::Duration;

use rillkit::{HandlerError, Message, subscribe};

use crate::meter::{Answer, Meter};
use crate::order::{GROUP, Order};

/// All defaults.
#[subscribe(stream = "orders", group = GROUP)]
pub async fn defaults(order: Order) {
    let _ = Meter::report(order.id);
}

/// Sixty-four at once.
#[subscribe(stream = "orders", group = GROUP, concurrency = 64)]
pub async fn concurrent(order: Order) {
    let _ = Meter::report(order.id);
}

/// One that has to wait.
#[subscribe(stream = "orders", group = GROUP, concurrency = 256)]
pub async fn sleeping(order: Order) {
    tokio::time::sleep(Duration::from_millis(1)).await;
    let _ = Meter::report(order.id);
}

/// One that fails when it is told to.
#[subscribe(stream = "orders", group = GROUP, concurrency = 64)]
pub async fn retried(order: Order) -> Result<(), HandlerError> {
    match Meter::report(order.id) {
        Answer::Done => Ok(()),
        Answer::RetryAfter(delay) => Err(HandlerError::retry_after(delay, "again")),
    }
}

/// One whose messages all wait for a retry that is far away.
#[subscribe(stream = "orders", group = GROUP, concurrency = 64)]
pub async fn failing(order: Order) -> Result<(), HandlerError> {
    let _ = Meter::report(order.id);
    Err(HandlerError::retry_after(Duration::from_secs(60), "later"))
}

/// A body that is not looked into.
#[subscribe(stream = "orders", group = GROUP)]
pub async fn undecoded(msg: Message) {
    let id = msg
        .header("id")
        .and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
    let _ = Meter::report(id.expect("a number"));
}
