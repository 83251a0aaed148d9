use rillkit::{Message, subscribe};

#[subscribe(stream = "jobs", group = "workers", crate = ::rk)]
async fn run_job(_message: Message) {}

fn main() {}
