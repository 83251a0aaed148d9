//! How runs end, and what is said in which colours.

use std::process::Stdio;

use crate::scene::{Scene, program, ran};

#[test]
fn a_server_that_is_not_there_is_told_with_what_to_do() {
    let scene = Scene::new();
    let url = scene.server.url();
    scene.server.stop();
    for arguments in [
        &["stats"][..],
        &["groups", "jobs"],
        &["pending", "jobs", "workers"],
        &["publish", "jobs", "1"],
        &["tail", "jobs"],
        &["check"],
    ] {
        let ran = scene.run(arguments);
        assert_eq!((ran.code, &*ran.out), (3, ""), "{arguments:?} {ran:?}");
        let address = url.trim_start_matches("redis://");
        assert!(
            ran.err.starts_with("error: ") && ran.err.contains(address),
            "{ran:?}"
        );
        let cure = "; start the server, or say where it is with `--url` or `REDIS_URL`\n";
        assert!(ran.err.ends_with(cure), "{ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    }
}

#[test]
fn arguments_that_cannot_be_understood_end_with_two() {
    for (arguments, error) in [
        (&["nonsense"][..], "unrecognized subcommand"),
        (&["groups"], "<STREAM>"),
        (&["stats", "--url", "http://x"], "expected `redis://`"),
        (&["stats", "--url", "memory://"], "in one process"),
        (&["pending", "s", "g", "--idle", "soon"], "expected a time"),
        (&["pending", "s", "g", "--from", "x"], "is not an entry id"),
        (&["publish", "s", "1", "-H", "x"], "expected NAME=VALUE"),
    ] {
        let ran = ran(&mut program(arguments), "");
        assert_eq!((ran.code, &*ran.out), (2, ""), "{ran:?}");
        assert!(
            ran.err.starts_with("error: ") && ran.err.contains(error),
            "{ran:?}"
        );
    }
}

#[test]
fn help_has_the_exit_codes() {
    let ran = ran(&mut program(&["--help"]), "");
    assert_eq!(ran.code, 0);
    for line in [
        "  0  done",
        "  3  the server cannot be reached",
        "  4  `check` found something to mend",
    ] {
        assert!(ran.out.contains(line), "{ran:?}");
    }
}

#[test]
fn a_reader_that_goes_is_no_error() {
    let scene = Scene::new();
    for _ in 0..20 {
        let body = format!("\"{}\"", "x".repeat(10_000));
        scene.add("jobs", &body);
    }
    let mut command = scene.command(&["tail", "jobs", "--after", "0", "--no-follow"]);
    let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().expect("it starts");
    // More than a pipe holds is still to come.
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn colours_are_for_terminals_and_for_those_who_ask() {
    let scene = Scene::new();
    scene.add("jobs", "1");
    let coloured = |arguments: &[&str]| scene.text(arguments).contains('\u{1b}');
    assert!(!coloured(&["stats"]));
    assert!(coloured(&["stats", "--color", "always"]));
    assert!(!coloured(&["stats", "--color", "never"]));
    assert!(!coloured(&["stats", "--json", "--color", "always"]));
    let error = scene.run(&["groups", "none", "--color", "always"]).err;
    assert!(error.starts_with("\u{1b}["), "{error}");
}

#[test]
fn shells_get_their_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = ran(&mut program(&["completions", shell]), "");
        assert_eq!(ran.code, 0);
        assert!(
            ran.out.contains("rillkit") && ran.out.contains("pending"),
            "{shell}"
        );
    }
}
