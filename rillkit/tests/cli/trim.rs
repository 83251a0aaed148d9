//! `trim`.

use serde_json::json;

use crate::scene::Scene;

#[test]
fn what_every_group_has_handled_goes_when_it_is_told_to() {
    let scene = Scene::new();
    let ids: Vec<_> = (0..5).map(|n| scene.add("jobs", &n.to_string())).collect();
    scene.read("jobs", "workers", "c", "4");
    for id in &ids[..3] {
        scene.server.command(&["XACK", "jobs", "workers", id]);
    }
    let length = || scene.server.command(&["XLEN", "jobs"]).int();
    let dry = scene.run(&["trim", "jobs"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert!(
        dry.out
            .starts_with("3 entries would be removed, 2 would be left\n"),
        "{dry:?}"
    );
    assert!(
        dry.out.contains(&format!("workers       {}", ids[3])),
        "{dry:?}"
    );
    assert!(dry.err.contains("add `--yes`"), "{dry:?}");
    assert_eq!(length(), 5);

    let keep = scene.json(&["trim", "jobs", "--keep", "3", "--yes"]);
    assert_eq!(
        (&keep["removed"], &keep["dry_run"]),
        (&json!(2), &json!(false))
    );
    assert_eq!(length(), 3);
    let old = scene.json(&["trim", "jobs", "--older-than", "1h", "--yes"]);
    assert_eq!(old["removed"], 0);
    let done = scene.json(&["trim", "jobs", "--yes"]);
    let hold = &done["holds"][0];
    assert_eq!(
        (&hold["group"], &hold["from"]),
        (&json!("workers"), &json!(ids[3]))
    );
    assert_eq!((length(), &done["removed"]), (2, &json!(1)));
    let ignored = scene.json(&[
        "trim",
        "jobs",
        "--ignore",
        "workers",
        "--even-without-groups",
        "-y",
    ]);
    assert_eq!((length(), &ignored["removed"]), (0, &json!(2)));
}

#[test]
fn a_stream_without_groups_is_left_unless_that_is_said() {
    let scene = Scene::new();
    scene.add("jobs", "1");
    let ran = scene.run(&["trim", "jobs", "--yes"]);
    assert_eq!((ran.code, &*ran.out), (0, "0 entries removed, 1 left\n"));
    assert!(ran.err.contains("`--even-without-groups`"), "{ran:?}");
    let ran = scene.run(&["trim", "jobs", "--yes", "--even-without-groups"]);
    assert_eq!(ran.out, "1 entry removed, 0 left\n");
    let ran = scene.run(&["trim", "none"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("there is no stream `none`"), "{ran:?}");
}
