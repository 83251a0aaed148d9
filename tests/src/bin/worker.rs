//! A worker process to be killed, frozen and stopped by tests. It says on its standard output what runs:
//! `start NAME DELIVERY` and `end NAME DELIVERY`.
//!
//! The environment says the rest: `REDIS_URL`, `RILLKIT_ONLY`, the grace period (`GRACE_MS`), whether all
//! of it runs on one thread (`ONE_THREAD`), and whether it logs all that is logged (`LOG`). With `ACT` it runs
//! no handler: it publishes a job (`publish`), once and for all (`publish_once`) or later (`delay`, `delay_once`),
//! replays the dead jobs (`replay`, `replay_slowly`) or counts them (`count_letters`), and says how that ended.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use rillkit::{Broker, Error, HandlerError, Message, Tx, subscribe};
use rillkit_tests::Job;
use tokio::runtime::Builder;

#[subscribe(
    stream = "jobs",
    group = "workers",
    claim_idle_ms = 500,
    concurrency = 4
)]
async fn jobs(job: Job, msg: Message) -> Result<(), HandlerError> {
    run(job, msg).await
}

#[subscribe(
    stream = "deleted",
    group = "workers",
    claim_idle_ms = 500,
    concurrency = 4,
    delete_on_ack = true
)]
async fn deleted(job: Job, msg: Message) -> Result<(), HandlerError> {
    run(job, msg).await
}

#[subscribe(
    stream = "once",
    group = "workers",
    max_retries = 0,
    claim_idle_ms = 500,
    concurrency = 4
)]
async fn once(job: Job, msg: Message) -> Result<(), HandlerError> {
    run(job, msg).await
}

#[subscribe(
    stream = "first",
    group = "workers",
    claim_idle_ms = 300,
    ack_policy = ack_first
)]
async fn first(job: Job, msg: Message) -> Result<(), HandlerError> {
    run(job, msg).await
}

#[subscribe(
    stream = "single",
    group = "workers",
    max_retries = 2,
    claim_idle_ms = 200
)]
async fn single(job: Job, msg: Message) -> Result<(), HandlerError> {
    run(job, msg).await
}

#[subscribe(
    stream = "deploy",
    group = "workers",
    max_retries = 2,
    claim_idle_ms = 3000
)]
async fn deploy(job: Job, msg: Message) -> Result<(), HandlerError> {
    run(job, msg).await
}

#[subscribe(
    stream = "idempotent",
    group = "workers",
    claim_idle_ms = 500,
    concurrency = 2,
    idempotent
)]
async fn idempotent(job: Job, msg: Message) -> Result<(), HandlerError> {
    run(job, msg).await
}

#[subscribe(
    stream = "count",
    group = "workers",
    max_retries = None,
    claim_idle_ms = 300,
    concurrency = 4
)]
async fn count(job: Job, msg: Message, tx: Tx) -> Result<(), HandlerError> {
    tx.incr_by("counter", 1);
    tx.hincr_by("counted", &job.name, 1);
    run(job, msg).await
}

async fn run(job: Job, msg: Message) -> Result<(), HandlerError> {
    println!("start {} {}", job.name, msg.deliveries());
    let result = job.run(&msg).await;
    println!("end {} {}", job.name, msg.deliveries());
    result
}

async fn say_how_it_ends(broker: &Broker, act: &str) {
    let told = match act {
        "publish" => broker
            .publish("jobs", &Job::new("job", "ok"))
            .await
            .map(|_| 1),
        "publish_once" => broker
            .publish("jobs", &Job::new("job", "ok"))
            .id("job")
            .await
            .map(|_| 1),
        "delay" => broker
            .publish("jobs", &Job::new("job", "ok"))
            .delay(Duration::from_millis(300))
            .await
            .map(|_| 1),
        "delay_once" => broker
            .publish("jobs", &Job::new("job", "ok"))
            .id("job")
            .delay(Duration::from_millis(300))
            .await
            .map(|_| 1),
        "replay" => broker.replay_dlq("jobs").await,
        "replay_slowly" => {
            let replay = broker.dlq("jobs").replay().all().rate(500.0);
            let report = replay.await.map_err(Error::from);
            report.map(|report| report.moved as usize)
        }
        "count_letters" => {
            let stats = broker.dlq("jobs").stats().await;
            println!("peak {}", peak());
            stats.map(|stats| stats.count as usize)
        }
        unknown => panic!("a worker cannot `{unknown}`"),
    };
    match told {
        Ok(count) => println!("told {count}"),
        Err(error) => println!("told {:?}", error.kind()),
    }
}

/// The most memory that this process has had, in KiB.
fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.expect("a peak").trim();
    peak.trim_end_matches(" kB").to_owned()
}

fn main() -> ExitCode {
    if env::var_os("LOG").is_some() {
        tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
            .with_ansi(false)
            .init();
    }
    // Whoever started it is gone when this ends.
    thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::abort();
    });
    let mut runtime = match env::var("ONE_THREAD") {
        Ok(_) => Builder::new_current_thread(),
        Err(_) => Builder::new_multi_thread(),
    };
    let runtime = runtime.enable_all().build().expect("a runtime");
    let ended = runtime.block_on(async {
        let mut broker = Broker::from_env()?;
        if let Ok(grace) = env::var("GRACE_MS") {
            let grace = grace.parse().expect("a number of milliseconds");
            broker = broker.grace(Duration::from_millis(grace));
        }
        match env::var("ACT") {
            Ok(act) => {
                say_how_it_ends(&broker, &act).await;
                Ok(())
            }
            Err(_) => broker.run().await,
        }
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
