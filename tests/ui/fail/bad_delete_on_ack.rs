use rillkit::subscribe;

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "a", group = "workers", delete_on_ack = "even_with_other_groups")]
async fn in_quotes(_job: Job) {}

#[subscribe(stream = "b", group = "workers", delete_on_ack = 1)]
async fn number(_job: Job) {}

#[subscribe(stream = "c", group = "workers", delete_on_ack = even_with_others)]
async fn misspelt(_job: Job) {}

const TIMES: u32 = 3;

#[subscribe(stream = "d", group = "workers", delete_on_ack = TIMES)]
async fn constant(_job: Job) {}

fn main() {}
