//! A short soak with the same faults each time, and one with others each time.

use std::process::Command;

fn soak(arguments: &[&str]) {
    let run = Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(arguments)
        .output()
        .expect("the soak can be started");
    let said = String::from_utf8_lossy(&run.stdout);
    let complained = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}\n{complained}");
    println!("{said}");
}

#[test]
fn everything_is_as_promised_under_faults_of_all_kinds() {
    soak(&["--seconds", "20", "--seed", "1"]);
}

#[test]
fn everything_is_as_promised_under_faults_by_chance() {
    soak(&["--seconds", "20"]);
}
