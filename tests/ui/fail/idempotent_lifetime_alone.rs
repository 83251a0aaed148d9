use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers", idempotent_for_ms = 60_000)]
async fn run_job(_job: Job) {}

fn main() {}
