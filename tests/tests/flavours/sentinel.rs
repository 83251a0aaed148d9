//! Masters that sentinels know, and failovers.

use std::time::Duration;

use rillkit::{Broker, ErrorKind, Server};
use rillkit_servers::{Sentinel, Server as Process};

use crate::place::{Seen, connections, handled, handled_after_all, start, until, worker};

fn url(sentinels: &[u16], rest: &str) -> String {
    let sentinels: Vec<_> = sentinels
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    format!("redis+sentinel://{}/{rest}", sentinels.join(","))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_master_is_followed_to_the_new_one() {
    let master = Process::start();
    let replica = Process::replica_of(&master);
    let sentinel = Sentinel::start("main", &master);
    sentinel.knows_a_replica();
    let dead = Process::start();
    dead.stop();
    let seen = Seen::default();
    let url = url(&[dead.port(), sentinel.port()], "main");
    let broker = worker(Broker::connect(&url), &seen);
    let running = start(&broker).await.expect("started");
    handled(&broker, &seen, "before").await;
    until("the replica has the message, and that it was acked", || {
        replica.command(&["XLEN", "jobs"]).int() == 1
            && replica.command(&["XPENDING", "jobs", "workers"])[0].int() == 0
    })
    .await;
    // These are on the new master too, and are handled there at the latest.
    for number in 0..20 {
        let name = format!("between{number}");
        broker
            .publish("jobs", name.as_str())
            .await
            .expect("published");
    }
    until("the replica has all messages", || {
        replica.command(&["XLEN", "jobs"]).int() == 21
    })
    .await;
    master.stop();
    until("the replica is the master", || {
        sentinel.master_port() == replica.port()
    })
    .await;
    handled_after_all(&broker, &seen, "after").await;
    until("nothing is lost", || {
        (0..20).all(|number| seen.has(&format!("between{number}")))
    })
    .await;
    until("nothing is pending", || {
        replica.command(&["XPENDING", "jobs", "workers"])[0].int() == 0
    })
    .await;
    running.stop().await;
}

/// Nobody ends the connections: what the server says about itself is all there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_writes_is_left() {
    let server = Process::start();
    let seen = Seen::default();
    let broker = worker(Broker::connect(&server.url()), &seen);
    let running = start(&broker).await.expect("started");
    handled(&broker, &seen, "one").await;
    let clients = || {
        let list = server.command(&["CLIENT", "LIST", "TYPE", "normal"]).text();
        let id = |line: &str| line.split(' ').next().map(str::to_owned);
        list.lines().filter_map(id).collect::<Vec<_>>()
    };
    let before = clients();
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    until("the reader has left, and come again", || {
        clients().iter().filter(|id| !before.contains(id)).count() >= 2
    })
    .await;
    let error = broker.publish_all("jobs", ["two", "three"]).await;
    assert!(
        error
            .expect_err("a replica")
            .to_string()
            .contains("READONLY")
    );
    server.command(&["REPLICAOF", "NO", "ONE"]);
    broker
        .publish_all("jobs", ["four", "five"])
        .await
        .expect("published");
    until("the messages are handled", || {
        seen.has("four") && seen.has("five")
    })
    .await;
    assert!(!seen.has("two"));
    until("both old connections are gone", || {
        clients().iter().all(|id| !before.contains(id))
    })
    .await;
    running.stop().await;
}

/// The old master lives on, and lets nobody go before the sentinel makes it a replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_connection_ends_at_the_new_master() {
    let master = Process::start();
    let replica = Process::replica_of(&master);
    let sentinel = Sentinel::start("main", &master);
    let seen = Seen::default();
    let broker = worker(Broker::connect(&url(&[sentinel.port()], "main")), &seen);
    let running = start(&broker).await.expect("started");
    handled(&broker, &seen, "long").await;
    until("the replica knows who has it", || {
        replica.command(&["XPENDING", "jobs", "workers"])[0].int() == 1
    })
    .await;
    sentinel.fail_over();
    let on = |process: &Process| connections(&process.command(&["CLIENT", "LIST"]));
    until("all have left the old master", || {
        on(&replica) >= 3 && master.command(&["ROLE"])[0].text() == "slave"
    })
    .await;
    handled_after_all(&broker, &seen, "after").await;
    // The lease of the long run is renewed at the new master: it stays the only run.
    let idle = || replica.command(&["XPENDING", "jobs", "workers", "-", "+", "1"])[0][2].int();
    let mut before = idle();
    for _ in 0..2 {
        until("the lease is renewed", || {
            let now = idle();
            std::mem::replace(&mut before, now) > now
        })
        .await;
    }
    assert_eq!(
        seen.all().iter().filter(|(name, _)| name == "long").count(),
        1
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_have_passwords_of_their_own() {
    let master = Process::start();
    let user = [
        "ACL",
        "SETUSER",
        "worker",
        "on",
        ">of@master",
        "~*",
        "+@all",
    ];
    assert_eq!(master.command(&user).text(), "OK");
    let sentinel = Sentinel::with("main", &master, &["--requirepass", "of sentinels"]);
    let hosts = url(&[sentinel.port()], "main/5");
    let with_user = hosts.replace("://", "://worker:of%40master@");
    let server = || Server::at(&with_user).expect("a good URL");
    let seen = Seen::default();
    let broker = worker(
        Broker::on_server(server().sentinel_password("of sentinels")),
        &seen,
    );
    let running = start(&broker).await.expect("started");
    handled(&broker, &seen, "one").await;
    let clients = master.command(&["CLIENT", "LIST"]).text();
    assert!(
        clients
            .lines()
            .any(|line| line.contains("db=5") && line.contains("user=worker"))
    );
    running.stop().await;

    let broker = worker(Broker::on_server(server()), &Seen::default());
    let error = start(&broker).await.expect_err("no password");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let words = format!("sentinel 127.0.0.1:{}: NOAUTH", sentinel.port());
    assert!(error.to_string().contains(&words), "{error}");

    let wrong = server()
        .sentinel_password("of sentinels")
        .password("S3CR3T");
    let broker = worker(Broker::on_server(wrong), &Seen::default());
    let error = start(&broker).await.expect_err("a wrong password");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
    assert!(!error.to_string().contains("S3CR3T"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_nobody_knows_is_an_error() {
    let master = Process::start();
    let sentinel = Sentinel::start("main", &master);
    let refused = async |url: String| {
        let broker = worker(Broker::connect(&url), &Seen::default());
        let error = start(&broker).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        error.to_string()
    };
    let error = refused(url(&[sentinel.port()], "other")).await;
    assert!(error.contains("knows no master `other`"), "{error}");
    // A server that is no sentinel.
    let error = refused(url(&[master.port()], "main")).await;
    assert!(error.contains("unknown command"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_are_away_are_waited_for() {
    let master = Process::start();
    let sentinel = Sentinel::start("main", &master);
    sentinel.server().freeze();
    let seen = Seen::default();
    let broker = worker(Broker::connect(&url(&[sentinel.port()], "main")), &seen);
    let early = tokio::time::timeout(Duration::from_secs(1), broker.start());
    assert!(early.await.is_err(), "it waits");
    sentinel.server().thaw();
    let running = start(&broker).await.expect("started");
    handled(&broker, &seen, "one").await;
    running.stop().await;
}
