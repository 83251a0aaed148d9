use rillkit::subscribe;

struct Job;

#[subscribe(stream = "jobs", group = "workers")]
async fn run_job(_job: Job) {}

fn main() {}
