//! `publish`.

use serde_json::json;

use crate::scene::Scene;

/// What the stream holds: the fields of each entry, name and value in turn.
fn held(scene: &Scene, stream: &str) -> Vec<Vec<String>> {
    let entries = scene.server.command(&["XRANGE", stream, "-", "+"]).list();
    let fields = |entry: &rillkit_servers::Reply| entry.list()[1].list();
    let texts = |fields: Vec<rillkit_servers::Reply>| fields.iter().map(|one| one.text()).collect();
    entries.iter().map(|entry| texts(fields(entry))).collect()
}

#[test]
fn one_message_is_published_as_it_is_written() {
    let scene = Scene::new();
    // Neither the order of names nor a large number is touched.
    let body = r#"{"z": 1, "a": 123456789012345678901234567890}"#;
    let id = scene.text(&["publish", "jobs", body, "-H", "origin=by=hand"]);
    let entries = scene.server.command(&["XRANGE", "jobs", "-", "+"]).list();
    assert_eq!(entries[0].list()[0].text(), id.trim());
    assert_eq!(
        held(&scene, "jobs"),
        [["data", body, "h-origin", "by=hand"]]
    );
    let document = scene.json(&["publish", "jobs", "2"]);
    assert_eq!(document["stream"], "jobs");
    let last = scene
        .server
        .command(&["XREVRANGE", "jobs", "+", "-", "COUNT", "1"]);
    assert_eq!(document["id"], last.list()[0].list()[0].text());
}

#[test]
fn each_line_of_the_input_is_a_message() {
    let scene = Scene::new();
    let lines: String = (0..2500).map(|n| format!("{{\"n\": {n}}}\n")).collect();
    let ran = scene.run_with_input(&["publish", "jobs", "-"], &format!("\n{lines}\n"));
    assert_eq!(
        (ran.code, &*ran.out),
        (0, "2500 messages published\n"),
        "{ran:?}"
    );
    let bodies: Vec<_> = held(&scene, "jobs")
        .into_iter()
        .map(|one| one[1].clone())
        .collect();
    assert_eq!(bodies, lines.lines().collect::<Vec<_>>());

    let ran = scene.run_with_input(&["publish", "few", "-", "--json", "-H", "a=b"], "1\n2");
    let document = ran.document();
    assert_eq!(
        (&document["published"], &document["stream"]),
        (&json!(2), &json!("few"))
    );
    assert_eq!(
        held(&scene, "few"),
        [["data", "1", "h-a", "b"], ["data", "2", "h-a", "b"]]
    );
}

#[test]
fn what_is_published_again_under_its_id_is_there_once() {
    let scene = Scene::new();
    let first = scene.text(&["publish", "jobs", "1", "--id", "order-42"]);
    let again = scene.text(&["publish", "jobs", "1", "--id", "order-42"]);
    assert_eq!(first, again);
    assert_eq!(held(&scene, "jobs").len(), 1);
    let ran = scene.run_with_input(&["publish", "jobs", "-", "--id", "order-42"], "1\n");
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[test]
fn publishing_can_trim() {
    let scene = Scene::new();
    let lines = "0\n".repeat(300);
    scene.run_with_input(&["publish", "jobs", "-"], &lines);
    scene.text(&["publish", "jobs", "1", "--maxlen", "100"]);
    // The server frees a hundred at a time.
    let length = scene.server.command(&["XLEN", "jobs"]).int();
    assert!((100..=201).contains(&length), "{length}");
    let ran = scene.run_with_input(&["publish", "jobs", "-", "--max-age", "1h"], "1\n2\n");
    assert_eq!(ran.out, "2 messages published\n");
}

#[test]
fn what_is_no_json_is_refused() {
    let scene = Scene::new();
    let ran = scene.run(&["publish", "jobs", "plain"]);
    assert_eq!((ran.code, &*ran.out), (2, ""));
    assert!(
        ran.err.contains("the body is not JSON") && ran.err.contains("quotes"),
        "{ran:?}"
    );
    assert_eq!(scene.server.command(&["EXISTS", "jobs"]).int(), 0);

    let ran = scene.run_with_input(&["publish", "jobs", "-"], "1\n\nplain\n4\n");
    assert_eq!((ran.code, &*ran.out), (1, ""));
    let expected = "error: line 3 of the input is not JSON: ";
    assert!(ran.err.starts_with(expected), "{ran:?}");
    assert!(ran.err.ends_with("(1 message published)\n"), "{ran:?}");
    assert_eq!(held(&scene, "jobs"), [["data", "1"]]);
}
