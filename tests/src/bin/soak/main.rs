//! The soak: worker processes, a publisher, and faults of all kinds by chance, for as long as is asked for; and
//! then whether everything is as it was promised.
//!
//! `soak --seconds 600 [--seed N] [--destroy-groups]`

mod fleet;
mod holdings;
mod invariants;
mod ledger;
mod plan;
mod publisher;
mod scene;
mod schedule;
mod story;
mod verdict;
mod worker;

use std::env;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::holdings::Holdings;
use crate::ledger::{Ledger, now};
use crate::plan::PLANS;
use crate::publisher::Publisher;
use crate::scene::Scene;
use crate::schedule::schedule;

const USAGE: &str = "soak --seconds SECONDS [--seed NUMBER] [--destroy-groups]";
/// In which everything that is left is handled, and the last retries are over.
const QUIET: Duration = Duration::from_secs(60);

struct Arguments {
    seconds: u64,
    seed: u64,
    destroys_groups: bool,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self {
            seconds: 20,
            seed: now(),
            destroys_groups: false,
        };
        while let Some(word) = words.next() {
            let place = match word.as_str() {
                "--seconds" => &mut parsed.seconds,
                "--seed" => &mut parsed.seed,
                "--destroy-groups" => {
                    parsed.destroys_groups = true;
                    continue;
                }
                _ => return Err(format!("unknown argument `{word}`; expected {USAGE}")),
            };
            let value = words.next().and_then(|value| value.parse().ok());
            *place = value.ok_or_else(|| format!("`{word}` wants a number: {USAGE}"))?;
        }
        Ok(parsed)
    }
}

fn main() -> ExitCode {
    if env::args().nth(1).as_deref() == Some("--worker") {
        return worker::main();
    }
    match Arguments::parse(env::args().skip(1)) {
        Ok(arguments) => soak(&arguments),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn soak(arguments: &Arguments) -> ExitCode {
    let Arguments {
        seconds,
        seed,
        destroys_groups,
    } = *arguments;
    println!("seed {seed}, {seconds} seconds of faults");
    let steps = schedule(seed, Duration::from_secs(seconds), destroys_groups);
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let mut scene = Scene::new(Arc::clone(&ledger));
    for _ in 0..3 {
        scene.start_worker();
    }
    let publisher = Publisher::start(&scene.publishers_url(), &ledger);
    for step in &steps {
        scene.take(step);
    }
    scene.calm();
    publisher.stop();

    let began = Instant::now();
    while !Holdings::are_done(&scene.server) && began.elapsed() < QUIET {
        scene.calm();
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("quiet after {:.1} s", began.elapsed().as_secs_f64());
    let connections = holdings::connections(&scene.server);
    let workers = scene.fleet.size();
    scene.fleet.stop_all();

    let holdings = Holdings::of(&scene.server);
    let mut ledger = fleet::lock(&ledger);
    ledger.sort();
    for (fault, count) in &scene.injected {
        println!("injected {count:5} {fault:?}");
    }
    println!("replies that were lost: {}", scene.lost_replies());
    let mut violations = std::mem::take(&mut scene.fleet.complaints);
    let (least, most) = (workers * (PLANS.len() + 1), workers * (PLANS.len() + 2));
    println!("{connections} connections of {workers} workers, {least} to {most} as documented");
    if !(least..=most).contains(&connections) {
        violations.push(format!("{connections} connections of {workers} workers"));
    }
    violations.extend(verdict::all(&ledger, &holdings));
    if violations.is_empty() {
        println!("all invariants hold");
        return ExitCode::SUCCESS;
    }
    for violation in violations.iter().take(20) {
        println!("VIOLATION {violation}");
    }
    let count = violations.len();
    println!("{count} violations; again with `--seconds {seconds} --seed {seed}`");
    ExitCode::FAILURE
}
