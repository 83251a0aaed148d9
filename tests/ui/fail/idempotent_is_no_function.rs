use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    name: String,
}

#[subscribe(stream = "jobs", group = "workers", idempotent = "name")]
async fn by_a_field(_job: Job) {}

#[subscribe(stream = "jobs", group = "others", idempotent = |job: &Job| job.name.clone())]
async fn by_a_closure(_job: Job) {}

fn main() {}
