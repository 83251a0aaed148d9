//! Commands that a handler queues: applied with the ack, once, or not at all.

use std::time::Duration;

use rillkit::{ErrorKind, HandlerError, Message, Running, State, Tx, handlers, subscribe};
use rillkit_servers::{Proxy, Server};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, on_both_stores, until};

/// A handler of each policy that counts its runs by what it queues.
#[rustfmt::skip]
macro_rules! handler {
    ($name:ident, $stream:literal, $policy:ident) => {
        #[subscribe(
            stream = $stream,
            group = "workers",
            dlq = "dead",
            max_retries = 1,
            claim_idle_ms = 200,
            timeout_ms = 1000,
            ack_policy = $policy
        )]
        async fn $name(
            job: Job,
            msg: Message,
            tx: Tx,
            journal: State<Journal>,
        ) -> Result<(), HandlerError> {
            tx.hincr_by("applied", &job.name, 1);
            let ended = act(job.clone(), msg.clone(), journal).await;
            tx.hincr_by("deliveries", &job.name, msg.deliveries().cast_signed());
            ended
        }
    };
}
handler!(on_error, "on_error", nack_on_error);
handler!(always, "always", ack_always);
handler!(manual, "manual", manual);

#[subscribe(
    stream = "first",
    group = "workers",
    ack_policy = ack_first
)]
async fn first(_job: Job, _tx: Tx) {}

async fn started(place: &Place) -> Running {
    let broker = place.worker(handlers![on_error, always, manual]);
    broker.start().await.expect("started")
}

on_both_stores![
    only_a_run_that_ends_well_and_is_acked_applies,
    what_cannot_be_applied_is_dead_and_says_why,
    a_run_sees_what_the_one_before_has_left,
    a_message_with_a_tx_is_not_acked_now,
    what_comes_too_late_is_not_applied,
];

async fn only_a_run_that_ends_well_and_is_acked_applies(place: Place) {
    let running = started(&place).await;
    for (stream, name, does) in [
        ("on_error", "ok", "ok"),
        ("on_error", "retried", "err,ok"),
        ("on_error", "dead", "err"),
        ("on_error", "panics", "panic"),
        ("on_error", "hangs", "hang"),
        ("on_error", "nacked", "nack"),
        ("on_error", "rejected", "reject"),
        ("on_error", "acked and failed", "ack+err"),
        ("always", "always", "ok"),
        ("always", "always failed", "err"),
        ("manual", "unmarked", "ok"),
        ("manual", "marked", "ack"),
        ("manual", "marked later", "ok,ack"),
    ] {
        place.publish(stream, name, does).await;
    }
    running.drained().await.expect("drained");
    let applied = [
        "always",
        "1",
        "marked",
        "1",
        "marked later",
        "1",
        "ok",
        "1",
        "retried",
        "1",
    ];
    assert_eq!(place.broker.peek("applied").await.expect("there"), applied);
    let deliveries = [
        "always",
        "1",
        "marked",
        "1",
        "marked later",
        "2",
        "ok",
        "1",
        "retried",
        "2",
    ];
    assert_eq!(
        place.broker.peek("deliveries").await.expect("there"),
        deliveries
    );
    running.stop().await;
}

/// What a job is named says what it queues.
#[subscribe(stream = "odd", group = "workers", dlq = "dead")]
async fn odd(job: Job, tx: Tx) -> Result<(), rillkit::Error> {
    tx.incr_by(&format!("before:{}", job.name), 1);
    match job.name.as_str() {
        "other type" => tx.incr_by("list", 1),
        "no number" => tx.incr_by("words", 1),
        "blocks" => tx.command("BLPOP").key("list").arg("0").queue(),
        "large" => tx.set("large", "x".repeat(2000)),
        "good" => tx.publish("next", &job.name)?,
        _ => {
            tx.set("words", "w");
            tx.rpush("list", "l");
        }
    }
    Ok(())
}

async fn what_cannot_be_applied_is_dead_and_says_why(place: Place) {
    let broker = place.worker(handlers![odd]).largest_message(1000);
    let running = broker.start().await.expect("started");
    place.publish("odd", "prepares", "ok").await;
    running.drained().await.expect("drained");
    let mut expected = vec![
        (
            "other type",
            0,
            "command 2 of 2, `INCRBY`, failed: WRONGTYPE ",
            "; nothing was applied",
        ),
        (
            "no number",
            1,
            "command 2 of 2, `INCRBY`, failed: ",
            "; the commands before it were applied",
        ),
        (
            "large",
            0,
            "the commands of the `Tx` have 2017 bytes, and 1000 are allowed; nothing was applied",
            "",
        ),
        ("good", 1, "", ""),
    ];
    if place.is_memory() {
        let begin = "command 2 of 2, `BLPOP`, failed: the in-process store knows none but";
        expected.push(("blocks", 0, begin, "; nothing was applied"));
    }
    for (name, ..) in &expected {
        place.publish("odd", name, "ok").await;
    }
    running.drained().await.expect("drained");
    let letters = place.letters("dead").await;
    for (name, applied, begin, end) in expected {
        let counted = place
            .broker
            .peek(&format!("before:{name}"))
            .await
            .expect("there");
        assert_eq!(counted.len(), applied, "{name}");
        let letter = letters.iter().find(|letter| letter.job() == name);
        assert_eq!(letter.is_none(), begin.is_empty(), "{name}");
        let Some(letter) = letter else { continue };
        let error = letter.get("x-error");
        assert!(error.starts_with(begin) && error.contains(end), "{error}");
        assert_eq!(letter.get("x-reason"), "tx");
        assert_eq!(letter.get("x-deliveries"), "1");
    }
    running.stop().await;
}

