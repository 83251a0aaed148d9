//! `dlq`: what it shows, and that nothing changes without `--yes`.

use serde_json::{Value, json};

use crate::scene::{Scene, ran};

/// A dead letter of `jobs`; its id.
fn letter(scene: &Scene, dlq: &str, data: &str, reason: &str, error: &str) -> String {
    let add = [
        "XADD",
        dlq,
        "*",
        "data",
        data,
        "h-origin",
        "import",
        "x-original-id",
        "1-1",
        "x-stream",
        "jobs",
        "x-group",
        "workers",
        "x-error",
        error,
        "x-deliveries",
        "4",
        "x-reason",
        reason,
        "x-handler",
        "app::run_job",
    ];
    scene.server.command(&add).text()
}

fn length(scene: &Scene, stream: &str) -> i64 {
    scene.server.command(&["XLEN", stream]).int()
}

/// Three letters, the second of which timed out; their ids.
fn three(scene: &Scene) -> Vec<String> {
    let letters = [
        ("1", "error", "bad input"),
        ("2", "timeout", "took too long"),
        ("3", "error", "bad input"),
    ];
    let add = |(data, reason, error)| letter(scene, "jobs-dlq", data, reason, error);
    letters.into_iter().map(add).collect()
}

#[test]
fn letters_are_counted_listed_and_shown() {
    let scene = Scene::new();
    let none = scene.run(&["dlq", "list", "jobs"]);
    assert_eq!((none.code, &*none.err), (0, "no dead letters\n"));
    let ids = three(&scene);
    letter(&scene, "jobs-dlq", "4", "error", "\u{1b}[31m");
    scene
        .server
        .command(&["XADD", "jobs-dlq", "*", "data", "5", "x-stream", "other"]);

    let stats = scene.json(&["dlq", "stats", "jobs"]);
    assert_eq!((&stats["count"], &stats["others"]), (&json!(4), &json!(1)));
    let reasons = json!([{ "value": "error", "count": 3 }, { "value": "timeout", "count": 1 }]);
    assert_eq!(stats["by_reason"], reasons);
    assert_eq!(stats["oldest"], json!(ids[0]));
    let text = scene.text(&["dlq", "stats", "jobs"]);
    assert!(text.starts_with("4 dead letters, the oldest "), "{text}");
    assert!(
        text.contains("1 letter of other streams in the same queue\n"),
        "{text}"
    );
    assert!(
        text.contains("    2  bad input\n    1  \\u{1b}[#m\n"),
        "{text}"
    );

    let listed = |more: &[&str]| {
        let document = scene.json(&[&["dlq", "list", "jobs"], more].concat());
        let letters = document["letters"].as_array().unwrap().clone();
        letters
            .iter()
            .map(|one| one["body"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(listed(&[]), [1, 2, 3, 4]);
    assert_eq!(listed(&["--reason", "timeout"]), [2]);
    assert_eq!(listed(&["--error", "bad", "--from", &ids[1]]), [3]);
    assert_eq!(listed(&["--newest", "-n", "2"]), [4, 3]);
    assert_eq!(listed(&["--after", &ids[1], "-n", "1"]), [3]);
    assert_eq!(listed(&["--id", &ids[0], "--id", &ids[2]]), [1, 3]);
    assert_eq!(listed(&["--older-than", "1h"]), [0; 0]);

    let shown = scene.json(&["dlq", "show", "jobs", &ids[1]]);
    let of = |name: &str| shown[name].clone();
    assert_eq!((of("id"), of("reason")), (json!(ids[1]), json!("timeout")));
    assert_eq!(
        (of("deliveries"), of("original_id")),
        (json!(4), json!("1-1"))
    );
    assert_eq!(shown["fields"]["h-origin"], "import");
    let text = scene.text(&["dlq", "show", "jobs", &ids[1]]);
    assert!(
        text.starts_with(&ids[1]) && text.ends_with("\n\n2\n"),
        "{text}"
    );
    assert!(text.contains("x-error: took too long\n"), "{text}");
    let attempts = r#"[{"n":1,"consumer":"web-1","began":1000,"ended":3000,"reason":"error","error":"bad input"}]"#;
    let add = [
        "XADD",
        "jobs-dlq",
        "*",
        "data",
        "6",
        "x-error",
        "bad input",
        "x-attempts",
        attempts,
    ];
    let id = scene.server.command(&add).text();
    let text = scene.text(&["dlq", "show", "jobs", &id]);
    assert!(
        text.contains("\n  1    2s  error   web-1     bad input\n"),
        "{text}"
    );
    let shown = scene.json(&["dlq", "show", "jobs", &id]);
    assert_eq!(shown["attempts"][0]["consumer"], "web-1");
    let none = scene.run(&["dlq", "show", "jobs", "9-9"]);
    assert_eq!(none.code, 1);
    assert!(
        none.err.contains("`jobs` has no dead letter 9-9"),
        "{none:?}"
    );
}

#[test]
fn a_replay_moves_only_when_it_is_told_to() {
    let scene = Scene::new();
    let ids = three(&scene);
    let dry = scene.run(&["dlq", "replay", "jobs", "--reason", "error"]);
    let told = (dry.code, &*dry.out, &*dry.err);
    let hint = "nothing was changed; add `--yes` to do it\n";
    assert_eq!(told, (0, "2 dead letters would be moved\n", hint));
    assert_eq!((length(&scene, "jobs-dlq"), length(&scene, "jobs")), (3, 0));

    let done = scene.json(&[
        "dlq", "replay", "jobs", "--reason", "error", "-n", "1", "--yes",
    ]);
    assert_eq!(
        (&done["moved"], &done["dry_run"]),
        (&json!(1), &json!(false))
    );
    assert_eq!((length(&scene, "jobs-dlq"), length(&scene, "jobs")), (2, 1));
    let text = scene.text(&["dlq", "replay", "jobs", "--yes", "--rate", "1000"]);
    assert_eq!(text, "2 dead letters moved\n");
    assert_eq!((length(&scene, "jobs-dlq"), length(&scene, "jobs")), (0, 3));
    let left = scene
        .server
        .command(&["XRANGE", "jobs-dlq", &ids[0], "+"])
        .list();
    assert!(left.is_empty());
}

#[test]
fn a_letter_goes_back_with_another_body() {
    let scene = Scene::new();
    let ids = three(&scene);
    let wrong = scene.run(&["dlq", "edit", "jobs", &ids[0], "plain"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("the new body is not JSON"), "{wrong:?}");
    let edited = scene.json(&["dlq", "edit", "jobs", &ids[0], "{\"a\": 1}"]);
    let entry = scene.server.command(&["XRANGE", "jobs", "-", "+"]).list()[0].list();
    assert_eq!(edited, json!({ "moved": ids[0], "id": entry[0].text() }));
    assert_eq!(entry[1].list()[1].text(), "{\"a\": 1}");
    assert_eq!((length(&scene, "jobs-dlq"), length(&scene, "jobs")), (2, 1));
    let gone = scene.run(&["dlq", "edit", "jobs", &ids[0], "1"]);
    assert_eq!(gone.code, 1);

    // In an editor: one that changes it, one that leaves it, one that fails, and none.
    let with = |editor: &str| {
        let mut command = scene.command(&["dlq", "edit", "jobs", &ids[1]]);
        ran(
            command.env("EDITOR", editor).env("PATH", "/usr/bin:/bin"),
            "",
        )
    };
    let left = with("true");
    assert_eq!((left.code, &*left.out), (0, ""));
    assert_eq!(left.err, "the body is as it was: nothing was changed\n");
    assert_eq!(with("false").code, 1);
    assert_eq!(scene.run(&["dlq", "edit", "jobs", &ids[1]]).code, 2);
    assert_eq!(length(&scene, "jobs-dlq"), 2);
    let changed = with("sed -i s/2/22/");
    assert!(
        changed
            .out
            .starts_with(&format!("{} moved back, as ", ids[1])),
        "{changed:?}"
    );
    let entry = scene
        .server
        .command(&["XREVRANGE", "jobs", "+", "-"])
        .list()[0]
        .list();
    assert_eq!(entry[1].list()[1].text(), "22");
}

#[test]
fn letters_that_were_replayed_often_are_put_aside() {
    let scene = Scene::new();
    let again = [
        "XADD",
        "jobs-dlq",
        "*",
        "data",
        "1",
        "x-stream",
        "jobs",
        "rk-replays",
        "3",
    ];
    scene.server.command(&again);
    let ask = ["dlq", "replay", "jobs", "--at-most-replays", "3"];
    assert_eq!(
        scene.text(&ask),
        "0 dead letters would be moved, 1 put aside\n"
    );
    let done = scene.json(&[&ask[..], &["-y"]].concat());
    assert_eq!((&done["moved"], &done["parked"]), (&json!(0), &json!(1)));
    let parked = scene.json(&["dlq", "list", "jobs", "--parked"]);
    assert_eq!(parked["letters"][0]["body"], 1);
}

#[test]
fn a_purge_deletes_only_what_is_named_and_when_it_is_told_to() {
    let scene = Scene::new();
    three(&scene);
    let unsaid = scene.run(&["dlq", "purge", "jobs", "--yes"]);
    assert_eq!(unsaid.code, 2);
    assert!(unsaid.err.contains("`--all`"), "{unsaid:?}");
    let dry = scene.text(&["dlq", "purge", "jobs", "--all"]);
    assert_eq!(dry, "3 dead letters would be deleted\n");
    assert_eq!(length(&scene, "jobs-dlq"), 3);
    let done = scene.json(&["dlq", "purge", "jobs", "--reason", "error", "--yes"]);
    assert_eq!(done["deleted"], 2);
    let left = scene.json(&["dlq", "list", "jobs"]);
    assert_eq!(left["letters"].as_array().map(Vec::len), Some(1));
    assert_eq!(left["letters"][0]["body"], 2);
    assert_eq!(
        scene.text(&["dlq", "purge", "jobs", "--all", "-y"]),
        "1 dead letter deleted\n"
    );
    assert_eq!(length(&scene, "jobs-dlq"), 0);
}

#[test]
fn the_queue_is_the_one_that_is_named_or_that_workers_use() {
    let scene = Scene::new();
    letter(&scene, "dead", "1", "error", "e");
    let body = |more: &[&str]| {
        let document = scene.json(&[&["dlq", "list", "jobs"], more].concat());
        document["letters"][0]["body"].clone()
    };
    assert_eq!(body(&[]), Value::Null);
    assert_eq!(body(&["--queue", "dead"]), 1);
    let row = |consumer: &str, dlq: &str| {
        let row = json!({
            "group": "workers", "consumer": consumer, "handler": "app::run_job", "max_retries": 3,
            "claim_idle_ms": 60_000, "backoff": 1.0, "max_backoff_ms": 900_000, "jitter": 0.0,
            "ack_policy": "nack_on_error", "concurrency": 1, "dlq": dlq, "version": "0.1.0",
            "noted_at": 0,
        });
        let set = ["HSET", "rk:{jobs}:workers", consumer, &row.to_string()];
        scene.server.command(&set);
    };
    row("a", "dead");
    assert_eq!(body(&[]), 1);
    row("b", "deader");
    let ran = scene.run(&["dlq", "list", "jobs"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("with `--queue`: dead, deader"), "{ran:?}");
}
