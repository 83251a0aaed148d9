use rillkit::{Stream, subscribe};

struct Job;

const JOBS: Stream<Job> = Stream::new("jobs");

#[subscribe(stream = JOBS, group = "workers")]
async fn run_job(_job: Job) {}

fn main() {}
