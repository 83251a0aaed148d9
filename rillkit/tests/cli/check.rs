//! `check`; what each finding needs is in the program's own tests.

use std::time::Duration;

use rillkit::{Broker, handlers, subscribe};
use serde_json::{Value, json};

use crate::scene::Scene;

#[subscribe(stream = "jobs", group = "workers", claim_idle_ms = 60_000)]
async fn old(_job: Value) {}

#[subscribe(stream = "jobs", group = "workers", claim_idle_ms = 300)]
async fn new(_job: Value) {}

#[test]
fn nothing_to_mend_ends_with_zero() {
    let scene = Scene::new();
    let ran = scene.run(&["check"]);
    assert_eq!((ran.code, &*ran.out), (0, ""), "{ran:?}");
    assert_eq!(ran.err, "0 streams looked at, nothing to mend\n");
    // Notes are no findings: this server keeps nothing on disk.
    scene.add("jobs", "1");
    let ran = scene.run(&["check"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.err, "1 stream looked at, 1 note\n");
    let cure = "    redis-cli CONFIG SET appendonly yes\n";
    assert!(
        ran.out.starts_with("note server: ") && ran.out.ends_with(cure),
        "{ran:?}"
    );
}

#[test]
fn findings_end_with_four_and_name_the_cure() {
    let scene = Scene::new();
    let id = scene.add("jobs", "1");
    scene.read("jobs", "workers", "c", "1");
    scene.add("jobs", "2");
    scene.server.command(&["XDEL", "jobs", &id]);
    let policy = ["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"];
    scene.server.command(&policy);
    let ran = scene.run(&["check"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(ran.err, "1 stream looked at, 2 errors, 1 note\n");
    let lost =
        format!("error jobs/workers: 1 message pending and no longer in the stream, from {id} on");
    assert!(ran.out.contains(&lost), "{ran:?}");
    assert!(
        ran.out
            .contains("    redis-cli CONFIG SET maxmemory-policy noeviction\n")
    );

    let ran = scene.run(&["check", "jobs", "--json"]);
    assert_eq!(ran.code, 4);
    let document = ran.document();
    let findings = document["findings"].as_array().unwrap();
    let found = |code: &str| findings.iter().find(|one| one["code"] == code).unwrap();
    assert_eq!(found("eviction")["severity"], "error");
    let place = (&found("trimmed")["stream"], &found("trimmed")["group"]);
    assert_eq!(place, (&json!("jobs"), &json!("workers")));
    assert_eq!(document["streams"], json!(["jobs"]));

    // The cure cures.
    let cure = found("eviction")["cure"].as_str().unwrap();
    let words: Vec<_> = cure.split(' ').skip(1).collect();
    scene.server.command(&words);
    let after = scene.run(&["check", "jobs", "--json"]).document();
    let codes = after["findings"].as_array().unwrap().iter();
    assert!(
        codes.clone().all(|one| one["code"] != "eviction"),
        "{after}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_differ_are_found_while_they_run() {
    let scene = Scene::new();
    let broker = Broker::connect(&scene.server.url()).unwrap();
    let workers = async || broker.inspect("jobs").workers().await.unwrap().len();
    let old = broker.clone().with_handlers(handlers![old]);
    let new = broker.clone().with_handlers(handlers![new]);
    let (old, new) = (old.start().await.unwrap(), new.start().await.unwrap());
    while workers().await < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let ran = scene.run(&["check", "--json"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    let document = ran.document();
    let findings = document["findings"].as_array().unwrap().iter();
    let differ = findings.filter(|one| one["code"] == "settings-differ");
    let words: Vec<_> = differ.map(|one| one["words"].as_str().unwrap()).collect();
    assert_eq!(words.len(), 2, "{document}");
    assert!(
        words[0].contains("`claim_idle_ms`: `300` at "),
        "{document}"
    );
    assert!(words[1].contains("`handler`: "), "{document}");
    old.stop().await;
    let ran = scene.run(&["check"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    new.stop().await;
    assert_eq!(workers().await, 0);
}

#[test]
fn a_login_that_may_look_at_little_is_enough() {
    let scene = Scene::new();
    scene.add("jobs", "1");
    scene.read("jobs", "workers", "c", "1");
    let user = [
        "ACL",
        "SETUSER",
        "looker",
        "reset",
        "on",
        ">secret",
        "~jobs",
        "~jobs-dlq",
        "-@all",
        "+xinfo|stream",
        "+xinfo|groups",
        "+xinfo|consumers",
        "+xpending",
        "+xrange",
        "+xrevrange",
    ];
    scene.server.command(&user);
    let url = format!("redis://looker:secret@127.0.0.1:{}", scene.server.port());
    for arguments in [
        &["stats", "jobs"][..],
        &["groups", "jobs", "--consumers"],
        &["pending", "jobs", "workers"],
        &["tail", "jobs", "--no-follow"],
        &["check", "jobs"],
    ] {
        let ran = scene.run(&[arguments, &["--url", &url]].concat());
        assert_eq!(ran.code, 0, "{arguments:?} {ran:?}");
    }
    let ran = scene.run(&["publish", "jobs", "1", "--url", &url]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("NOPERM") && ran.err.contains("SECURITY.md"),
        "{ran:?}"
    );
    assert!(!ran.err.contains("secret"), "{ran:?}");
}