/// Copies the number that the last run has left, and adds one.
#[subscribe(stream = "chain", group = "workers")]
async fn chain(_job: Job, tx: Tx, place: State<rillkit::Broker>) -> Result<(), HandlerError> {
    let last = place.peek("chain-last").await?;
    let last: u64 = last
        .first()
        .map_or(0, |last| last.parse().expect("a number"));
    tx.set("chain-last", (last + 1).to_string());
    Ok(())
}

async fn a_run_sees_what_the_one_before_has_left(place: Place) {
    let worker = place
        .worker(handlers![chain])
        .with_state(place.broker.clone());
    let running = worker.start().await.expect("started");
    place.publish_many("chain", "job", 300, "ok").await;
    running.drained().await.expect("drained");
    assert_eq!(
        place.broker.peek("chain-last").await.expect("there"),
        ["300"]
    );
    running.stop().await;
}

async fn a_message_with_a_tx_is_not_acked_now(place: Place) {
    let running = started(&place).await;
    place.publish("on_error", "now", "ack_now").await;
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("now"), [1, 2]);
    let letters = place.letters("dead").await;
    let error = letters[0].get("x-error");
    assert!(
        error.contains("takes a `Tx`") && error.contains("`msg.ack()`"),
        "{error}"
    );
    running.stop().await;
}

#[subscribe(stream = "late", group = "workers")]
async fn late(_job: Job, tx: Tx) {
    tx.incr_by("in-time", 1);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        tx.incr_by("too-late", 1);
    });
}

async fn what_comes_too_late_is_not_applied(place: Place) {
    let running = place
        .worker(handlers![late])
        .start()
        .await
        .expect("started");
    place.publish("late", "job", "ok").await;
    running.drained().await.expect("drained");
    tokio::time::sleep(Duration::from_millis(400)).await;
    place.publish("late", "job", "ok").await;
    running.drained().await.expect("drained");
    assert_eq!(place.broker.peek("in-time").await.expect("there"), ["2"]);
    assert!(
        place
            .broker
            .peek("too-late")
            .await
            .expect("nothing")
            .is_empty()
    );
    running.stop().await;
}

#[tokio::test]
async fn acked_first_and_a_tx_do_not_go_together() {
    let broker = Place::memory().worker(handlers![first]);
    let error = broker.start().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Handlers);
    let said = error.to_string();
    assert!(
        said.contains("::first`") && said.contains("takes a `Tx`"),
        "{said}"
    );
}

#[subscribe(stream = "any", group = "workers", dlq = "dead", claim_idle_ms = 300)]
async fn any(job: Job, tx: Tx, journal: State<Journal>, msg: Message) -> Result<(), HandlerError> {
    tx.incr_by("total", 1);
    tx.command("LPUSH").key("names").arg(&job.name).queue();
    act(job, msg, journal).await
}

