use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers", max_retry = 2, prefetch = 10)]
async fn run_job(_job: Job) {}

fn main() {}
