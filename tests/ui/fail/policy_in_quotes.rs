use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers", ack_policy = "ack_first")]
async fn run_job(_job: Job) {}

fn main() {}
