//! `#[subscribe]` in crates of their own: one that depends on RillKit alone and lints strictly, and
//! one that knows RillKit by another name.

use std::path::Path;
use std::process::Command;

#[test]
fn handlers_compile_and_lint_in_any_crate() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fixtures = tests.join("fixtures");
    // The versions of the workspace: nothing is looked up, and what is built already serves again.
    std::fs::copy(tests.join("../Cargo.lock"), fixtures.join("Cargo.lock")).expect("Cargo.lock");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let output = Command::new(env!("CARGO"))
        .args(["clippy", "--quiet", "--offline", "--workspace"])
        .current_dir(&fixtures)
        .env("CARGO_TARGET_DIR", target)
        .output()
        .expect("cargo");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
