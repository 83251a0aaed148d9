//! A server that refuses for a while, once for long and fifty times in a row: the worker asks again
//! at growing intervals, says little, and handles what is published afterwards.

use std::any::Any;
use std::time::Duration;

use rillkit::{HandlerError, HealthVerdict, Message, State, handlers, subscribe};
use rillkit_servers::{Reply, Server};
use rillkit_tests::Job;

use crate::lines::Lines;
use crate::place::{Journal, Place, act, until};

#[subscribe(
    stream = "jobs",
    group = "workers",
    claim_idle_ms = 10_000,
    block_ms = 500,
    concurrency = 2
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

/// How long nothing can be read, and how many reads may be tried meanwhile.
const HELD: Duration = Duration::from_secs(5);
const TRIES: i64 = 20;
/// Long enough for a worker to meet a refusal now and then.
const SHORT: Duration = Duration::from_millis(10);

/// Whatever must stay alive while the server refuses.
type Hold = Box<dyn Any>;

/// Reads that came to the server, carried out or refused.
fn reads(place: &Place) -> i64 {
    let statistics = place.ask(&["INFO", "commandstats"]).text();
    let reads = statistics
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_xreadgroup:"));
    let number = |name: &str| -> i64 {
        let fields = reads.unwrap_or_default().split(',');
        let field = fields.filter_map(|field| field.strip_prefix(name)).next();
        field.map_or(0, |number| number.parse().expect("a number"))
    };
    number("calls=") + number("rejected_calls=")
}

fn add(place: &Place, name: &str) {
    let body = serde_json::to_string(&Job::new(name, "ok")).expect("JSON");
    let id = place.ask(&["XADD", "jobs", "*", "data", &body]);
    assert!(matches!(id, Reply::Text(_)), "{id:?}");
}

/// Whether the first `count` that were added afterwards have run.
fn handled(place: &Place, count: usize) -> bool {
    (0..count).all(|number| !place.journal.runs(&format!("after{number}")).is_empty())
}

async fn ride_out(
    server: &Server,
    begin: impl Fn(&Server, &Place) -> Hold,
    end: impl Fn(&Server, &Place),
) -> Place {
    let (lines, place) = (Lines::listen(), Place::on(server));
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    add(&place, "before");
    running.drained().await.expect("drained");

    let before = reads(&place);
    let hold = begin(server, &place);
    tokio::time::sleep(HELD).await;
    let verdict = running.health().verdict;
    end(server, &place);
    drop(hold);
    let tries = reads(&place) - before;
    assert!(tries < TRIES, "{tries} reads");
    assert!(verdict <= HealthVerdict::NotReady, "{verdict:?}");
    let said = lines.with(" WARN ");
    assert!(said.len() <= 10, "{said:#?}");
    add(&place, "after0");
    until("it is handled", || handled(&place, 1)).await;

    for _ in 0..50 {
        let hold = begin(server, &place);
        tokio::time::sleep(SHORT).await;
        end(server, &place);
        drop(hold);
        tokio::time::sleep(SHORT).await;
    }
    for number in 1..10 {
        add(&place, &format!("after{number}"));
    }
    until("all are handled", || handled(&place, 10)).await;
    running.drained().await.expect("drained");
    let said = lines.with(" WARN ");
    assert!(said.len() <= 120, "{} lines: {said:#?}", said.len());
    until("it is healthy", || {
        running.health().verdict == HealthVerdict::Healthy
    })
    .await;
    running.stop().await;
    place
}

fn nothing() -> Hold {
    Box::new(())
}

/// A condition that holds as long as some setting does.
async fn ride_out_commands(begin: &[&[&str]], end: &[&[&str]]) -> Place {
    let ask = |place: &Place, commands: &[&[&str]]| {
        for command in commands {
            let answer = place.ask(command);
            assert!(
                !matches!(answer, Reply::Error(_)),
                "{command:?}: {answer:?}"
            );
        }
    };
    ride_out(
        &Server::start(),
        |_, place| {
            ask(place, begin);
            nothing()
        },
        |_, place| ask(place, end),
    )
    .await
}

/// Everything ran once.
fn all_once(place: &Place) {
    place.journal.assert_once_each("after", 10);
}

#[tokio::test]
async fn too_few_replicas_are_waited_out() {
    let place = ride_out_commands(
        &[&["CONFIG", "SET", "min-replicas-to-write", "1"]],
        &[&["CONFIG", "SET", "min-replicas-to-write", "0"]],
    )
    .await;
    all_once(&place);
}

#[tokio::test]
async fn a_server_that_is_a_replica_for_a_while_is_waited_out() {
    let place = ride_out_commands(
        &[&["REPLICAOF", "127.0.0.1", "1"]],
        &[&["REPLICAOF", "NO", "ONE"]],
    )
    .await;
    all_once(&place);
}

/// Reads work without memory; a stream and a group cannot be made.
#[tokio::test]
async fn a_stream_deleted_while_there_is_no_memory_is_waited_for() {
    let place = ride_out_commands(
        &[&["CONFIG", "SET", "maxmemory", "1"], &["DEL", "jobs"]],
        &[&["CONFIG", "SET", "maxmemory", "0"]],
    )
    .await;
    all_once(&place);
}

