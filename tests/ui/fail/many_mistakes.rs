use rillkit::subscribe;

#[subscribe(stream = "", max_retry = 2, claim_idle_ms = 50, backoff = "2", ack_policy = always, block_ms = 5, block_ms = 6)]
fn run_job<T>(_job: &T, _other: impl Send) where T: Send {}

fn main() {}
