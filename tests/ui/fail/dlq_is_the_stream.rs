use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers", dlq = "jobs")]
async fn run_job(_job: Job) {}

fn main() {}
