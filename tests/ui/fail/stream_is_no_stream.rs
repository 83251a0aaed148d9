use rillkit::{Message, subscribe};

const JOBS: &str = "jobs";

#[subscribe(stream = JOBS, group = "workers")]
async fn run_job(_message: Message) {}

fn main() {}
