use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe]
async fn run_job(_job: Job) {}

fn main() {}
