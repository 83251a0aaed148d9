use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers")]
async fn run_job<const N: usize>(_job: [u8; N]) {}

fn main() {}