/// Its type cannot be known before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_fails_in_the_middle_is_never_retried() {
    let place = Place::redis();
    place.ask(&["SET", "names", "x"]);
    let running = place.worker(handlers![any]).start().await.expect("started");
    place.publish("any", "job", "ok").await;
    running.drained().await.expect("drained");
    assert_eq!(place.ask(&["GET", "total"]).text(), "1");
    let letters = place.letters("dead").await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].job(), "job");
    assert_eq!(letters[0].get("x-reason"), "tx");
    let error = letters[0].get("x-error");
    let (begin, end) = (
        "command 2 of 2, `LPUSH`, failed: WRONGTYPE ",
        "were applied",
    );
    assert!(error.starts_with(begin) && error.ends_with(end), "{error}");
    assert!(place.pending("any", "workers").is_empty());
    assert_eq!(place.journal.deliveries("job"), [1]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_memory_is_waited_out() {
    let server = Server::start();
    let place = Place::on(&server);
    let running = place.worker(handlers![any]).start().await.expect("started");
    place.publish("any", "job", "sleep:300").await;
    until("it runs", || place.journal.all().len() == 1).await;
    place.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    until("it has run", || place.journal.ended() == 1).await;
    // Absence can only be looked for during some time: some leases.
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(place.ask(&["EXISTS", "total", "names"]).int(), 0);
    let pending = place.pending("any", "workers");
    assert_eq!((pending.len(), pending[0].2), (1, 1), "{pending:?}");
    place.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    until("it is acked", || place.pending("any", "workers").is_empty()).await;
    assert_eq!(place.ask(&["GET", "total"]).text(), "1");
    assert_eq!(place.ask(&["LLEN", "names"]).int(), 1);
    assert_eq!(place.journal.deliveries("job"), [1]);
    assert_eq!(place.length("dead"), 0);
    running.stop().await;
}

/// The letter cannot be written in the same step, and the first half stands already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dlq_that_is_forbidden_by_then_doubles_nothing() {
    let server = Server::start();
    let place = Place::on(&server);
    place.ask(&["SET", "names", "x"]);
    place.ask(&["ACL", "SETUSER", "worker", "on", ">secret", "+@all", "~*"]);
    let url = format!("redis://worker:secret@127.0.0.1:{}", server.port());
    let broker = place.worker_at(&url, handlers![any]);
    let running = broker.start().await.expect("started");
    place.ask(&["ACL", "SETUSER", "worker", "-xadd"]);
    place.publish("any", "job", "ok").await;
    until("the first half is there", || {
        place.ask(&["EXISTS", "total"]).int() == 1
    })
    .await;
    // Absence can only be looked for during some time: some leases.
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(place.pending("any", "workers").len(), 1);
    place.ask(&["ACL", "SETUSER", "worker", "+xadd"]);
    until("it is dead", || place.length("dead") == 1).await;
    until("it is acked", || place.pending("any", "workers").is_empty()).await;
    assert_eq!(place.ask(&["GET", "total"]).text(), "1");
    assert_eq!(place.journal.deliveries("job"), [1]);
    let letter = &place.letters("dead").await[0];
    assert!(
        letter.get("x-error").ends_with("were applied"),
        "{letter:?}"
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dlq_that_cannot_be_written_applies_nothing() {
    let place = Place::redis();
    place.ask(&["SET", "names", "x"]);
    place.ask(&["SET", "dead", "x"]);
    let running = place.worker(handlers![any]).start().await.expect("started");
    place.publish("any", "job", "ok").await;
    until("it has run", || place.journal.ended() == 1).await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(place.ask(&["EXISTS", "total"]).int(), 0);
    assert_eq!(place.pending("any", "workers").len(), 1);
    place.ask(&["DEL", "dead"]);
    until("it is dead", || place.length("dead") == 1).await;
    assert_eq!(place.ask(&["GET", "total"]).text(), "1");
    assert!(place.pending("any", "workers").is_empty());
    assert_eq!(place.journal.deliveries("job"), [1]);
    running.stop().await;
}

/// All of it was read, and none is pending.
async fn settled(place: &Place, stream: &str) {
    until("everything is settled", || {
        let group = place.ask(&["XINFO", "GROUPS", stream])[0].list();
        let field = |name| group.chunks(2).find(|field| field[0].text() == name);
        let last = place.ask(&["XREVRANGE", stream, "+", "-", "COUNT", "1"])[0][0].text();
        field("last-delivered-id").expect("a position")[1].text() == last
            && place.pending(stream, "workers").is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_doubles_nothing() {
    let server = Server::start();
    let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
    let broker = place.worker_at(&proxy.url(), handlers![any]);
    let running = broker.start().await.expect("started");
    for round in 0..3 {
        proxy.lose_reply_of("EVALSHA");
        place
            .publish_many("any", &format!("round{round}-"), 20, "ok")
            .await;
        until("a reply is lost", || proxy.lost_replies() > round).await;
        settled(&place, "any").await;
    }
    assert_eq!(place.ask(&["GET", "total"]).text(), "60");
    assert_eq!(place.ask(&["LLEN", "names"]).int(), 60);
    for round in 0..3 {
        place
            .journal
            .assert_once_each(&format!("round{round}-"), 20);
    }
    assert_eq!(place.length("dead"), 0);
    running.stop().await;
}

#[subscribe(stream = "ordered", group = "workers")]
async fn ordered(job: Job, tx: Tx) {
    tx.rpush("order", &job.name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_at_a_time_keeps_the_order() {
    let server = Server::start();
    let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
    let broker = place.worker_at(&proxy.url(), handlers![ordered]);
    let running = broker.start().await.expect("started");
    proxy.lose_reply_of("EVALSHA");
    place.publish_many("ordered", "", 500, "ok").await;
    until("a reply is lost", || proxy.lost_replies() == 1).await;
    settled(&place, "ordered").await;
    let order = place.ask(&["LRANGE", "order", "0", "-1"]).list();
    let order: Vec<_> = order.iter().map(rillkit_servers::Reply::text).collect();
    let expected: Vec<_> = (0..500).map(|number| number.to_string()).collect();
    assert_eq!(order, expected);
    running.stop().await;
}