#[tokio::test]
async fn paused_clients_are_waited_for() {
    let place = ride_out_commands(
        &[&["CLIENT", "PAUSE", "60000", "WRITE"]],
        &[&["CLIENT", "UNPAUSE"]],
    )
    .await;
    all_once(&place);
}

#[tokio::test]
async fn a_server_with_too_many_clients_is_waited_for() {
    let place = ride_out_commands(
        &[
            &["CONFIG", "SET", "maxclients", "1"],
            &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
        ],
        &[&["CONFIG", "SET", "maxclients", "1000"]],
    )
    .await;
    all_once(&place);
}

#[tokio::test]
async fn a_long_script_is_waited_for() {
    let server = Server::with(&["--lua-time-limit", "20"]);
    let begin = |server: &Server, place: &Place| -> Hold {
        let mut client = server.connect();
        let endless = ["EVAL", "while true do end", "0"];
        client.send(&endless).expect("sent");
        while !matches!(place.ask(&["GET", "key"]), Reply::Error(_)) {}
        Box::new(client)
    };
    let end = |_: &Server, place: &Place| {
        place.ask(&["SCRIPT", "KILL"]);
        while matches!(place.ask(&["GET", "key"]), Reply::Error(_)) {}
    };
    all_once(&ride_out(&server, begin, end).await);
}

/// The name of the snapshot is taken by a directory, so that none can be written.
#[tokio::test]
async fn a_server_that_cannot_save_is_waited_for() {
    let server = Server::with(&["--save", "3600 1000000", "--dbfilename", "taken"]);
    let until_saved = |place: &Place, well: bool| {
        let status = if well { "status:ok" } else { "status:err" };
        rillkit_servers::wait_until("a snapshot has ended", || {
            let state = place.ask(&["INFO", "persistence"]).text();
            let is_over = state.contains("rdb_bgsave_in_progress:0");
            if is_over && state.contains(&format!("rdb_last_bgsave_{status}")) {
                return true;
            }
            if is_over {
                place.ask(&["BGSAVE"]);
            }
            false
        });
    };
    let begin = |server: &Server, place: &Place| {
        let taken = server.directory().join("taken");
        // A snapshot may be there from before.
        let _ = std::fs::remove_file(&taken);
        std::fs::create_dir_all(taken.join("inside")).expect("a directory");
        until_saved(place, false);
        nothing()
    };
    let end = |server: &Server, place: &Place| {
        std::fs::remove_dir_all(server.directory().join("taken")).expect("removed");
        until_saved(place, true);
    };
    all_once(&ride_out(&server, begin, end).await);
}

#[tokio::test]
async fn a_group_that_is_destroyed_again_and_again_is_made_again_without_haste() {
    let (lines, server) = (Lines::listen(), Server::start());
    let place = Place::on(&server);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    let before = reads(&place);
    let began = std::time::Instant::now();
    while began.elapsed() < HELD {
        place.ask(&["XGROUP", "DESTROY", "jobs", "workers"]);
        tokio::time::sleep(SHORT).await;
    }
    let tries = reads(&place) - before;
    assert!(tries < TRIES, "{tries} reads");
    assert!(lines.with(" WARN ").len() <= 40, "{:#?}", lines.all());
    for number in 0..10 {
        add(&place, &format!("after{number}"));
    }
    until("all are handled", || handled(&place, 10)).await;
    running.drained().await.expect("drained");
    place.journal.assert_once_each("after", 10);
    running.stop().await;
}

/// What it holds is loaded slowly, so that it refuses for some seconds at its start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_loading_is_waited_for() {
    // In microseconds for each key. It looks at its clients every two million bytes meanwhile.
    let slow = ["--key-load-delay", "1000", "--rdbcompression", "no"];
    let server = Server::with(&slow);
    let place = Place::on(&server);
    let fill = "for i = 1, 4000 do redis.call('SET', 'key' .. i, ('x'):rep(2000)) end";
    place.ask(&["EVAL", fill, "0"]);
    let broker = place.worker(handlers![handle]);
    let running = broker.start().await.expect("started");
    let second = place.worker(handlers![handle]);
    assert_eq!(place.ask(&["SAVE"]).text(), "OK");
    server.stop();
    let restarted = tokio::task::spawn_blocking(move || {
        server.restart();
        server
    });
    let starting = tokio::spawn({
        let second = second.clone();
        async move { second.start().await }
    });
    let loads = |broker: &rillkit::Broker| {
        let mut handlers = broker.health().handlers.into_iter();
        handlers.any(|handler| {
            let error = handler.last_error.map(|(text, _)| text);
            error.is_some_and(|text| text.starts_with("LOADING"))
        })
    };
    until("both see that it is loading", || {
        assert!(broker.health().verdict <= HealthVerdict::NotReady);
        loads(&broker) && loads(&second)
    })
    .await;
    let server = restarted.await.expect("no panic");
    let place = place.again(&server);
    let another = starting.await.expect("no panic").expect("started");
    for number in 0..10 {
        add(&place, &format!("after{number}"));
    }
    until("all are handled", || handled(&place, 10)).await;
    place.journal.assert_once_each("after", 10);
    running.stop().await;
    another.stop().await;
}
