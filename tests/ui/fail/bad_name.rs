use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "", group = "work\ners", dlq = "", consumer = "")]
async fn run_job(_job: Job) {}

fn main() {}
