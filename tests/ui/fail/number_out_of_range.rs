use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(
    stream = "jobs",
    group = "workers",
    max_retries = 5_000_000_000,
    claim_idle_ms = 99,
    backoff = 0.5,
    jitter = 1.5,
    block_ms = 0,
    concurrency = 0,
    timeout_ms = 0
)]
async fn run_job(_job: Job) {}

fn main() {}
