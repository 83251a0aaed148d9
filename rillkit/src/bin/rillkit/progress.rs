//! A line about long work, drawn over and over on a terminal and nowhere else.

use std::time::{Duration, Instant};

/// What takes less needs no line.
const BRIEF: Duration = Duration::from_millis(300);
/// How often it is drawn, at most.
const EVERY: Duration = Duration::from_millis(100);
/// Characters of the bar.
const BAR: usize = 30;

#[derive(Debug)]
pub(crate) struct Progress {
    doing: &'static str,
    total: Option<u64>,
    watched: bool,
    began: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(doing: &'static str, total: Option<u64>, watched: bool) -> Self {
        Self {
            doing,
            total,
            watched,
            began: Instant::now(),
            drawn: None,
        }
    }

    pub(crate) fn at(&mut self, done: u64) {
        let soon = match self.drawn {
            Some(drawn) => drawn.elapsed() < EVERY,
            None => self.began.elapsed() < BRIEF,
        };
        if !self.watched || soon {
            return;
        }
        self.drawn = Some(Instant::now());
        let line = line(self.doing, done, self.total, self.began.elapsed());
        eprint!("\r\x1b[K{line}");
    }
}

/// What comes next stands on a clean line.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

fn line(doing: &str, done: u64, total: Option<u64>, took: Duration) -> String {
    let rate = (done as f64 / took.as_secs_f64().max(0.001)) as u64;
    match total.filter(|total| *total > 0) {
        Some(total) => {
            let share = (done as f64 / total as f64).min(1.0);
            let full = (share * BAR as f64) as usize;
            let bar = "#".repeat(full) + &"-".repeat(BAR - full);
            format!("{doing} [{bar}] {done} of {total}, {rate}/s")
        }
        None => format!("{doing} {done}, {rate}/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_far_it_is() {
        let second = Duration::from_secs(1);
        let half = "#".repeat(15) + &"-".repeat(15);
        let line = |done, total| super::line("moving", done, total, second);
        assert_eq!(
            line(50, Some(100)),
            format!("moving [{half}] 50 of 100, 50/s")
        );
        assert!(line(300, Some(100)).contains(&"#".repeat(30)));
        assert_eq!(line(7, None), "moving 7, 7/s");
    }
}
