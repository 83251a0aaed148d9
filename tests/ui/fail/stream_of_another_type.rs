use rillkit::{Stream, subscribe};

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[derive(serde::Deserialize)]
struct Mail {
    _to: String,
}

const MAILS: Stream<Mail> = Stream::new("mails");

#[subscribe(stream = MAILS, group = "workers")]
async fn run_job(_job: Job) {}

fn main() {}
