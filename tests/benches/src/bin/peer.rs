//! RillKit for a harness that measures message systems side by side: the harness gives a mode, a
//! number and flags, and reads one line `RESULT {json}`; the server is in `REDIS_URL`.
//!
//! `preload` and `publish` (`--n`, `--batch`, `--how concurrent`, `--tasks`), `drain`, `latency`
//! (`--rate`, `--warm-up`, `--idle`, in ms, before the first) and `retry` (`--delay`, in ms, `--step`, in µs from one message to the next, `--every`, in µs between
//! them); `--variant defaults|concurrent|sleeping|..`, `--threads` (0 is one thread that does all). `drain` tells the
//! processor time that it took and the most memory that the process has had as well, and with `--until handled` it does
//! not wait for the acks.

use std::collections::HashMap;
use std::env;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rillkit::Broker;
use rillkit_benches::meter::{Kind, Meter, percentile};
use rillkit_benches::order::{GROUP, Order, STREAM};
use rillkit_benches::process;

struct Arguments {
    mode: String,
    flags: HashMap<String, String>,
}

impl Arguments {
    fn read() -> Option<Self> {
        let mut words = env::args().skip(1);
        let mode = words.next()?;
        let mut flags = HashMap::new();
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            flags.insert(name.trim_start_matches('-').to_owned(), value);
        }
        Some(Self { mode, flags })
    }

    fn text<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.flags.get(name).map_or(default, String::as_str)
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        self.flags
            .get(name)
            .map_or(default, |value| value.parse().expect("a number"))
    }
}

fn main() -> ExitCode {
    let Some(arguments) = Arguments::read() else {
        eprintln!("expected a mode: `preload`, `publish`, `drain`, `latency` or `retry`");
        return ExitCode::FAILURE;
    };
    let mut runtime = match arguments.number("threads", 2) {
        0 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if let threads @ 1.. = arguments.number("threads", 2) {
        runtime.worker_threads(usize::try_from(threads).expect("a few threads"));
    }
    let runtime = runtime.enable_all().build().expect("a runtime");
    let run = async { tokio::spawn(run(arguments)).await };
    match runtime.block_on(run) {
        Ok(Ok(result)) => {
            println!("RESULT {result}");
            ExitCode::SUCCESS
        }
        Ok(Err(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Err(panic) => {
            eprintln!("{panic}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<String, rillkit::Error> {
    let url = env::var("REDIS_URL").expect("REDIS_URL names the server");
    let broker = Broker::connect(&url)?;
    match arguments.mode.as_str() {
        "preload" | "publish" => publish(&arguments, broker).await,
        "drain" => drain(&arguments, broker, &url).await,
        "latency" => latency(&arguments, broker).await,
        "retry" => retry(&arguments, broker).await,
        mode => panic!("no mode `{mode}`"),
    }
}

async fn publish(arguments: &Arguments, broker: Broker) -> Result<String, rillkit::Error> {
    let n = arguments.number("n", 100_000);
    let began = Instant::now();
    if arguments.text("how", "batch") == "concurrent" {
        let tasks = arguments.number("tasks", 64);
        let publish = |first: u64| {
            let broker = broker.clone();
            tokio::spawn(async move {
                for id in (first..n).step_by(usize::try_from(tasks).unwrap_or(1)) {
                    broker.publish(STREAM, &Order::new(id)).await?;
                }
                Ok::<_, rillkit::Error>(())
            })
        };
        let tasks: Vec<_> = (0..tasks).map(publish).collect();
        for task in tasks {
            task.await.expect("no panic")?;
        }
    } else {
        let batch = arguments.number("batch", 500);
        for first in (0..n).step_by(usize::try_from(batch).unwrap_or(1)) {
            let orders: Vec<_> = (first..(first + batch).min(n)).map(Order::new).collect();
            broker.publish_all(STREAM, &orders).await?;
        }
    }
    Ok(format!(
        r#"{{"n":{n},"published_s":{:.6}}}"#,
        began.elapsed().as_secs_f64()
    ))
}

async fn drain(arguments: &Arguments, broker: Broker, url: &str) -> Result<String, rillkit::Error> {
    let n = arguments.number("n", 100_000);
    let meter = Meter::start(Kind::Drain, n);
    let before = process::cpu();
    let _running = broker
        .only([arguments.text("variant", "defaults")])
        .start()
        .await?;
    meter.done().await;
    let acked = match arguments.text("until", "acked") {
        "handled" => meter.since_first(),
        _ => nothing_pending(url, &meter).await,
    };
    Ok(format!(
        r#"{{"n":{n},"dups":{},"handled_s":{:.6},"acked_s":{:.6},"cpu_s":{:.6},"peak_kib":{}}}"#,
        meter.repeats(),
        meter.handled().as_secs_f64(),
        acked.as_secs_f64(),
        (process::cpu() - before).as_secs_f64(),
        process::peak_kib(),
    ))
}

/// Waits until the group has nothing pending.
async fn nothing_pending(url: &str, meter: &Meter) -> Duration {
    let mut connection = rillkit_benches::by_hand::connect(url).await;
    loop {
        let mut ask = redis::cmd("XPENDING");
        let answer = ask
            .arg(STREAM)
            .arg(GROUP)
            .query_async(&mut connection)
            .await;
        if let Ok(redis::Value::Array(summary)) = answer
            && summary.first() == Some(&redis::Value::Int(0))
        {
            return meter.since_first();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn latency(arguments: &Arguments, broker: Broker) -> Result<String, rillkit::Error> {
    let warm_up = arguments.number("warm-up", 200);
    let n = arguments.number("n", 3000) + warm_up;
    let meter = Meter::start(Kind::Latency, n);
    let _running = broker.clone().only(["defaults"]).start().await?;
    let every = Duration::from_secs(1) / u32::try_from(arguments.number("rate", 500)).unwrap_or(1);
    tokio::time::sleep(Duration::from_millis(arguments.number("idle", 0))).await;
    feed(&meter, broker, n, every).await?;
    Ok(samples(&meter, warm_up))
}

async fn retry(arguments: &Arguments, broker: Broker) -> Result<String, rillkit::Error> {
    let n = arguments.number("n", 100);
    let delay = Duration::from_millis(arguments.number("delay", 300));
    let step = Duration::from_micros(arguments.number("step", 0));
    let meter = Meter::start(Kind::Retry { delay, step }, n);
    let _running = broker.clone().only(["retried"]).start().await?;
    let every = Duration::from_micros(arguments.number("every", 3000));
    feed(&meter, broker, n, every).await?;
    Ok(samples(&meter, 0))
}

/// Publishes one message at each tick, on a task of its own, and waits until all are handled.
async fn feed(
    meter: &Arc<Meter>,
    broker: Broker,
    n: u64,
    every: Duration,
) -> Result<(), rillkit::Error> {
    let publishing = Arc::clone(meter);
    let publish = tokio::spawn(async move {
        let mut tick = tokio::time::interval(every);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for id in 0..n {
            tick.tick().await;
            publishing.published(id);
            broker.publish(STREAM, &Order::new(id)).await?;
        }
        Ok(())
    });
    meter.done().await;
    publish.await.expect("no panic")
}

fn samples(meter: &Meter, skip: u64) -> String {
    let sorted = meter.sorted_ms(usize::try_from(skip).unwrap_or(0));
    let at = |percent| percentile(&sorted, percent);
    format!(
        r#"{{"n":{},"min_ms":{:.4},"p50_ms":{:.4},"p99_ms":{:.4},"max_ms":{:.4}}}"#,
        sorted.len(),
        at(0),
        at(50),
        at(99),
        at(100),
    )
}
