//! How many connections a process has: one reader for each handler, one shared, one that keeps leases.

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::Server;
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, until};

#[rustfmt::skip]
macro_rules! handler {
    ($name:ident, $stream:literal) => {
        #[subscribe(
            stream = $stream,
            group = "workers",
            claim_idle_ms = 300,
            block_ms = 100,
            concurrency = 2
        )]
        async fn $name(
            job: Job,
            msg: Message,
            journal: State<Journal>,
        ) -> Result<(), HandlerError> {
            act(job, msg, journal).await
        }
    };
}
handler!(one, "one");
handler!(two, "two");
handler!(three, "three");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_as_many_as_documented_also_after_many_breaks() {
    const EXPECTED: usize = 3 + 1 + 1;
    let server = Server::start();
    let place = Place::on(&server);
    let running = place
        .worker(handlers![one, two, three])
        .start()
        .await
        .expect("started");
    let asking = place.ask(&["CLIENT", "ID"]).int();
    let connections = || {
        let list = place.ask(&["CLIENT", "LIST"]).text();
        let others = |line: &&str| !line.starts_with(&format!("id={asking} "));
        list.lines().filter(others).count()
    };
    // A run that outlasts its lease, so that there is a lease to keep.
    let body = serde_json::to_string(&Job::new("long", "sleep:60000")).expect("JSON");
    place.ask(&["XADD", "one", "*", "data", &body]);
    until("all are connected", || connections() == EXPECTED).await;
    for round in 1..=20 {
        let killed = place
            .ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
            .int();
        assert_eq!(killed, EXPECTED as i64);
        for stream in ["one", "two", "three"] {
            let body = serde_json::to_string(&Job::new(stream, "ok")).expect("JSON");
            place.ask(&["XADD", stream, "*", "data", &body]);
        }
        until("new messages are handled", || {
            assert!(connections() <= EXPECTED);
            place.journal.ended() == 3 * round
        })
        .await;
        until("all are connected again", || connections() == EXPECTED).await;
    }
    assert_eq!(place.journal.deliveries("long"), [1]);
    drop(running);
}

/// As in programs that keep a broker in a static: its connections do not outlive a runtime, it does.
#[test]
fn a_broker_works_on_one_runtime_after_another() {
    let place = Place::redis();
    let broker = place.worker(handlers![one]);
    for round in 1..=3 {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let running = broker.start().await.expect("started");
            let published = broker.publish("one", &Job::new("job", "ok")).await;
            published.expect("published");
            running.drained().await.expect("drained");
            running.stop().await;
        });
        assert_eq!(place.journal.ended(), round);
    }
}

/// A server that takes no more clients is waited for as one that is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_no_more_clients_is_waited_for() {
    let server = Server::start();
    let place = Place::on(&server);
    // This place's own client is one.
    place.ask(&["CONFIG", "SET", "maxclients", "2"]);
    let worker = place.worker(handlers![one]);
    let starting = tokio::spawn(async move { worker.start().await });
    until("clients are refused", || {
        let statistics = place.ask(&["INFO", "stats"]).text();
        !statistics.contains("rejected_connections:0\r")
    })
    .await;
    place.ask(&["CONFIG", "SET", "maxclients", "100"]);
    let running = starting.await.expect("no panic").expect("started");
    let body = serde_json::to_string(&Job::new("job", "ok")).expect("JSON");
    place.ask(&["XADD", "one", "*", "data", &body]);
    until("it is handled", || place.journal.ended() == 1).await;
    running.drained().await.expect("drained");
    assert_eq!(place.journal.deliveries("job"), [1]);
    running.stop().await;
}

/// The server closes connections on which nothing is said, as it is often set up to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_the_server_closes_when_idle_cost_nothing() {
    let server = Server::with(&["--timeout", "1"]);
    let place = Place::on(&server);
    let running = place.worker(handlers![one]).start().await.expect("started");
    for round in 1..=3 {
        let began = std::time::Instant::now();
        until("it is idle for long", || began.elapsed().as_millis() > 2500).await;
        let job = Job::new(format!("job{round}"), "err,ok");
        let body = serde_json::to_string(&job).expect("JSON");
        server.command(&["XADD", "one", "*", "data", &body]);
        until("it is handled", || place.journal.ended() == 2 * round).await;
        until("it is acked", || {
            server.command(&["XPENDING", "one", "workers"])[0].int() == 0
        })
        .await;
        assert_eq!(place.journal.deliveries(&format!("job{round}")), [1, 2]);
    }
    running.stop().await;
}
