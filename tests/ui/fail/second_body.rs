use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers")]
async fn run_job(_job: Job, _other: Vec<Job>) {}

fn main() {}
