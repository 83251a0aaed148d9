//! `publish --delay` and `delayed`.

use serde_json::json;

use crate::scene::Scene;

#[test]
fn what_waits_is_listed_and_can_be_taken_back() {
    let scene = Scene::new();
    let none = scene.run(&["delayed", "list", "jobs"]);
    assert_eq!(
        (none.code, &*none.out, &*none.err),
        (0, "", "nothing waits\n")
    );
    let later = |body: &str, delay: &str, id: &str| {
        scene.text(&["publish", "jobs", body, "--delay", delay, "--id", id])
    };
    assert_eq!(later("2", "2h", "second"), "second\n");
    assert_eq!(later("1", "1h", "first"), "first\n");
    assert_eq!(scene.server.command(&["EXISTS", "jobs"]).int(), 0);

    let document = scene.json(&["delayed", "list", "jobs"]);
    assert_eq!(document["total"], 2);
    let messages = document["messages"].as_array().unwrap().iter();
    let told: Vec<_> = messages.map(|one| (&one["id"], &one["body"])).collect();
    assert_eq!(
        told,
        [(&json!("first"), &json!(1)), (&json!("second"), &json!(2))]
    );
    let ran = scene.run(&["delayed", "list", "jobs", "-n", "1"]);
    assert!(
        ran.out
            .lines()
            .nth(1)
            .is_some_and(|row| row.starts_with("first  59m ")),
        "{ran:?}"
    );
    assert_eq!(ran.err, "2 messages in all; `--count` shows more\n");

    assert_eq!(
        scene.text(&["delayed", "cancel", "jobs", "second"]),
        "1 message cancelled\n"
    );
    let again = scene.run(&["delayed", "cancel", "jobs", "second"]);
    assert_eq!((again.code, &*again.out), (1, "0 messages cancelled\n"));
    assert!(
        again.err.contains("nothing waits under second"),
        "{again:?}"
    );
    assert_eq!(scene.json(&["delayed", "list", "jobs"])["total"], 1);
}

#[test]
fn all_are_taken_back_when_it_is_told_to() {
    let scene = Scene::new();
    let lines: String = (0..30).map(|n| format!("{n}\n")).collect();
    let ran = scene.run_with_input(&["publish", "jobs", "-", "--delay", "1h"], &lines);
    assert_eq!(ran.out, "30 messages published\n");
    let dry = scene.run(&["delayed", "cancel", "jobs", "--all"]);
    let told = (dry.code, &*dry.out, &*dry.err);
    let hint = "nothing was changed; add `--yes` to do it\n";
    assert_eq!(told, (0, "30 messages would be cancelled\n", hint));
    assert_eq!(scene.json(&["delayed", "list", "jobs"])["total"], 30);
    let done = scene.json(&["delayed", "cancel", "jobs", "--all", "--yes"]);
    assert_eq!(done, json!({ "dry_run": false, "cancelled": 30 }));
    assert_eq!(scene.json(&["delayed", "list", "jobs"])["total"], 0);
    let neither = scene.run(&["delayed", "cancel", "jobs"]);
    assert_eq!(neither.code, 2);
}
