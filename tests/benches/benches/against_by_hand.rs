//! RillKit against the loop that somebody would write by hand, in turn, on a server of its own:
//! `cargo bench --bench against_by_hand`.
//!
//! Each row is the median of the rounds (`ROUNDS`, 5), and the ratio is that of the medians; the
//! spread is between the worst and the best ratio of one round. `SCALE` multiplies the number of
//! messages. With `CHECK=1` it fails when a ratio is below half of its bar, which noise alone does
//! not bring about.

use std::env;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rillkit::Broker;
use rillkit_benches::by_hand;
use rillkit_benches::meter::{Kind, Meter, percentile};
use rillkit_benches::order::{Order, STREAM};
use rillkit_servers::Server;
use tokio::runtime::Runtime;

/// One row: what is compared, and how much of the other's pace is expected at least.
struct Case {
    name: &'static str,
    bar: f64,
    by_hand: fn(&Bench) -> f64,
    rillkit: fn(&Bench) -> f64,
}

const CASES: &[Case] = &[
    Case {
        name: "drain, all defaults, one thread",
        bar: 0.75,
        by_hand: |bench| bench.drain_by_hand(0, None),
        rillkit: |bench| bench.drain("defaults", 0),
    },
    Case {
        name: "drain, all defaults, two threads",
        bar: 0.75,
        by_hand: |bench| bench.drain_by_hand(2, None),
        rillkit: |bench| bench.drain("defaults", 2),
    },
    Case {
        name: "drain, 64 at once, one thread",
        bar: 0.85,
        by_hand: |bench| bench.drain_by_hand(0, Some(64)),
        rillkit: |bench| bench.drain("concurrent", 0),
    },
    Case {
        name: "drain, 64 at once, two threads",
        bar: 0.85,
        by_hand: |bench| bench.drain_by_hand(2, Some(64)),
        rillkit: |bench| bench.drain("concurrent", 2),
    },
    Case {
        name: "drain, 256 handlers that sleep 1 ms",
        bar: 0.80,
        by_hand: Bench::sleep_without_redis,
        rillkit: |bench| bench.drain("sleeping", 2),
    },
    Case {
        name: "publish one at a time from 64 tasks",
        bar: 0.95,
        by_hand: Bench::publish_ones_by_hand,
        rillkit: Bench::publish_ones,
    },
    Case {
        name: "publish 500 at a time",
        bar: 0.90,
        by_hand: Bench::publish_batches_by_hand,
        rillkit: Bench::publish_batches,
    },
    Case {
        name: "publish to handler at 500/s, p50",
        bar: 1.0 / 1.15,
        by_hand: |bench| bench.latency_by_hand(50),
        rillkit: |bench| bench.latency(50),
    },
    Case {
        name: "publish to handler at 500/s, p99",
        bar: 1.0 / 1.15,
        by_hand: |bench| bench.latency_by_hand(99),
        rillkit: |bench| bench.latency(99),
    },
];

/// A server, and how much is done on it. Every measurement is a pace: more is better.
struct Bench {
    server: Server,
    scale: f64,
}

