use rillkit::{Message, subscribe};

const LEASE_MS: u64 = 50;
const CAP_MS: u64 = 2_000;

#[subscribe(stream = "a", group = "workers", claim_idle_ms = LEASE_MS)]
async fn lease(_message: Message) {}

#[subscribe(stream = "b", group = "workers", max_backoff_ms = CAP_MS)]
async fn cap(_message: Message) {}

fn main() {}
