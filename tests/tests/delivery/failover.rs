//! Servers that come back with what they kept, and servers that take over from others with what they were told.

use std::collections::BTreeSet;
use std::time::Duration;

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::{Proxy, Server};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, until};

#[subscribe(
    stream = "jobs",
    group = "workers",
    claim_idle_ms = 500,
    concurrency = 2
)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

const JOBS: usize = 200;

fn names(count: usize) -> BTreeSet<String> {
    (0..count).map(|number| format!("job{number}")).collect()
}

/// With the append-only file's own second behind it, nothing is handed out again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_started_again_keeps_the_position() {
    let server = Server::with(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    let place = Place::on(&server);
    let running = place.worker(handlers![handle]).start().await;
    let running = running.expect("started");
    place.publish_many("jobs", "job", JOBS, "ok").await;
    running.drained().await.expect("drained");
    // The server writes to its disk once a second.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    server.stop();
    server.restart();
    let place = place.again(&server);
    let body = serde_json::to_string(&Job::new("new", "ok")).expect("JSON");
    place.ask(&["XADD", "jobs", "*", "data", &body]);
    until("the new one is handled", || {
        place.journal.ended() > JOBS && place.pending("jobs", "workers").is_empty()
    })
    .await;
    place.journal.assert_once_each("job", JOBS);
    assert_eq!(place.journal.all().len(), JOBS + 1);
    running.stop().await;
}

/// Names of what the group has not acked there.
fn open(place: &Place) -> BTreeSet<String> {
    let group = place.ask(&["XINFO", "GROUPS", "jobs"])[0].list();
    let read = group
        .chunks(2)
        .find(|field| field[0].text() == "last-delivered-id");
    let read = read.expect("a position")[1].text();
    let unread = place
        .ask(&["XRANGE", "jobs", &format!("({read}"), "+"])
        .list();
    let pending = place.pending("jobs", "workers");
    let pending = pending
        .iter()
        .flat_map(|(id, _, _)| place.ask(&["XRANGE", "jobs", id, id]).list());
    let name = |entry: rillkit_servers::Reply| {
        let job: Job = serde_json::from_str(&entry[1][1].text()).expect("a job");
        job.name
    };
    unread.into_iter().chain(pending).map(name).collect()
}

/// A replica that did not hear of the last acks takes over: what it does not know to be acked runs again, and
/// nothing else; nothing is lost, and nothing is stuck.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failover_only_what_the_replica_did_not_know_runs_again() {
    let primary = Server::with(&["--repl-diskless-sync-delay", "0"]);
    let port = primary.port().to_string();
    let replica = Server::with(&["--replicaof", "127.0.0.1", &port]);
    let (place, proxy) = (Place::on(&primary), Proxy::to(primary.port()));
    let broker = place.worker_at(&proxy.url(), handlers![handle]);
    let running = broker.start().await.expect("started");
    let at_replica = Place::on(&replica);
    until("the replica follows", || {
        let state = at_replica.ask(&["INFO", "replication"]).text();
        state.contains("master_link_status:up")
    })
    .await;
    place.publish_many("jobs", "job", JOBS, "sleep:20").await;
    until("the replica has followed", || {
        at_replica.length("jobs") == JOBS as i64 && place.journal.ended() >= 50
    })
    .await;
    at_replica.ask(&["REPLICAOF", "NO", "ONE"]);
    let open = open(&at_replica);
    let promoted = place.journal.ended();
    until("more is acked that it does not know of", || {
        place.journal.ended() >= promoted + 50
    })
    .await;
    proxy.lead_to(replica.port());
    primary.stop();
    proxy.cut();

    until("everything is handled", || {
        let ended = place.journal.all();
        let ended = ended.iter().filter(|run| run.end.is_some());
        ended.map(|run| run.name.clone()).collect::<BTreeSet<_>>() == names(JOBS)
    })
    .await;
    until("everything is acked", || self::open(&at_replica).is_empty()).await;
    let mut repeated = BTreeSet::new();
    for name in names(JOBS) {
        if place.journal.runs(&name).len() > 1 {
            repeated.insert(name);
        }
    }
    assert!(repeated.len() >= 40, "the failover lost acks: {repeated:?}");
    assert!(repeated.is_subset(&open), "{repeated:?} {open:?}");
    assert_eq!(at_replica.length("jobs-dlq"), 0);
    running.stop().await;
}

/// A server that is reading its data back answers everything with an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_still_loading_is_waited_for() {
    let mut arguments = vec!["--key-load-delay", "1000"];
    // Before 7.0 it cannot be asked to answer that often, and is silent meanwhile.
    if Server::version() >= [7, 0, 0] {
        arguments.extend(["--loading-process-events-interval-bytes", "1024"]);
    }
    let server = Server::with(&arguments);
    let fill = "for i = 1, 1500 do redis.call('SET', 'key' .. i, i) end";
    server.command(&["EVAL", fill, "0"]);
    server.command(&["SAVE"]);
    server.stop();
    let place_url = server.url();
    let loading = std::thread::spawn(move || {
        server.restart();
        server
    });
    let broker = rillkit::Broker::connect(&place_url).expect("a good URL");
    let broker = broker
        .with_handlers(handlers![handle])
        .with_state(Journal::default());
    let running = broker.start().await.expect("started");
    broker
        .publish("jobs", &Job::new("job", "ok"))
        .await
        .expect("published");
    running.drained().await.expect("drained");
    running.stop().await;
    let server = loading.join().expect("it has loaded");
    assert_eq!(server.command(&["GET", "key1500"]).text(), "1500");
}
