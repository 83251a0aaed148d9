//! `stats`, `groups` and `pending`.

use std::time::Duration;

use rillkit::{Broker, handlers, subscribe};
use serde_json::{Value, json};

use crate::scene::Scene;

#[subscribe(stream = "jobs", group = "workers", max_retries = 7)]
async fn run_job(_job: Value) {}

fn first_words(table: &str) -> Vec<&str> {
    let lines = table.lines();
    lines
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[test]
fn stats_shows_all_streams_or_those_that_are_named() {
    let scene = Scene::new();
    let empty = scene.run(&["stats"]);
    assert_eq!((empty.code, &*empty.out), (0, ""));
    assert_eq!(empty.err, "there are no streams\n");
    for body in ["1", "2", "3"] {
        scene.add("jobs", body);
    }
    scene.add("jobs-dlq", "1");
    scene.server.command(&["SET", "no stream", "1"]);
    scene.read("jobs", "workers", "c", "2");

    let table = scene.text(&["stats"]);
    assert_eq!(first_words(&table), ["STREAM", "jobs", "jobs-dlq"]);
    let jobs: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    let pick = |places: &[usize]| places.iter().map(|at| jobs[*at]).collect::<Vec<_>>();
    // Length, groups, pending and dead letters; ages stand in between.
    assert_eq!(pick(&[1, 4, 5, 7]), ["3", "1", "2", "1"], "{table}");

    let document = scene.json(&["stats", "jobs"]);
    let streams = document["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 1);
    let of = |name: &str| &streams[0][name];
    assert_eq!((of("stream"), of("length")), (&json!("jobs"), &json!(3)));
    assert_eq!((of("pending"), of("dead_letters")), (&json!(2), &json!(1)));
    assert!(matches!(of("lag").as_u64(), Some(1) | None), "{document}");
    let ids = scene.server.command(&["XRANGE", "jobs", "-", "+"]).list();
    assert_eq!(of("first"), &json!(ids[0].list()[0].text()));
    assert_eq!(of("last"), &json!(ids[2].list()[0].text()));
    assert!(document["server"]["version"].is_string(), "{document}");
}

#[test]
fn what_is_named_and_not_there_is_an_error() {
    let scene = Scene::new();
    scene.add("jobs", "1");
    for (arguments, error) in [
        (&["stats", "none"][..], "there is no stream `none`"),
        (&["groups", "none"], "there is no stream `none`"),
        (&["pending", "none", "workers"], "there is no stream `none`"),
        (&["pending", "jobs", "none"], "`jobs` has no group `none`"),
    ] {
        let ran = scene.run(arguments);
        assert_eq!((ran.code, &*ran.out), (1, ""), "{ran:?}");
        assert!(
            ran.err.starts_with(&format!("error: {error}; `rillkit ")),
            "{ran:?}"
        );
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    }
    scene.server.command(&["SET", "text", "1"]);
    let ran = scene.run(&["stats", "text"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("WRONGTYPE"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_tells_running_workers_from_other_consumers() {
    let scene = Scene::new();
    scene.add("jobs", "1");
    scene.read("jobs", "workers", "other\nclient", "1");
    let broker = Broker::connect(&scene.server.url()).unwrap();
    let broker = broker.with_handlers(handlers![run_job]);
    let running = broker.start().await.unwrap();
    let workers = async || broker.inspect("jobs").workers().await.unwrap();
    while workers().await.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Its consumer is there once it has read.
    broker.publish("jobs", &2).await.unwrap();
    let name = workers().await[0].consumer.clone();
    let consumers = async || broker.inspect("jobs").consumers("workers").await.unwrap();
    while !consumers().await.iter().any(|one| one.name == name) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let document = scene.json(&["groups", "jobs"]);
    let group = &document["groups"][0];
    assert_eq!(
        (&group["name"], &group["consumers"]),
        (&json!("workers"), &json!(2))
    );
    let member = |name: &str| {
        let members = group["members"].as_array().unwrap();
        members
            .iter()
            .find(|one| one["name"] == name)
            .unwrap()
            .clone()
    };
    let worker = member(&name);
    assert_eq!(worker["state"], "running");
    assert_eq!(worker["worker"]["max_retries"], 7);
    assert!(
        worker["worker"]["handler"]
            .as_str()
            .unwrap()
            .ends_with("::run_job")
    );
    let other = member("other\nclient");
    assert_eq!(
        (&other["state"], &other["pending"]),
        (&json!("unknown"), &json!(1))
    );

    let table = scene.text(&["groups", "jobs", "--consumers"]);
    let heads: Vec<_> = table
        .lines()
        .filter(|line| line.starts_with("GROUP"))
        .collect();
    assert_eq!(heads.len(), 2, "{table}");
    let line = |name: &str| table.lines().find(|line| line.contains(name)).unwrap();
    assert!(line(&name).contains(" running "), "{table}");
    assert!(line("other\\nclient").contains(" unknown"), "{table}");

    running.stop().await;
    assert_eq!(workers().await, []);
}

#[test]
fn pending_lists_what_is_asked_for() {
    let scene = Scene::new();
    let ids: Vec<_> = (0..4).map(|n| scene.add("jobs", &n.to_string())).collect();
    scene.read("jobs", "workers", "a", "1");
    scene.read("jobs", "workers", "b", "3");
    let old = [
        "XCLAIM", "jobs", "workers", "b", "0", &ids[2], "IDLE", "7200000",
    ];
    scene.server.command(&[&old[..], &["JUSTID"]].concat());

    let listed = |more: &[&str]| {
        let document = scene.json(&[&["pending", "jobs", "workers"], more].concat());
        let rows = document["pending"].as_array().unwrap().clone();
        rows.iter()
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(listed(&[]), ids);
    assert_eq!(listed(&["--consumer", "b"]), ids[1..]);
    assert_eq!(listed(&["--idle", "1h30m"]), ids[2..3]);
    assert_eq!(listed(&["--from", &ids[3]]), ids[3..]);
    assert_eq!(listed(&["-n", "2"]), ids[..2]);

    let ran = scene.run(&["pending", "jobs", "workers", "-n", "2"]);
    assert_eq!(first_words(&ran.out), ["ID", &ids[0], &ids[1]]);
    assert_eq!(
        ran.err,
        "4 messages pending in the group; `--count` shows more\n"
    );
    let old = scene.text(&["pending", "jobs", "workers", "--idle", "1h"]);
    let row: Vec<_> = old.lines().nth(1).unwrap().split_whitespace().collect();
    // One hand-out, for `b`, two hours ago.
    assert_eq!(row[2..], ["2h", "1", "b"], "{old}");
    let none = scene.run(&["pending", "jobs", "workers", "--consumer", "nobody"]);
    assert_eq!(
        (none.code, &*none.out, &*none.err),
        (0, "", "nothing is pending\n")
    );
    let quiet = scene.run(&["pending", "jobs", "workers", "--consumer", "nobody", "-q"]);
    assert_eq!((quiet.code, &*quiet.err), (0, ""));
}
