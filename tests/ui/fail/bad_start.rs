use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers", start = "beginning")]
async fn run_job(_job: Job) {}

fn main() {}
