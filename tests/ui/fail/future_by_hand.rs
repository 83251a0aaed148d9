use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "jobs", group = "workers")]
fn run_job(_job: Job) -> impl Future<Output = ()> {
    async {}
}

fn main() {}
