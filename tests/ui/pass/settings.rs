//! Every setting reaches the registration entry, from a literal and from a constant.

use rillkit::{Message, Stream, handlers, subscribe};
use serde::Deserialize;

#[derive(Deserialize)]
struct Job {
    _name: String,
}

const JOBS: Stream<Job> = Stream::new("jobs").dlq("failed-jobs");

#[subscribe(stream = "a", group = "workers")]
async fn defaults(_job: Job) {}

#[subscribe(
    stream = "b",
    group = "workers",
    max_retries = 7_u8,
    claim_idle_ms = 300,
    backoff = 2,
    max_backoff_ms = 10_000,
    jitter = 0.25,
    block_ms = 1_000,
    ack_policy = ack_first,
    delete_on_ack = true,
    concurrency = 4,
    timeout_ms = 2_000,
    idempotent = true,
    idempotent_for_ms = 7_000_000,
    dlq = "b-failed",
    consumer = "me",
    start = "$",
    crate = ::rillkit,
)]
async fn literals(_job: Job) {}

mod constants {
    pub const GROUP: &str = "workers";
    pub const RETRIES: u32 = 7;
    pub const LEASE_MS: u64 = 300;
    pub const FACTOR: f64 = 1.0;
    pub const LIMIT: u32 = 2;
    pub const DELETES: bool = 2 > 1;
    pub const START: &str = "1700000000000-0";

    pub fn key(job: &super::Job) -> &str {
        &job._name
    }
}

#[subscribe(stream = "c", group = "workers", idempotent)]
async fn by_the_word_alone(_job: Job) {}

#[subscribe(stream = "d", group = "workers", idempotent = false)]
async fn not_at_all(_job: Job) {}

fn id(message: &Message) -> u64 {
    message.id().ms
}

#[subscribe(stream = "e", group = "workers", idempotent = id)]
async fn by_the_message(_message: Message) {}

#[subscribe(
    stream = JOBS,
    group = constants::GROUP,
    max_retries = constants::RETRIES + 1,
    claim_idle_ms = constants::LEASE_MS * 2,
    backoff = constants::FACTOR * 1.5,
    max_backoff_ms = constants::LEASE_MS * 4,
    jitter = constants::FACTOR,
    block_ms = constants::LEASE_MS,
    concurrency = constants::LIMIT * 2,
    timeout_ms = constants::LEASE_MS,
    idempotent = constants::key,
    idempotent_for_ms = constants::LEASE_MS * 1_000_000,
    delete_on_ack = constants::DELETES,
    consumer = concat!("worker-", 1),
    start = constants::START
)]
async fn from_constants(_job: Job) {}

#[subscribe(stream = JOBS, group = "others", dlq = "others-failed", max_retries = None, ack_policy = manual,
    delete_on_ack = even_with_other_groups)]
async fn undecoded(_message: Message) {}

fn main() {
    let [defaults, literals, from_constants, undecoded] =
        handlers![defaults, literals, from_constants, undecoded];
    let [by_the_word_alone, not_at_all, by_the_message] =
        handlers![by_the_word_alone, not_at_all, by_the_message];
    for (handler, idempotent) in [
        (defaults, "None"),
        (not_at_all, "None"),
        (by_the_word_alone, "Some(86400s)"),
        (by_the_message, "Some(86400s)"),
        (literals, "Some(7000s)"),
        (from_constants, "Some(300000s)"),
    ] {
        let expected = format!("idempotent_for: {idempotent}");
        assert!(format!("{handler:?}").contains(&expected), "{handler:?}");
    }
    assert_eq!(defaults.dlq_name(), "a-dlq");
    assert_eq!(defaults.path(), concat!(module_path!(), "::defaults"));
    assert_policy(defaults, "Some(3)", 60_000, "1.0", "None", "0.0", 5_000, "NackOnError", 1, "None", "No");
    assert_eq!(literals.dlq_name(), "b-failed");
    assert_policy(literals, "Some(7)", 300, "2.0", "Some(10000)", "0.25", 1_000, "AckFirst", 4, "Some(2000)", "Alone");
    assert_eq!((from_constants.stream(), from_constants.group()), ("jobs", "workers"));
    assert_eq!(from_constants.dlq_name(), "failed-jobs");
    assert_policy(from_constants, "Some(8)", 600, "1.5", "Some(1200)", "1.0", 300, "NackOnError", 4, "Some(300)", "Alone");
    assert_eq!(undecoded.dlq_name(), "others-failed");
    assert_policy(undecoded, "None", 60_000, "1.0", "None", "0.0", 5_000, "Manual", 1, "None", "EvenWithOtherGroups");
}

fn assert_policy(
    handler: &rillkit::Subscription,
    max_retries: &str,
    claim_idle_ms: u64,
    backoff: &str,
    max_backoff_ms: &str,
    jitter: &str,
    block_ms: u64,
    ack_policy: &str,
    concurrency: u32,
    timeout_ms: &str,
    delete_on_ack: &str,
) {
    let expected = format!(
        "Policy {{ max_retries: {max_retries}, claim_idle_ms: {claim_idle_ms}, backoff: {backoff}, \
         max_backoff_ms: {max_backoff_ms}, jitter: {jitter}, block_ms: {block_ms}, ack_policy: {ack_policy}, \
         concurrency: {concurrency}, timeout_ms: {timeout_ms}, delete_on_ack: {delete_on_ack} }}"
    );
    let shown = format!("{handler:?}");
    assert!(shown.contains(&expected), "expected {expected}, got {shown}");
}
