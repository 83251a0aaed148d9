//! Replays: a snapshot, in one step for each, and only for the group that failed.

use rillkit::{Broker, HandlerError, Message, State, Stream, handlers, subscribe};
use rillkit_servers::{Proxy, Server};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, on_both_stores, until};

const SHARED: Stream<Job> = Stream::new("shared").dlq("dead");

#[subscribe(stream = SHARED, group = "failing", max_retries = 0)]
async fn failing(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    let _ends = journal.begin(&format!("failing {}", job.name), &msg);
    job.run(&msg).await
}

#[subscribe(stream = SHARED, group = "fine", max_retries = 0)]
async fn fine(job: Job, msg: Message, journal: State<Journal>) {
    let _ends = journal.begin(&format!("fine {}", job.name), &msg);
}

#[subscribe(stream = "jobs", group = "workers", max_retries = 0)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(stream = "dead", group = "alerts")]
async fn alert(msg: Message, journal: State<Journal>) {
    let _ends = journal.begin("alert", &msg);
}

on_both_stores![
    a_handler_of_the_dlq_sees_every_letter,
    a_replayed_message_is_for_the_group_that_failed,
    a_replay_can_be_for_every_group,
    a_replay_is_a_snapshot,
    a_replay_takes_the_oldest_first_and_no_more_than_asked,
    two_replays_at_once_move_everything_once,
];

async fn a_replayed_message_is_for_the_group_that_failed(place: Place) {
    let broker = place.worker(handlers![failing, fine]);
    let running = broker.start().await.expect("started");
    place.publish("shared", "job", "err").await;
    running.drained().await.expect("drained");
    assert_eq!(place.journal.all().len(), 2);
    assert_eq!(broker.replay_dlq(SHARED).await, Ok(1));
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("failing job"), [1, 1]);
    assert_eq!(place.journal.deliveries("fine job"), [1]);
    let letters = place.letters("dead").await;
    let again = letters.last().expect("a letter");
    assert_eq!(again.get("rk-for-group"), "failing");
    assert_eq!(again.get("rk-replays"), "1");
    running.stop().await;
}

async fn a_handler_of_the_dlq_sees_every_letter(place: Place) {
    let broker = place.worker(handlers![failing, fine, alert]);
    let running = broker.start().await.expect("started");
    place.publish("shared", "job", "err").await;
    running.drained().await.expect("drained");
    until("the first is seen", || {
        place.journal.runs("alert").len() == 1
    })
    .await;
    assert_eq!(broker.replay_dlq(SHARED).await, Ok(1));
    until("the second is seen", || {
        place.journal.runs("alert").len() == 2
    })
    .await;
    running.stop().await;
}

async fn a_replay_can_be_for_every_group(place: Place) {
    let broker = place.worker(handlers![failing, fine]);
    let running = broker.start().await.expect("started");
    place.publish("shared", "job", "err").await;
    running.drained().await.expect("drained");
    assert_eq!(broker.replay_dlq(SHARED).to_every_group().await, Ok(1));
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("failing job"), [1, 1]);
    assert_eq!(place.journal.deliveries("fine job"), [1, 1]);
    running.stop().await;
}

async fn a_replay_is_a_snapshot(place: Place) {
    let broker = place.worker(handlers![handle]);
    let running = broker.start().await.expect("started");
    place.publish_many("jobs", "job", 10, "err").await;
    running.drained().await.expect("drained");
    assert_eq!(broker.replay_dlq("jobs").all().await, Ok(10));
    running.drained().await.expect("drained");
    for number in 0..10 {
        assert_eq!(place.journal.deliveries(&format!("job{number}")), [1, 1]);
    }
    assert_eq!(broker.replay_dlq("jobs").count(1000).await, Ok(10));
    running.drained().await.expect("drained");
    assert_eq!(place.journal.all().len(), 30);
    running.stop().await;
    let mut letters = place.letters("jobs-dlq").await;
    // In process the looker has seen only the last of them, or those before as well.
    let letters = letters.split_off(letters.len() - 10);
    for letter in &letters {
        assert_eq!(letter.get("rk-replays"), "2");
        assert_eq!(letter.get("x-deliveries"), "1");
        assert!(!letter.0.iter().any(|(name, _)| name == b"rk-for-group"));
    }
}

