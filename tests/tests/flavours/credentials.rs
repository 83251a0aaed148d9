//! User names and passwords: in any characters, and such that change.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rillkit::{Broker, Credentials, ErrorKind, Server};
use rillkit_servers::Server as Process;

use crate::place::{Seen, handled, handled_after_all, start, until, worker};

const ODD: &str = "p@:/#% ?&\"'\\ü";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_characters_will_do() {
    let process = Process::start();
    let password = format!(">{ODD}");
    let user = ["ACL", "SETUSER", "us@er:/", "on", &password, "~*", "+@all"];
    assert_eq!(process.command(&user).text(), "OK");
    let at = |url: &str| Server::at(url).expect("a good URL");
    let server = at(&process.url()).username("us@er:/").password(ODD);
    let seen = Seen::default();
    let broker = worker(Broker::on_server(server), &seen);
    let running = start(&broker).await.expect("started");
    handled(&broker, &seen, "one").await;
    running.stop().await;
    // They win over those of the URL.
    let url = process.url().replace("redis://", "redis://someone:else@");
    let server = at(&url).username("us@er:/").password(ODD);
    let broker = Broker::on_server(server).expect("a good server");
    broker.publish("jobs", "two").await.expect("published");
}

#[tokio::test]
async fn a_wrong_password_is_an_error_without_it() {
    let process = Process::with(&["--requirepass", "right"]);
    let server = Server::at(&process.url())
        .expect("a good URL")
        .password("S3CR3T");
    let broker = worker(Broker::on_server(server), &Seen::default());
    let error = start(&broker).await.expect_err("a wrong password");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
    assert!(!format!("{error} {error:?} {broker:?}").contains("S3CR3T"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_are_asked_for_at_each_connection() {
    let process = Process::with(&["--requirepass", "first"]);
    let (password, asked) = (Arc::new(Mutex::new("first")), Arc::new(AtomicUsize::new(0)));
    let (current, count) = (Arc::clone(&password), Arc::clone(&asked));
    let server = Server::at(&process.url()).expect("a good URL");
    let server = server.credentials(move || {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(Credentials::password(
            *current.lock().expect("never poisoned"),
        ))
    });
    let seen = Seen::default();
    let broker = worker(Broker::on_server(server), &seen);
    let running = start(&broker).await.expect("started");
    handled(&broker, &seen, "one").await;

    // The server has a new password, and the program does not know it yet.
    let mut client = process.connect();
    let set = client.command(&["CONFIG", "SET", "requirepass", "second"]);
    assert_eq!(set.expect("an answer").text(), "OK");
    let before = asked.load(Ordering::SeqCst);
    let kill = client.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    assert!(kill.expect("an answer").int() > 0);
    until("the old password was refused more than once", || {
        asked.load(Ordering::SeqCst) > before + 3
    })
    .await;
    // The first notices that the connection is gone.
    let _ = broker.publish("jobs", "refused").await;
    let error = broker
        .publish("jobs", "refused")
        .await
        .expect_err("no login");
    assert_eq!(error.kind(), ErrorKind::NotSent, "{error}");
    assert!(error.to_string().contains("WRONGPASS"), "{error}");

    *password.lock().expect("never poisoned") = "second";
    handled_after_all(&broker, &seen, "two").await;
    assert!(!seen.has("refused"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_waits_for_credentials() {
    let process = Process::with(&["--requirepass", "right"]);
    let asked = AtomicUsize::new(0);
    let server = Server::at(&process.url()).expect("a good URL");
    let server = server.credentials(move || match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Err("the vault is closed".into()),
        1 => panic!("the vault is on fire"),
        2 => Ok(Credentials::password("wrong")),
        _ => Ok(Credentials::new("default", "right")),
    });
    let seen = Seen::default();
    let broker = worker(Broker::on_server(server), &seen);
    let error = broker
        .publish("jobs", "none")
        .await
        .expect_err("no credentials");
    assert_eq!(error.kind(), ErrorKind::NotSent);
    assert!(error.to_string().contains("the vault is closed"), "{error}");
    let running = start(&broker).await.expect("started");
    handled(&broker, &seen, "one").await;
    running.stop().await;
}
