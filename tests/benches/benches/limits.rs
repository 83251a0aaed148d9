//! Whether RillKit stays small, punctual and even when there is much of something:
//! `cargo bench --bench limits`. Linux alone, since it reads `/proc`.
//!
//! Every measurement is a process of its own, on a server of its own. `SCALE` multiplies the number of messages,
//! `ROUNDS` (3) says of how many runs the median is taken. Growth is told in processor time for each message, which
//! other work on the machine disturbs less than the pace.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rillkit::Broker;
use rillkit_benches::order::{GROUP, Order, STREAM};
use rillkit_benches::{by_hand, many, process};
use rillkit_servers::{Server, wait_until};
use serde_json::Value;
use tokio::runtime::Runtime;

struct Bench {
    runtime: Runtime,
    scale: f64,
    rounds: usize,
}

fn main() {
    let number = |name, default: f64| {
        let value = env::var(name).ok();
        value
            .and_then(|value| value.parse().ok())
            .unwrap_or(default)
    };
    let bench = Bench {
        runtime: tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime"),
        scale: number("SCALE", 1.0),
        rounds: number("ROUNDS", 3.0) as usize,
    };
    let only = env::args().nth(1).filter(|word| !word.starts_with('-'));
    let wanted = |part: &str| only.as_deref().is_none_or(|only| part.contains(only));
    for (part, measure) in [
        ("memory", Bench::memory as fn(&Bench)),
        ("lateness", Bench::lateness),
        ("growth", Bench::growth),
    ] {
        if wanted(part) {
            measure(&bench);
        }
    }
}

impl Bench {
    fn n(&self, n: u64) -> u64 {
        ((n as f64 * self.scale) as u64).max(100)
    }

