use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers")]
#[subscribe(stream = "mails", group = "workers")]
async fn run_job(_job: Job) {}

fn main() {}
