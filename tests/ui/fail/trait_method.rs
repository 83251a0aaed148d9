use rillkit::{Message, subscribe};

trait Worker {
    #[subscribe(stream = "jobs", group = "workers")]
    async fn run_job(_message: Message);
}

fn main() {}
