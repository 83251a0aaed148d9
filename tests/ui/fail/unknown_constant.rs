use rillkit::{Message, subscribe};

#[subscribe(stream = JOBS, group = workers)]
async fn run_job(_message: Message) {}

fn main() {}
