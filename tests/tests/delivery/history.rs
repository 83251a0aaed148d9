//! What a dead letter tells of the deliveries before it, and that nobody else notices that it does.

use anyhow::Context as _;
use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::Server;
use rillkit_tests::Job;
use serde_json::{Value, json};

use crate::place::{Journal, Letter, Place, act, on_both_stores, until};

/// Where the history of the group `workers` is.
const HISTORY: &str = "rk:{jobs}:attempts:workers";

#[subscribe(
    stream = "jobs",
    group = "workers",
    max_retries = 2,
    claim_idle_ms = 200
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(
    stream = "jobs",
    group = "workers",
    max_retries = 3,
    claim_idle_ms = 200,
    timeout_ms = 50
)]
async fn fail_in_every_way(_job: Job, msg: Message) -> anyhow::Result<()> {
    match msg.deliveries() {
        1 => Err(std::io::Error::other("disk full"))
            .context("cannot write")
            .context("cannot save"),
        2 => panic!("oh no"),
        3 => std::future::pending().await,
        _ => {
            msg.reject("no use");
            Ok(())
        }
    }
}

#[subscribe(
    stream = "jobs",
    group = "workers",
    max_retries = 1,
    claim_idle_ms = 200,
    ack_policy = manual
)]
async fn say_nothing(_job: Job, _msg: Message) {}

#[subscribe(
    stream = "jobs",
    group = "workers",
    max_retries = 14,
    claim_idle_ms = 100
)]
async fn fail_often(_job: Job) -> Result<(), &'static str> {
    Err("bad input")
}

impl Letter {
    fn attempts(&self) -> Vec<Value> {
        serde_json::from_str(&self.get("x-attempts")).expect("a JSON list")
    }

    /// One fact of each failed delivery.
    fn told(&self, name: &str) -> Vec<Value> {
        let attempts = self.attempts();
        attempts
            .iter()
            .map(|attempt| attempt[name].clone())
            .collect()
    }
}

impl Place {
    fn has_history(&self) -> bool {
        self.ask(&["EXISTS", HISTORY]).int() == 1
    }
}

on_both_stores![
    a_letter_tells_of_every_delivery_that_failed,
    a_letter_of_one_delivery_tells_of_that,
    a_run_without_a_mark_is_told_of,
    of_many_deliveries_the_first_and_the_newest_are_told,
];

async fn a_letter_tells_of_every_delivery_that_failed(place: Place) {
    let broker = place.worker(handlers![fail_in_every_way]);
    let running = broker.start().await.expect("started");
    place.publish("jobs", "job", "").await;
    running.drained().await.expect("drained");
    running.stop().await;

    let letter = &place.letters("jobs-dlq").await[0];
    assert_eq!(letter.told("n"), [1, 2, 3, 4]);
    let consumer = letter.get("x-consumer");
    assert_eq!(letter.told("consumer"), vec![json!(consumer); 4]);
    assert_eq!(
        letter.told("reason"),
        ["error", "panic", "timeout", "rejected"]
    );
    let errors = [
        "cannot save",
        "handler panicked: oh no",
        "handler timed out after 50 ms",
        "no use",
    ];
    assert_eq!(letter.told("error"), errors);
    assert_eq!(
        letter.told("chain"),
        [
            json!(["cannot write", "disk full"]),
            json!(null),
            json!(null),
            json!(null)
        ]
    );
    assert_eq!(letter.get("x-error"), "no use");
    let attempts = letter.attempts();
    let failed_at: u64 = letter.get("x-failed-at").parse().expect("a number");
    let ms = |attempt: &Value, name: &str| attempt[name].as_u64().expect("milliseconds");
    for attempt in &attempts {
        assert!(ms(attempt, "began") <= ms(attempt, "ended"), "{attempt}");
        assert!(ms(attempt, "ended") <= failed_at, "{attempt}");
    }
    let third = &attempts[2];
    assert!(ms(third, "ended") - ms(third, "began") >= 50, "{third}");
}

