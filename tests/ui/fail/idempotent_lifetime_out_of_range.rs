use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers", idempotent, idempotent_for_ms = 0)]
async fn run_job(_job: Job) {}

fn main() {}
