use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe("jobs", group: "workers", max_retries(3), dlq, consumer = , 5)]
async fn run_job(_job: Job) {}

fn main() {}
