//! What a publisher is told is so, whatever becomes of its connections; and brokers that several runtimes share.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rillkit::{Broker, ErrorKind, HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::Server;
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_killed_connections_every_id_that_was_told_is_there() {
    const COUNT: usize = 2000;
    let server = Server::start();
    let place = Place::on(&server);
    let over = AtomicBool::new(false);
    let (mut ids, mut unknown) = (Vec::new(), 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                place.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
                thread::sleep(Duration::from_millis(10));
            }
        });
        scope.spawn(|| {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            let broker = Broker::connect(&server.url()).expect("a good URL");
            runtime.block_on(async {
                for number in 0..COUNT {
                    match broker.publish("jobs", &number).await {
                        Ok(id) => ids.push(id.to_string()),
                        Err(error) if error.kind() == ErrorKind::Unknown => unknown += 1,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotSent, "{error}"),
                    }
                }
            });
            over.store(true, Ordering::SeqCst);
        });
    });
    let entries = place.ask(&["XRANGE", "jobs", "-", "+"]).list();
    let there: BTreeSet<_> = entries.iter().map(|entry| entry[0].text()).collect();
    let missing: Vec<_> = ids.iter().filter(|id| !there.contains(*id)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(ids.len() > COUNT / 2, "{} of {COUNT}", ids.len());
    assert!(unknown > 0, "no publication was hit");
    assert!(
        there.len() <= ids.len() + unknown,
        "one was published twice"
    );
}

macro_rules! handler {
    ($name:ident, $stream:literal) => {
        #[subscribe(stream = $stream, group = "workers")]
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
handler!(other, "other");
handler!(third, "third");

/// As a program keeps it that has no place of its own to put it.
static SHARED: OnceLock<(Server, Broker)> = OnceLock::new();

fn shared() -> &'static Broker {
    let (_, broker) = SHARED.get_or_init(|| {
        let server = Server::start();
        let broker = Broker::connect(&server.url()).expect("a good URL");
        (server, broker)
    });
    broker
}

async fn publish_and_handle(
    stream: &'static str,
    handlers: impl IntoIterator<Item = &'static rillkit::Subscription>,
) {
    let journal = Journal::default();
    let broker = shared().clone();
    let worker = broker.with_handlers(handlers).with_state(journal.clone());
    for round in 1..=3 {
        let running = worker.start().await.expect("started");
        for number in 0..20 {
            let job = Job::new(format!("job{number} of {round}"), "ok");
            // Another test's runtime may end and take the connection along that it drives.
            while let Err(error) = shared().publish(stream, &job).await {
                assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
            }
        }
        while let Err(error) = running.drained().await {
            assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        }
        until("all have run", || journal.ended() >= 20 * round).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_static_broker_works_in_one_test() {
    publish_and_handle("one", handlers![one]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_static_broker_works_in_another_test() {
    publish_and_handle("other", handlers![other]).await;
}

#[test]
fn a_static_broker_works_on_a_thread_with_a_runtime_of_its_own() {
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(publish_and_handle("third", handlers![third]));
    };
    for _ in 0..2 {
        thread::spawn(work).join().expect("it has worked");
    }
}
