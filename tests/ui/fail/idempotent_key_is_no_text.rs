use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    numbers: Vec<u32>,
}

fn numbers(job: &Job) -> Vec<u32> {
    job.numbers.clone()
}

#[subscribe(stream = "jobs", group = "workers", idempotent = numbers)]
async fn run_job(_job: Job) {}

fn main() {}
