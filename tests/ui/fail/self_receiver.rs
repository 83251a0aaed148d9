use rillkit::{Message, subscribe};

struct Worker;

impl Worker {
    #[subscribe(stream = "jobs", group = "workers")]
    async fn run_job(&self, _message: Message) {}
}

fn main() {}
