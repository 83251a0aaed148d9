use std::cell::Cell;

use rillkit::{Message, State, subscribe};

#[subscribe(stream = "jobs", group = "workers")]
async fn run_job(_message: Message, _count: State<Cell<u64>>) {}

fn main() {}
