//! `tail`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::scene::Scene;

/// A run that goes on until it is dropped.
struct Following(Child);

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_newest_are_shown_and_no_group_notices() {
    let scene = Scene::new();
    let ids: Vec<_> = (0..12).map(|n| scene.add("jobs", &n.to_string())).collect();
    scene.read("jobs", "workers", "c", "1");
    let groups = || scene.server.command(&["XINFO", "GROUPS", "jobs"]);
    let before = groups();
    let shown = |more: &[&str]| {
        let text = scene.text(&[&["tail", "jobs", "--no-follow"], more].concat());
        let words = text
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(shown(&[]), ids[2..]);
    assert_eq!(shown(&["-n", "2"]), ids[10..]);
    assert_eq!(shown(&["--after", &ids[8]]), ids[9..]);
    assert_eq!(shown(&["--after", "0"]), ids);
    assert_eq!(groups(), before);
}

#[test]
fn entries_are_shown_whole_and_harmless() {
    let scene = Scene::new();
    let long = format!("\"{}\"", "x".repeat(500));
    let id = scene
        .server
        .command(&["XADD", "jobs", "*", "data", &long, "h-a", "\u{1b}[31m"]);
    let text = scene.text(&["tail", "jobs", "--no-follow"]);
    assert!(text.starts_with(&id.text()), "{text}");
    assert!(
        text.ends_with(&format!("{long} h-a=\\u{{1b}}[31m\n")),
        "{text}"
    );

    let document: Value =
        serde_json::from_str(&scene.text(&["tail", "jobs", "--no-follow", "--json"])).unwrap();
    assert_eq!(document["id"], id.text());
    assert_eq!(document["body"], "x".repeat(500));
    assert_eq!(
        document["fields"],
        json!({ "data": long, "h-a": "\u{1b}[31m" })
    );
}

#[test]
fn dead_letters_are_shown_with_what_went_wrong() {
    let scene = Scene::new();
    let dead = ["x-error", "bad input", "x-group", "workers"];
    for (dlq, data) in [("jobs-dlq", "1"), ("dead", "2")] {
        let add = [&["XADD", dlq, "*", "data", data][..], &dead].concat();
        scene.server.command(&add);
    }
    let usual = scene.text(&["tail", "jobs", "--dlq", "--no-follow"]);
    assert!(
        usual.ends_with("[bad input] 1 x-group=workers\n"),
        "{usual}"
    );
    let named = scene.text(&["tail", "jobs", "--dlq=dead", "--no-follow"]);
    assert!(
        named.ends_with("[bad input] 2 x-group=workers\n"),
        "{named}"
    );
}

/// A run that goes on, and the lines that it prints.
fn follow(scene: &Scene) -> (Following, Receiver<String>) {
    let mut command = scene.command(&["tail", "jobs", "-n", "0", "--json", "--quiet"]);
    let child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut following = Following(child);
    let out = following.0.stdout.take().expect("a pipe");
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    (following, lines)
}

fn id_of(line: &str) -> String {
    let document: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(document["body"], "after");
    document["id"].as_str().expect("an id").to_owned()
}

/// Adds entries until one is shown: what was added, and the one that was shown first.
fn shown_at_last(scene: &Scene, lines: &Receiver<String>) -> (Vec<String>, usize) {
    let mut added = Vec::new();
    loop {
        added.push(scene.add("jobs", "\"after\""));
        // What was added before that may still be on its way.
        while let Ok(line) = lines.recv_timeout(Duration::from_millis(300)) {
            if let Some(first) = added.iter().position(|id| *id == id_of(&line)) {
                return (added, first);
            }
        }
        assert!(added.len() < 200, "nothing is shown");
    }
}

#[test]
fn what_is_added_is_shown_when_it_is() {
    let scene = Scene::new();
    scene.add("jobs", "\"before\"");
    let (_following, lines) = follow(&scene);
    // It has begun once it shows what is added; what came before that is not shown.
    let (mut added, first) = shown_at_last(&scene, &lines);
    added.push(scene.add("jobs", "\"after\""));
    // In order, each once.
    for id in &added[first + 1..] {
        let line = lines.recv_timeout(Duration::from_secs(20));
        assert_eq!(id_of(&line.expect("a line")), *id);
    }
}

#[test]
fn a_server_that_comes_back_is_followed_again() {
    let scene = Scene::new();
    scene.add("jobs", "\"before\"");
    let (_following, lines) = follow(&scene);
    shown_at_last(&scene, &lines);
    scene.server.restart();
    shown_at_last(&scene, &lines);
}
