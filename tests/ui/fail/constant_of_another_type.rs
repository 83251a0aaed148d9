use rillkit::{Message, subscribe};

const GROUP: u8 = 1;
const RETRIES: i64 = 3;
const BACKOFF: u32 = 2;
const DLQ: u8 = 1;

#[subscribe(stream = "jobs", group = GROUP, max_retries = RETRIES, backoff = BACKOFF, dlq = DLQ)]
async fn run_job(_message: Message) {}

fn main() {}