fn main() -> ExitCode {
    let number = |name, default: f64| {
        env::var(name)
            .ok()
            .and_then(|value| value.parse().ok())
            .unwrap_or(default)
    };
    let (rounds, check) = (number("ROUNDS", 5.0) as usize, number("CHECK", 0.0) > 0.0);
    let only = env::args()
        .nth(1)
        .filter(|word| !word.starts_with('-'))
        .unwrap_or_default();
    let bench = Bench {
        server: Server::start(),
        scale: number("SCALE", 1.0),
    };
    println!("| work | by hand, /s | rillkit, /s | ratio | spread | bar |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let mut sound = true;
    for case in CASES.iter().filter(|case| case.name.contains(&only)) {
        let pairs: Vec<_> = (0..rounds)
            .map(|_| ((case.by_hand)(&bench), (case.rillkit)(&bench)))
            .collect();
        let (by_hand, rillkit) = (
            median(pairs.iter().map(|pair| pair.0)),
            median(pairs.iter().map(|pair| pair.1)),
        );
        let ratios = sorted(pairs.iter().map(|(by_hand, rillkit)| rillkit / by_hand));
        let (worst, best) = (ratios[0], ratios[ratios.len() - 1]);
        let ratio = rillkit / by_hand;
        println!(
            "| {} | {by_hand:.0} | {rillkit:.0} | {ratio:.2} | {worst:.2} to {best:.2} | {:.2} |",
            case.name, case.bar
        );
        sound &= ratio >= case.bar / 2.0;
    }
    if check && !sound {
        eprintln!("a ratio is below half of its bar");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values = sorted(values);
    values[values.len() / 2]
}

/// Tokio's usual runtime, or one thread that does all.
fn runtime(threads: usize) -> Runtime {
    let mut builder = match threads {
        0 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if threads > 0 {
        builder.worker_threads(threads);
    }
    builder.enable_all().build().expect("a runtime")
}

/// Runs it as a task, where a service's work is, and not where the runtime was entered.
fn run<T: Send + 'static>(threads: usize, work: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = runtime(threads);
    let done = runtime.block_on(async { tokio::spawn(work).await.expect("no panic") });
    runtime.shutdown_background();
    done
}

impl Bench {
    fn n(&self, n: u64) -> u64 {
        ((n as f64 * self.scale) as u64).max(1000)
    }

    fn fresh(&self) -> String {
        let _ = self.server.command(&["FLUSHALL"]);
        self.server.url()
    }

    /// A stream of `n` orders and nothing else.
    fn filled(&self, n: u64) -> String {
        let url = self.fresh();
        let publish_to = url.clone();
        run(
            0,
            async move { by_hand::publish(&publish_to, n, 500).await },
        );
        url
    }

    fn drain_by_hand(&self, threads: usize, slots: Option<usize>) -> f64 {
        let n = self.n(500_000);
        let (url, meter) = (self.filled(n), Meter::start(Kind::Drain, n));
        run(threads, async move {
            by_hand::create_group(&url).await;
            match slots {
                None => drop(tokio::spawn(by_hand::drain(url, 500))),
                Some(slots) => drop(tokio::spawn(by_hand::drain_concurrently(url, 100, slots))),
            }
            meter.done().await;
            n as f64 / meter.handled().as_secs_f64()
        })
    }

    fn drain(&self, handler: &'static str, threads: usize) -> f64 {
        let n = self.n(if handler == "sleeping" {
            300_000
        } else {
            500_000
        });
        let (url, meter) = (self.filled(n), Meter::start(Kind::Drain, n));
        run(threads, async move {
            let broker = Broker::connect(&url).expect("a good URL").only([handler]);
            let running = broker.start().await.expect("a server");
            meter.done().await;
            running.stop().await;
            n as f64 / meter.handled().as_secs_f64()
        })
    }

    fn sleep_without_redis(&self) -> f64 {
        let n = self.n(300_000);
        run(2, async move {
            let began = Instant::now();
            let sleep = |_| {
                tokio::spawn(async move {
                    for _ in 0..n / 256 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                })
            };
            let tasks: Vec<_> = (0..256).map(sleep).collect();
            for task in tasks {
                task.await.expect("no panic");
            }
            n as f64 / began.elapsed().as_secs_f64()
        })
    }

    fn publish_ones_by_hand(&self) -> f64 {
        let (n, url) = (self.n(300_000), self.fresh());
        run(2, async move {
            let connection = by_hand::connect(&url).await;
            from_64_tasks(n, |first| {
                let mut connection = connection.clone();
                async move {
                    for id in (first..n).step_by(64) {
                        by_hand::publish_one(&mut connection, id).await;
                    }
                }
            })
            .await
        })
    }

    fn publish_ones(&self) -> f64 {
        let (n, url) = (self.n(300_000), self.fresh());
        run(2, async move {
            let broker = Broker::connect(&url).expect("a good URL");
            from_64_tasks(n, |first| {
                let broker = broker.clone();
                async move {
                    for id in (first..n).step_by(64) {
                        broker
                            .publish(STREAM, &Order::new(id))
                            .await
                            .expect("a server");
                    }
                }
            })
            .await
        })
    }

    fn publish_batches_by_hand(&self) -> f64 {
        let (n, url) = (self.n(500_000), self.fresh());
        run(2, async move {
            let began = Instant::now();
            by_hand::publish(&url, n, 500).await;
            n as f64 / began.elapsed().as_secs_f64()
        })
    }

    fn publish_batches(&self) -> f64 {
        let (n, url) = (self.n(500_000), self.fresh());
        run(2, async move {
            let broker = Broker::connect(&url).expect("a good URL");
            let began = Instant::now();
            for first in (0..n).step_by(500) {
                let orders: Vec<_> = (first..(first + 500).min(n)).map(Order::new).collect();
                broker.publish_all(STREAM, &orders).await.expect("a server");
            }
            n as f64 / began.elapsed().as_secs_f64()
        })
    }

    fn latency_by_hand(&self, percent: usize) -> f64 {
        let (n, url) = (self.n(2000), self.fresh());
        let meter = Meter::start(Kind::Latency, n);
        run(2, async move {
            by_hand::create_group(&url).await;
            drop(tokio::spawn(by_hand::drain(url.clone(), 100)));
            let mut connection = by_hand::connect(&url).await;
            let mut tick = tokio::time::interval(Duration::from_millis(2));
            for id in 0..n {
                tick.tick().await;
                meter.published(id);
                by_hand::publish_one(&mut connection, id).await;
            }
            meter.done().await;
            1000.0 / percentile(&meter.sorted_ms(200), percent)
        })
    }

    fn latency(&self, percent: usize) -> f64 {
        let (n, url) = (self.n(2000), self.fresh());
        let meter = Meter::start(Kind::Latency, n);
        run(2, async move {
            let broker = Broker::connect(&url)
                .expect("a good URL")
                .only(["defaults"]);
            let running = broker.start().await.expect("a server");
            let mut tick = tokio::time::interval(Duration::from_millis(2));
            for id in 0..n {
                tick.tick().await;
                meter.published(id);
                broker
                    .publish(STREAM, &Order::new(id))
                    .await
                    .expect("a server");
            }
            meter.done().await;
            running.stop().await;
            1000.0 / percentile(&meter.sorted_ms(200), percent)
        })
    }
}

/// Runs one task for each of 64 interleaved parts; messages a second.
async fn from_64_tasks<F>(n: u64, task: impl Fn(u64) -> F) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    let began = Instant::now();
    let tasks: Vec<_> = (0..64).map(|first| tokio::spawn(task(first))).collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    n as f64 / began.elapsed().as_secs_f64()
}
