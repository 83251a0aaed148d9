//! A user with the permissions that SECURITY.md lists, and with one of them less.

use rillkit::{Broker, ErrorKind, HandlerError, Message, State, Tx, handlers, subscribe};
use rillkit_servers::{Reply, Server};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, until};

const SECURITY: &str = include_str!("../../../SECURITY.md");

#[subscribe(
    stream = "jobs",
    group = "workers",
    max_retries = 1,
    claim_idle_ms = 200,
    block_ms = 300
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(
    stream = "jobs",
    group = "workers",
    max_retries = 1,
    claim_idle_ms = 200,
    block_ms = 300,
    idempotent
)]
async fn idempotent(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

/// What idempotent handlers need as well.
fn documented_for_idempotent() -> Vec<&'static str> {
    let row = SECURITY
        .lines()
        .find(|line| line.starts_with("| idempotent handlers |"));
    let words = row.expect("a row").split('`').skip(1).step_by(2);
    words.collect()
}

/// The commands of SECURITY.md: what a worker needs, and what makes it better.
fn documented() -> [Vec<&'static str>; 2] {
    let lines: Vec<_> = SECURITY
        .lines()
        .filter(|line| line.starts_with("ACL SETUSER worker "))
        .map(|line| line.split_whitespace().collect())
        .collect();
    lines.try_into().expect("two lines")
}

fn grants<'a>(line: &[&'a str]) -> Vec<&'a str> {
    let grants = line.iter().filter(|word| word.starts_with('+'));
    grants.copied().collect()
}

#[track_caller]
fn set_user(server: &Server, line: &[&str]) {
    let answer = server.command(line);
    assert!(!matches!(answer, Reply::Error(_)), "{line:?}: {answer:?}");
}

