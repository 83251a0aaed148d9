use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

struct Order {
    number: u32,
}

fn number(order: &Order) -> u32 {
    order.number
}

#[subscribe(stream = "jobs", group = "workers", idempotent = number)]
async fn run_job(_job: Job) {}

fn main() {}
