use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(
    stream = 5,
    group = true,
    max_retries = "2",
    claim_idle_ms = "a minute",
    backoff = "2.0",
    max_backoff_ms = 900.5,
    jitter = false,
    block_ms = '5',
    concurrency = 2.0,
    timeout_ms = b"1000",
    dlq = 7,
    consumer = 1.5,
    start = 0,
    crate = "rillkit"
)]
async fn run_job(_job: Job) {}

fn main() {}