fn worker(server: &Server, journal: &Journal) -> Broker {
    let url = format!("redis://worker:a-long-password@127.0.0.1:{}", server.port());
    Broker::connect(&url)
        .expect("a good URL")
        .with_handlers(handlers![handle])
        .with_state(journal.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_permissions_are_enough_for_everything() {
    let server = Server::start();
    let [needed, better] = documented();
    set_user(&server, &needed);
    set_user(&server, &better);
    set_user(&server, &["ACL", "SETUSER", "worker", "+xdel"]);
    let place = Place::on(&server);
    let broker = worker(&server, &place.journal);
    // One is left pending by a worker that is gone.
    let body = |name: &str, does: &str| Job::new(name, does);
    broker
        .publish("jobs", &body("left", "ok"))
        .await
        .expect("published");
    place.ask(&["XGROUP", "CREATE", "jobs", "workers", "0"]);
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

    let running = broker.start().await.expect("started");
    let jobs = [
        body("good", "ok"),
        body("retried", "err,ok"),
        body("dead", "err"),
        body("slow", "sleep:1000"),
        body("now", "ack_now"),
    ];
    broker.publish_all("jobs", &jobs).await.expect("published");
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("left"), [2]);
    assert_eq!(place.journal.deliveries("slow"), [1]);
    assert_eq!(place.journal.deliveries("dead"), [1, 2]);
    assert_eq!(broker.replay_dlq("jobs").await.expect("replayed"), 1);
    running.drained().await.expect("drained");
    assert_eq!(place.length("jobs-dlq"), 1);
    // Two wait for a retry, and are handed back.
    broker
        .publish("jobs", &body("back", "later:60000"))
        .await
        .expect("published");
    until("it waits", || place.journal.runs("back").len() == 1).await;
    running.stop().await;
    let pending = place.pending("jobs", "workers");
    assert_eq!(pending[0].1, "rillkit:handed-back", "{pending:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_needed_permission_that_is_missing_is_named_at_the_start() {
    let server = Server::start();
    let [needed, better] = documented();
    for grant in grants(&needed) {
        let without: Vec<_> = needed.iter().copied().filter(|one| *one != grant).collect();
        set_user(&server, &without);
        set_user(&server, &better);
        server.command(&["DEL", "jobs"]);
        server.command(&["SCRIPT", "FLUSH"]);
        let started = worker(&server, &Journal::default()).start().await;
        let error = started.expect_err(grant);
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        let named = grant.trim_start_matches('+').replace('|', " ");
        let said = error.to_string().to_lowercase().replace('|', " ");
        // Older servers do not name the subcommand.
        let first = named.split(' ').next().expect("a word");
        assert!(said.contains(first), "{grant}: {error}");
        assert!(
            said.contains("noperm") && said.contains("security.md"),
            "{error}"
        );
        assert!(!said.contains("a-long-password"), "{error}");
    }
}

/// What SECURITY.md asks for beyond that, in the row that begins so.
fn granted_for(feature: &str) -> Vec<&'static str> {
    let row = SECURITY.lines().find(|line| line.contains(feature));
    let words = row.expect("a row").split('`').skip(1).step_by(2);
    words
        .filter(|word| word.starts_with(['+', '~']))
        .map(|word| word.strip_suffix(',').unwrap_or(word))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_permissions_are_enough_for_ids_and_delays() {
    let server = Server::start();
    let place = Place::on(&server);
    set_user(&server, &documented()[0]);
    let url = format!("redis://worker:a-long-password@127.0.0.1:{}", server.port());
    let publisher = Broker::connect(&url).expect("a good URL");
    let body = Job::new("job", "ok");
    for feature in ["messages with an id", "delayed messages"] {
        let publish = publisher.publish("jobs", &body).id("first").await;
        assert_eq!(publish.is_ok(), feature != "messages with an id");
        let mut grants = vec!["ACL", "SETUSER", "worker"];
        let row = granted_for(feature);
        let row: Vec<_> = row.iter().map(|word| word.replace('\\', "")).collect();
        grants.extend(row.iter().map(String::as_str));
        set_user(&server, &grants);
        let id = publisher.publish("jobs", &body).id(feature).await;
        id.expect(feature);
    }
    let soon = std::time::Duration::from_millis(50);
    let delayed = publisher.publish("jobs", &body).delay(soon).await;
    delayed.expect("delayed");
    let named = publisher.publish("jobs", &body).id("named").delay(soon);
    named.max_age(soon * 100_000).await.expect("delayed");
    let later = publisher.publish("jobs", &body).delay(soon * 100_000).await;
    until("both are added", || place.length("jobs") == 5).await;
    assert_eq!(publisher.delayed("jobs").await.expect("a page").total, 1);
    let cancelled = publisher.cancel_delayed("jobs", later.expect("delayed"));
    assert_eq!(cancelled.await, Ok(true));
}

/// One that could not take away what it adds would add it again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_permission_delays_and_does_not_double() {
    let server = Server::start();
    let place = Place::on(&server);
    set_user(&server, &documented()[0]);
    let mut all = vec!["ACL", "SETUSER", "worker"];
    let row = granted_for("delayed messages");
    let row: Vec<_> = row.iter().map(|word| word.replace('\\', "")).collect();
    all.extend(row.iter().map(String::as_str));
    for missing in ["+zrem", "+hdel"] {
        set_user(&server, &all);
        let minus = missing.replace('+', "-");
        set_user(&server, &["ACL", "SETUSER", "worker", &minus]);
        let worker = worker(&server, &place.journal);
        let body = Job::new(missing, "ok");
        let delayed = worker
            .publish("jobs", &body)
            .delay(std::time::Duration::ZERO);
        delayed.await.expect("delayed");
        let refused = || {
            place
                .ask(&["INFO", "commandstats"])
                .text()
                .contains("evalsha")
        };
        until("it is tried", refused).await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        assert_eq!(place.length("jobs"), 0, "{missing}");
        let waits = place.broker.delayed("jobs").await.expect("a page");
        assert_eq!(waits.total, 1);
        let id = &waits.messages[0].id;
        assert_eq!(place.broker.cancel_delayed("jobs", id).await, Ok(true));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotent_handler_needs_its_markers_as_well() {
    let server = Server::start();
    let [needed, better] = documented();
    let markers = documented_for_idempotent();
    assert_eq!(markers, ["~rk:{jobs}:*", "+get", "+set", "+del"]);
    let place = Place::on(&server);
    let start = async || {
        let worker = worker(&server, &place.journal).with_handlers(handlers![idempotent]);
        worker.start().await
    };
    for grant in &markers {
        set_user(&server, &needed);
        let mut rest = vec!["ACL", "SETUSER", "worker"];
        rest.extend(markers.iter().filter(|one| *one != grant));
        set_user(&server, &rest);
        let error = start().await.expect_err(grant);
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        let named = grant.trim_start_matches('+').to_uppercase();
        let marker = "on `rk:{jobs}:once:workers:`";
        assert!(
            error.to_string().contains(marker)
                && (*grant == markers[0] || error.to_string().contains(&named)),
            "{grant}: {error}"
        );
    }
    let mut all = better;
    all.extend(markers);
    set_user(&server, &all);
    let running = start().await.expect("started");
    place.publish("jobs", "retried", "sleep:500+err,ok").await;
    place.publish("jobs", "dead", "err").await;
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("retried"), [1, 2]);
    assert_eq!(place.length("jobs-dlq"), 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_key_of_the_dlq_is_named_at_the_start() {
    let server = Server::start();
    let [needed, better] = documented();
    let without: Vec<_> = needed
        .iter()
        .copied()
        .filter(|one| *one != "~jobs-dlq")
        .collect();
    set_user(&server, &without);
    set_user(&server, &better);
    let started = worker(&server, &Journal::default()).start().await;
    let error = started.expect_err("refused").to_string();
    assert!(error.contains("`XADD` on `jobs-dlq`"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_makes_it_better_may_be_missing() {
    let [needed, better] = documented();
    let server = Server::start();
    let place = Place::on(&server);
    let keys = better.iter().copied().filter(|word| word.starts_with('~'));
    let mut sets: Vec<Vec<_>> = grants(&better)
        .into_iter()
        .chain(keys)
        .map(|grant| better.iter().copied().filter(|one| *one != grant).collect())
        .collect();
    // And all of them.
    sets.push(vec!["ACL", "SETUSER", "worker"]);
    for (round, set) in sets.iter().enumerate() {
        set_user(&server, &needed);
        set_user(&server, set);
        let started = worker(&server, &place.journal).start().await;
        let running = started.unwrap_or_else(|error| panic!("{set:?}: {error}"));
        let name = format!("job{round}");
        place.publish("jobs", &name, "err,ok").await;
        place.publish("jobs", "dead", "err").await;
        until("it has run twice", || {
            place.journal.deliveries(&name) == [1, 2]
        })
        .await;
        until("it is acked", || {
            place.pending("jobs", "workers").is_empty()
        })
        .await;
        running.stop().await;
        assert_eq!(place.length("jobs-dlq"), round as i64 + 1);
    }
    // What somebody else left is taken over all the same.
    place.publish("jobs", "left", "ok").await;
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
    let running = worker(&server, &place.journal)
        .start()
        .await
        .expect("started");
    until("it is taken over", || {
        place.journal.deliveries("left") == [2]
    })
    .await;
    // A group that is deleted comes again.
    place.ask(&["XGROUP", "DESTROY", "jobs", "workers"]);
    place.publish("jobs", "new", "ok").await;
    until("it goes on", || !place.journal.runs("new").is_empty()).await;
    running.stop().await;
}

#[subscribe(stream = "jobs", group = "workers")]
async fn count(_job: Job, tx: Tx) {
    tx.incr_by("total", 1);
}

/// What SECURITY.md says a handler with a `Tx` needs as well.
fn documented_for_tx() -> Vec<String> {
    let row = SECURITY
        .lines()
        .find(|line| line.starts_with("| a handler with a `Tx` "));
    let words = row.expect("a row").split('`');
    let grants = words.filter(|word| word.starts_with('+') && *word != "+xadd");
    grants.map(|word| word.replace('\\', "")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_permissions_are_enough_for_a_tx() {
    let server = Server::start();
    let place = Place::on(&server);
    let [needed, _] = documented();
    let grants = documented_for_tx();
    assert_eq!(grants, ["+type", "+xgroup|createconsumer"]);
    let start = || async {
        let broker = worker(&server, &place.journal).with_handlers(handlers![count]);
        broker.start().await
    };
    for missing in &grants {
        set_user(&server, &needed);
        let others = grants.iter().filter(|grant| *grant != missing);
        let line = ["ACL", "SETUSER", "worker", "~total", "+incrby"].into_iter();
        let line: Vec<_> = line.chain(others.map(String::as_str)).collect();
        set_user(&server, &line);
        let error = start().await.expect_err(missing).to_string();
        let named = missing.trim_start_matches('+').replace('|', " ");
        assert!(
            error.contains(&format!("`{}`", named.to_uppercase())),
            "{error}"
        );
    }
    let grants = grants.iter().map(String::as_str);
    let line = ["ACL", "SETUSER", "worker"].into_iter().chain(grants);
    set_user(&server, &line.collect::<Vec<_>>());
    let running = start().await.expect("started");
    place.publish("jobs", "job", "ok").await;
    until("it is counted", || {
        place.ask(&["EXISTS", "total"]).int() == 1
    })
    .await;
    until("it is acked", || {
        place.pending("jobs", "workers").is_empty()
    })
    .await;
    running.stop().await;
}

/// Nothing failed here before, so that the first to find out is the dead letter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_that_is_forbidden_does_not_keep_a_letter_back() {
    let [needed, _] = documented();
    let server = Server::start();
    let place = Place::on(&server);
    set_user(&server, &needed);
    place.ask(&["XGROUP", "CREATE", "jobs", "workers", "0", "MKSTREAM"]);
    place.publish("jobs", "left", "err").await;
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
    let running = worker(&server, &place.journal)
        .start()
        .await
        .expect("started");
    until("it is dead", || place.length("jobs-dlq") == 1).await;
    running.stop().await;
    assert_eq!(place.journal.deliveries("left"), [2]);
    let letter = &place.letters("jobs-dlq").await[0];
    assert!(letter.get("x-attempts").starts_with("[{\"n\":2,"));
    assert!(place.pending("jobs", "workers").is_empty());
}