async fn a_replay_takes_the_oldest_first_and_no_more_than_asked(place: Place) {
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish_many("jobs", "job", 150, "err").await;
    running.drained().await.expect("drained");
    running.stop().await;
    let letters = place.letters("jobs-dlq").await;
    let broker = Broker::connect(&place.url)
        .expect("a good URL")
        .with_handlers([]);
    assert_eq!(broker.replay_dlq("jobs").count(3).await, Ok(3));
    assert_eq!(broker.replay_dlq("jobs").await, Ok(100));
    assert_eq!(broker.replay_dlq("jobs").await, Ok(47));
    assert_eq!(broker.replay_dlq("jobs").await, Ok(0));
    assert_eq!(broker.replay_dlq("another").await, Ok(0));
    let again = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    again.drained().await.expect("drained");
    again.stop().await;
    let again = place.journal.all().split_off(150);
    assert_eq!(again.len(), 150);
    for (run, letter) in again.iter().zip(&letters) {
        assert_eq!(run.name, letter.job());
    }
}

async fn two_replays_at_once_move_everything_once(place: Place) {
    let broker = place.worker(handlers![handle]);
    let running = broker.start().await.expect("started");
    place.publish_many("jobs", "job", 10, "err").await;
    running.drained().await.expect("drained");
    running.stop().await;
    let other = Broker::connect(&place.url).expect("a good URL");
    let (one, two) = tokio::join!(async { broker.replay_dlq("jobs").await }, async {
        other.replay_dlq("jobs").await
    },);
    assert_eq!(one.expect("replayed") + two.expect("replayed"), 10);
    let again = broker.start().await.expect("started");
    again.drained().await.expect("drained");
    again.stop().await;
    for number in 0..10 {
        assert_eq!(place.journal.deliveries(&format!("job{number}")), [1, 1]);
    }
}

/// A DLQ may be shared by streams, and hold what is no dead letter of ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_letters_of_the_stream_are_moved_and_empty_ones_are_left() {
    let place = Place::redis();
    place.ask(&["XADD", "jobs-dlq", "*", "data", "1", "x-stream", "another"]);
    place.ask(&[
        "XADD", "jobs-dlq", "*", "x-stream", "jobs", "x-error", "lost",
    ]);
    place.ask(&[
        "XADD", "jobs-dlq", "*", "data", "2", "x-own", "kept", "x-error", "e",
    ]);
    assert_eq!(place.broker.replay_dlq("jobs").await, Ok(1));
    assert_eq!(place.length("jobs-dlq"), 2);
    let moved = place.ask(&["XRANGE", "jobs", "-", "+"]);
    let fields: Vec<_> = moved[0][1]
        .list()
        .iter()
        .map(|field| field.text())
        .collect();
    assert_eq!(fields, ["data", "2", "x-own", "kept", "rk-replays", "1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_that_breaks_off_half_way_loses_and_doubles_nothing() {
    let server = Server::start();
    let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
    for number in 0..10 {
        let body = serde_json::to_string(&Job::new(format!("job{number}"), "ok")).expect("JSON");
        place.ask(&["XADD", "jobs-dlq", "*", "data", &body, "x-stream", "jobs"]);
    }
    let broker = Broker::connect(&proxy.url()).expect("a good URL");
    assert_eq!(broker.replay_dlq("jobs").count(3).await, Ok(3));
    proxy.lose_reply_of("EVALSHA");
    broker
        .replay_dlq("jobs")
        .await
        .expect_err("its reply is lost");
    assert_eq!(place.length("jobs") + place.length("jobs-dlq"), 10);
    assert_eq!(place.length("jobs"), 4);
    assert_eq!(broker.replay_dlq("jobs").await, Ok(6));
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    running.drained().await.expect("drained");
    until("all have run", || place.journal.ended() == 10).await;
    place.journal.assert_once_each("job", 10);
    running.stop().await;
}
