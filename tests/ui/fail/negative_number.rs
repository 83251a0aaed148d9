use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(
    stream = "jobs",
    group = "workers",
    max_retries = -1,
    claim_idle_ms = -300,
    backoff = -2.0,
    jitter = -0.5,
    concurrency = -4,
    start = -1
)]
async fn run_job(_job: Job) {}

fn main() {}
