use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers")]
async fn run_job<'a>(_job: &'a Job) {}

fn main() {}
