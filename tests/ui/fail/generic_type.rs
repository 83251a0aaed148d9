use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers")]
async fn run_job<T: serde::de::DeserializeOwned>(_job: T) {}

fn main() {}
