//! What this process has used, as Linux tells it.

use std::fs;
use std::time::Duration;

/// The most memory that it has had, in KiB.
///
/// # Panics
///
/// Where there is no `/proc`.
#[must_use]
pub fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("a number of KiB")
}

/// The processor time of the threads that this process has.
#[must_use]
pub fn cpu() -> Duration {
    cpu_of("self")
}

/// The processor time of the threads that the process of this id has.
///
/// # Panics
///
/// Where there is no such process.
#[must_use]
pub fn cpu_of(pid: &str) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let spent = threads.flatten().filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(spent.sum())
}
