use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers", max_retries = Some(3))]
async fn run_job(_job: Job) {}

fn main() {}