async fn a_letter_of_one_delivery_tells_of_that(place: Place) {
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place
        .broker
        .publish("jobs", &json!("not a job"))
        .await
        .expect("published");
    place.publish("jobs", "rejected", "reject_err").await;
    running.drained().await.expect("drained");
    running.stop().await;
    let letters = place.letters("jobs-dlq").await;
    for (letter, reason) in letters.iter().zip(["decode", "rejected"]) {
        assert_eq!(letter.told("n"), [1]);
        assert_eq!(letter.told("reason"), [reason]);
        assert_eq!(letter.told("error"), [letter.get("x-error")]);
    }
    assert_eq!(letters.len(), 2);
}

async fn a_run_without_a_mark_is_told_of(place: Place) {
    let running = place
        .worker(handlers![say_nothing])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "job", "").await;
    running.drained().await.expect("drained");
    running.stop().await;
    let letter = &place.letters("jobs-dlq").await[0];
    assert_eq!(letter.get("x-reason"), "exhausted");
    assert_eq!(letter.told("n"), [1, 2]);
    assert_eq!(letter.told("reason"), ["unmarked", "unmarked"]);
}

async fn of_many_deliveries_the_first_and_the_newest_are_told(place: Place) {
    let running = place
        .worker(handlers![fail_often])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "job", "").await;
    running.drained().await.expect("drained");
    running.stop().await;
    let letter = &place.letters("jobs-dlq").await[0];
    assert_eq!(letter.told("n"), [1, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_tells_what_other_workers_saw() {
    let place = Place::redis();
    let one = place.worker(handlers![handle]);
    let one = one.start().await.expect("started");
    place.publish("jobs", "job", "err").await;
    until("it has failed", || place.journal.ended() == 1).await;
    until("that is kept", || place.has_history()).await;
    until("not for good", || place.ask(&["TTL", HISTORY]).int() > 0).await;
    one.stop().await;
    let two = place.worker(handlers![handle]);
    let two = two.start().await.expect("started");
    two.drained().await.expect("drained");
    two.stop().await;

    let runs = place.journal.runs("job");
    let consumers: Vec<_> = runs.iter().map(|run| run.consumer.as_str()).collect();
    assert_ne!(consumers[0], consumers[1]);
    let letter = &place.letters("jobs-dlq").await[0];
    assert_eq!(letter.told("n"), [1, 2, 3]);
    assert_eq!(letter.told("consumer"), consumers);
    assert!(!place.has_history(), "it went with the letter");
    // A replay leaves it behind.
    assert_eq!(place.broker.replay_dlq("jobs").await, Ok(1));
    let entries = place.ask(&["XREVRANGE", "jobs", "+", "-", "COUNT", "1"]);
    let fields: Vec<_> = entries[0][1]
        .list()
        .iter()
        .map(|field| field.text())
        .collect();
    assert_eq!(fields[0], "data");
    assert_eq!(&fields[2..], ["rk-replays", "1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_goes_with_the_ack() {
    let place = Place::redis();
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    for does in ["err,ok", "err,err,ok", "err,ack_now", "panic,ack+err"] {
        place.publish("jobs", does, does).await;
    }
    until("that is kept", || place.has_history()).await;
    running.drained().await.expect("drained");
    until("it is gone", || !place.has_history()).await;
    assert_eq!(place.length("jobs-dlq"), 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_succeeds_at_once_costs_nothing() {
    let server = Server::start();
    let place = Place::on(&server);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish_many("jobs", "job", 200, "ok").await;
    place.publish("jobs", "rejected", "reject").await;
    running.drained().await.expect("drained");
    running.stop().await;
    let commands = server.command(&["INFO", "commandstats"]).text();
    assert!(commands.contains("cmdstat_xack:"), "{commands}");
    assert!(!commands.contains("cmdstat_hmget:"), "{commands}");
    // The worker's own row, written at its start and removed at its stop.
    for command in ["hset", "hdel", "expire"] {
        let once = commands.contains(&format!("cmdstat_{command}:calls=1,"));
        let never = !commands.contains(&format!("cmdstat_{command}:"));
        assert!(once || never, "{commands}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_that_is_lost_costs_nothing_else() {
    let place = Place::redis();
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "job", "err,sleep:300+err").await;
    until("it runs again", || place.journal.all().len() == 2).await;
    assert_eq!(place.ask(&["DEL", HISTORY]).int(), 1);
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("job"), [1, 2, 3]);
    let letters = place.letters("jobs-dlq").await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].get("x-deliveries"), "3");
    assert_eq!(letters[0].told("n"), [2, 3]);

    place.publish("jobs", "mended", "err,sleep:300+ok").await;
    until("it runs again", || {
        place.journal.deliveries("mended") == [1, 2]
    })
    .await;
    assert_eq!(place.ask(&["DEL", HISTORY]).int(), 1);
    running.drained().await.expect("drained");
    assert_eq!(place.length("jobs-dlq"), 1);
    until("nothing is left", || !place.has_history()).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_of_another_type_costs_nothing_else() {
    let place = Place::redis();
    place.ask(&["SET", HISTORY, "x"]);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish("jobs", "job", "err").await;
    place.publish("jobs", "mended", "err,ok").await;
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("job"), [1, 2, 3]);
    assert_eq!(place.journal.deliveries("mended"), [1, 2]);
    let letters = place.letters("jobs-dlq").await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].told("n"), [3]);
    assert_eq!(place.ask(&["GET", HISTORY]).text(), "x");
    // And when it is one again, it is used again.
    place.ask(&["DEL", HISTORY]);
    place.publish("jobs", "later", "err").await;
    running.drained().await.expect("drained");
    assert_eq!(place.letters("jobs-dlq").await[1].told("n"), [1, 2, 3]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_acked_is_forgotten_by_the_next_worker() {
    let place = Place::redis();
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    let acked = place.publish("jobs", "acked", "later:60000").await;
    place.publish("jobs", "pending", "later:60000").await;
    until("both have failed", || place.journal.ended() == 2).await;
    until("that is kept", || place.ask(&["HLEN", HISTORY]).int() == 2).await;
    running.stop().await;
    assert_eq!(place.ask(&["XACK", "jobs", "workers", &acked]).int(), 1);
    let next = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    until("it is forgotten", || {
        place.ask(&["HLEN", HISTORY]).int() == 1
    })
    .await;
    next.stop().await;
}

/// Who died in a run left nothing to tell, and an unrun message has no last delivery.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_delivery_whose_worker_died_nothing_is_told() {
    let place = Place::redis();
    place.ask(&["XGROUP", "CREATE", "jobs", "workers", "0", "MKSTREAM"]);
    let ids = [
        place.publish("jobs", "unrun", "err").await,
        place.publish("jobs", "last", "err").await,
    ];
    let read = [
        "XREADGROUP",
        "GROUP",
        "workers",
        "gone",
        "STREAMS",
        "jobs",
        ">",
    ];
    place.ask(&read);
    for (id, deliveries) in ids.iter().zip(["3", "2"]) {
        let died = [
            "XCLAIM",
            "jobs",
            "workers",
            "gone",
            "0",
            id,
            "RETRYCOUNT",
            deliveries,
        ];
        place.ask(&[&died[..], &["IDLE", "60000", "JUSTID"]].concat());
    }
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    running.drained().await.expect("drained");
    running.stop().await;
    let mut letters = place.letters("jobs-dlq").await;
    letters.sort_by_key(Letter::job);
    assert_eq!(letters[0].told("n"), [3]);
    assert_eq!(letters[1].get("x-reason"), "exhausted");
    assert_eq!(letters[1].get("x-attempts"), "[]");
}
