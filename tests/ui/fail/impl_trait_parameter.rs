use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers")]
async fn run_job(_job: impl serde::de::DeserializeOwned) {}

fn main() {}
