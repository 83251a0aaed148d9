use rillkit::subscribe;

#[subscribe(stream = "jobs", group = "workers")]
async fn run_job(_job: Job) {}

fn main() {}