    fn median(&self, measure: impl Fn() -> f64) -> f64 {
        let mut values: Vec<_> = (0..self.rounds).map(|_| measure()).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    fn fill(&self, server: &Server, n: u64) {
        self.runtime
            .block_on(by_hand::publish(&server.url(), n, 500));
    }

    fn memory(&self) {
        println!("| memory of the process | little, MiB | much, MiB | added, MiB | bar |");
        println!("| --- | --- | --- | --- | --- |");
        for (name, variant, until, n) in [
            (
                "a backlog of a million messages",
                "defaults",
                "acked",
                1_000_000,
            ),
            (
                "a hundred thousand messages that wait for a retry",
                "failing",
                "handled",
                100_000,
            ),
        ] {
            let peak = |n| {
                self.median(|| {
                    let server = Server::start();
                    self.fill(&server, n);
                    let ran = peer(
                        &server,
                        &["drain", "--variant", variant, "--until", until],
                        n,
                    );
                    ran["peak_kib"].as_f64().expect("a number") / 1024.0
                })
            };
            let (little, much) = (peak(100), peak(self.n(n)));
            let added = much - little;
            println!("| {name} | {little:.1} | {much:.1} | {added:.1} | 32 |");
        }
        println!();
    }

    fn lateness(&self) {
        println!("| start after its time | p50, ms | p99, ms | worst, ms | bar |");
        println!("| --- | --- | --- | --- | --- |");
        let (hundred, many) = (
            ["--every", "3000"],
            ["--every", "50", "--delay", "3000", "--step", "1000"],
        );
        for (name, n, flags, bar) in [
            ("a retry, 100 waiting", 100, &hundred[..], "5 (p99)"),
            (
                "a retry, 10 000 waiting, due over 10 s",
                10_000,
                &many[..],
                "20 (p99)",
            ),
        ] {
            let ran: Vec<_> = (0..self.rounds)
                .map(|_| {
                    let server = Server::start();
                    peer(&server, &[&["retry"], flags].concat(), n)
                })
                .collect();
            let at = |key: &str| {
                let mut values: Vec<_> = ran.iter().filter_map(|ran| ran[key].as_f64()).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            let (p50, p99, worst) = (at("p50_ms"), at("p99_ms"), at("max_ms"));
            println!("| {name} | {p50:.2} | {p99:.2} | {worst:.2} | {bar} |");
        }
        let late = self.after_idle_seconds();
        let (p50, worst) = (late[late.len() / 2], late[late.len() - 1]);
        println!(
            "| the first message after ten idle seconds, of 20 | {p50:.2} | | {worst:.2} | 20 (worst) |"
        );
        println!();
    }

    /// Twenty workers that have been idle for ten seconds, each on its own server.
    fn after_idle_seconds(&self) -> Vec<f64> {
        let servers: Vec<_> = (0..20).map(|_| Server::start()).collect();
        let start = |server: &Server| {
            let flags = ["latency", "--n", "1", "--warm-up", "0", "--idle", "10000"];
            spawn(server, &flags)
        };
        let children: Vec<_> = servers.iter().map(start).collect();
        let late = children
            .into_iter()
            .map(|child| result(child)["max_ms"].as_f64().expect("a number"));
        let mut late: Vec<_> = late.collect();
        late.sort_by(f64::total_cmp);
        late
    }

    fn growth(&self) {
        println!("| processor time for each message | little, µs | much, µs | growth | bar |");
        println!("| --- | --- | --- | --- | --- |");
        let row = |name: &str, little: f64, much: f64| {
            let growth = much / little;
            println!("| {name} | {little:.2} | {much:.2} | {growth:.2} | 1.15 |");
        };
        row(
            "from 10 000 to 5 000 000 messages in the stream",
            self.median(|| self.drain(self.n(10_000), |_| {})),
            self.drain(self.n(5_000_000), |_| {}),
        );
        let usual = self.median(|| self.drain(self.n(200_000), |_| {}));
        row(
            "from 1 to 200 subscriptions",
            usual,
            self.median(|| self.drain_many(self.n(200_000))),
        );
        row(
            "100 000 pending at another consumer",
            usual,
            self.median(|| {
                self.drain(self.n(200_000), |server| {
                    self.leave_pending(server, 100_000)
                })
            }),
        );
        row(
            "from 1 to 50 processes in one group",
            self.median(|| self.drain_together(1, self.n(500_000))),
            self.median(|| self.drain_together(50, self.n(500_000))),
        );
        row(
            "bodies of 1 000 and of 100 000 bytes, for each 1 000",
            self.median(|| self.drain_bodies(1000, self.n(100_000))),
            self.median(|| self.drain_bodies(100_000, self.n(10_000))) / 100.0,
        );
        println!();
    }

    fn drain(&self, n: u64, prepare: impl Fn(&Server)) -> f64 {
        let server = Server::start();
        prepare(&server);
        self.fill(&server, n);
        // What another consumer has pending stays so.
        micros(&peer(&server, &["drain", "--until", "handled"], n), n)
    }

    /// Hands entries to a consumer that does not come back. They are not due while it matters.
    fn leave_pending(&self, server: &Server, n: u64) {
        self.fill(server, n);
        let _ = server.command(&["XGROUP", "CREATE", STREAM, GROUP, "0"]);
        let count = n.to_string();
        let read = [
            "XREADGROUP",
            "GROUP",
            GROUP,
            "gone",
            "COUNT",
            &count,
            "STREAMS",
            STREAM,
            ">",
        ];
        let _ = server.command(&read);
    }

    fn drain_many(&self, n: u64) -> f64 {
        let server = Server::start();
        let streams = many::streams();
        self.runtime.block_on(async {
            let broker = Broker::connect(&server.url()).expect("a good URL");
            let share = n / streams.len() as u64;
            for (place, stream) in streams.iter().enumerate() {
                let first = place as u64 * share;
                let orders: Vec<_> = (first..first + share).map(Order::new).collect();
                broker
                    .publish_all(*stream, &orders)
                    .await
                    .expect("a server");
            }
        });
        let flags = ["drain", "--variant", many::HANDLER, "--until", "handled"];
        let n = n - n % streams.len() as u64;
        micros(&peer(&server, &flags, n), n)
    }

    fn drain_bodies(&self, bytes: usize, n: u64) -> f64 {
        let server = Server::start();
        self.runtime.block_on(async {
            let broker = Broker::connect(&server.url()).expect("a good URL");
            let body = vec![b'a'; bytes];
            for id in 0..n {
                let fields = [
                    ("data", body.clone()),
                    ("h-id", id.to_string().into_bytes()),
                ];
                broker
                    .publish_fields(STREAM, fields)
                    .await
                    .expect("a server");
            }
        });
        micros(&peer(&server, &["drain", "--variant", "undecoded"], n), n)
    }

    /// What `count` processes take together, once they have started.
    fn drain_together(&self, count: usize, n: u64) -> f64 {
        let server = Server::start();
        // One more than there will be, so that none of them ends.
        let endless = (n + 1).to_string();
        let drain = ["drain", "--threads", "0", "--n", &endless];
        let children = Endless((0..count).map(|_| spawn(&server, &drain)).collect());
        let consumers = || {
            let consumers = server.command(&["XINFO", "CONSUMERS", STREAM, GROUP]);
            consumers.list().len()
        };
        wait_until("every process reads", || consumers() == count);
        let spent = |children: &[Child]| -> Duration {
            let each = children
                .iter()
                .map(|child| process::cpu_of(&child.id().to_string()));
            each.sum()
        };
        let before = spent(&children.0);
        self.fill(&server, n);
        let all_is_acked = || {
            let groups = server.command(&["XINFO", "GROUPS", STREAM]).list();
            let fact = |name: &str| {
                let facts = groups[0].list();
                let found = facts.chunks(2).find(|fact| fact[0].text() == name);
                found.expect("a newer server")[1].int()
            };
            fact("pending") == 0 && fact("entries-read").unsigned_abs() == n
        };
        wait_until("all is acked", all_is_acked);
        let took = spent(&children.0) - before;
        took.as_secs_f64() * 1e6 / n as f64
    }
}

/// Processes that do not end by themselves. They are ended also where the measurement fails.
struct Endless(Vec<Child>);

impl Drop for Endless {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn micros(ran: &Value, n: u64) -> f64 {
    ran["cpu_s"].as_f64().expect("a number") * 1e6 / n as f64
}

fn peer(server: &Server, flags: &[&str], n: u64) -> Value {
    let n = n.to_string();
    result(spawn(server, &[flags, &["--n", &n]].concat()))
}

fn spawn(server: &Server, flags: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_rillkit-peer"))
        .args(flags)
        .env("REDIS_URL", server.url())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was built")
}

fn result(mut child: Child) -> Value {
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let result = lines.map_while(Result::ok).find_map(|line| {
        let result = line.strip_prefix("RESULT ")?;
        serde_json::from_str(result).ok()
    });
    let _ = child.wait();
    result.expect("a result")
}
