use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers", claim_idle_ms = 3_000, max_backoff_ms = 2_000)]
async fn run_job(_job: Job) {}

fn main() {}
