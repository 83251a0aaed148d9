//! The server, the ways to it, and the workers; and how each fault is brought about and ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rillkit_servers::{Proxy, Server};

use crate::fleet::{Fleet, lock};
use crate::ledger::{Ledger, Trouble, now};
use crate::plan::{GROUP, PLANS};
use crate::schedule::{Fault, Step};

/// Ways for workers; one more is the publisher's.
const WAYS: usize = 2;
const MOST_WORKERS: usize = 5;

pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) fleet: Fleet,
    ledger: Arc<Mutex<Ledger>>,
    ways: Vec<Proxy>,
    /// What is to be ended, and when.
    open: Vec<(Instant, End)>,
    started: usize,
    pub(crate) injected: BTreeMap<Fault, usize>,
}

/// How a fault that lasts is ended.
#[derive(Debug, Clone, Copy)]
enum End {
    /// The way is as it was; with the place of the trouble in the ledger.
    Mend {
        way: usize,
        trouble: usize,
        cut: bool,
    },
    GiveMemory,
}

impl Scene {
    pub(crate) fn new(ledger: Arc<Mutex<Ledger>>) -> Self {
        let server = Server::with(&["--appendonly", "yes", "--appendfsync", "always"]);
        let ways = (0..=WAYS).map(|_| Proxy::to(server.port())).collect();
        Self {
            fleet: Fleet::new(Arc::clone(&ledger)),
            ledger,
            server,
            ways,
            open: Vec::new(),
            started: 0,
            injected: BTreeMap::new(),
        }
    }

    pub(crate) fn publishers_url(&self) -> String {
        self.ways[WAYS].url()
    }

    pub(crate) fn lost_replies(&self) -> usize {
        self.ways.iter().map(Proxy::lost_replies).sum()
    }

    pub(crate) fn start_worker(&mut self) {
        let way = self.started % WAYS;
        self.started += 1;
        self.fleet.start(way, &self.ways[way].url());
    }

    /// Waits until it is time for the step, and takes it.
    pub(crate) fn take(&mut self, step: &Step) {
        self.wait(step.gap);
        *self.injected.entry(step.fault).or_default() += 1;
        self.inflict(step);
        while self.fleet.size() < 2 {
            self.start_worker();
        }
    }

    /// Ends what is over in the meantime.
    fn wait(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let (over, open) = std::mem::take(&mut self.open)
                .into_iter()
                .partition(|(at, _)| *at <= Instant::now());
            self.open = open;
            self.end(over);
            self.fleet.look(false);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends everything.
    pub(crate) fn calm(&mut self) {
        let all = std::mem::take(&mut self.open);
        self.end(all);
        self.ways.iter().for_each(Proxy::forward);
        self.fleet.look(true);
    }

    fn inflict(&mut self, step: &Step) {
        let way = step.pick % self.ways.len();
        let workers_way = step.pick % WAYS;
        match step.fault {
            Fault::Kill => self.fleet.kill(step.pick),
            Fault::Freeze => self.fleet.freeze(step.pick, step.hold),
            Fault::Deploy => self.fleet.stop(step.pick),
            Fault::Start if self.fleet.size() < MOST_WORKERS => self.start_worker(),
            Fault::Start => {}
            Fault::RestartServer => self.during(step, None, |scene| {
                scene.server.stop();
                thread::sleep(step.hold / 2);
                scene.server.restart();
            }),
            Fault::FreezeServer => self.during(step, None, |scene| {
                scene.server.freeze();
                thread::sleep(step.hold);
                scene.server.thaw();
            }),
            Fault::Cut => self.during(step, Some(way), |scene| scene.ways[way].cut()),
            Fault::Refuse => {
                self.ways[way].refuse();
                self.ways[way].cut();
                self.lasts(step, way, false);
            }
            Fault::BlackHole => {
                self.ways[way].black_hole(true);
                // What is in it gets through late, or never.
                self.lasts(step, way, step.pick.is_multiple_of(3));
            }
            Fault::Delay => {
                self.ways[way].delay(Duration::from_millis(20));
                self.lasts(step, way, false);
            }
            Fault::LoseRead => self.lose(step, workers_way, "XREADGROUP"),
            Fault::LoseAck => self.lose(step, workers_way, "XACK"),
            Fault::LoseScript => self.lose(step, workers_way, "EVALSHA"),
            Fault::LosePublish => self.lose(step, WAYS, "XADD"),
            Fault::ForgetScripts => self.ask(&["SCRIPT", "FLUSH"]),
            Fault::KillClients => self.during(step, None, |scene| {
                scene.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            }),
            Fault::PauseClients => self.during(step, None, |scene| {
                scene.ask(&["CLIENT", "PAUSE", &step.hold.as_millis().to_string()]);
                thread::sleep(step.hold);
            }),
            Fault::OutOfMemory => {
                self.ask(&["CONFIG", "SET", "maxmemory", "1"]);
                self.during(step, None, |_| {});
                self.open
                    .push((Instant::now() + step.hold, End::GiveMemory));
            }
            Fault::DestroyGroup => self.during(step, None, |scene| {
                let stream = PLANS[step.pick % PLANS.len()].stream;
                scene.ask(&["XGROUP", "DESTROY", stream, GROUP]);
            }),
        }
    }

    /// A trouble that is over when `act` returns.
    fn during(&mut self, step: &Step, way: Option<usize>, act: impl FnOnce(&Self)) {
        let from = now();
        act(self);
        let (fault, to) = (step.fault, now());
        lock(&self.ledger).troubles.push(Trouble {
            fault,
            way,
            from,
            to,
        });
    }

    /// A trouble that has begun on this way.
    fn lasts(&mut self, step: &Step, way: usize, cut: bool) {
        let trouble = Trouble {
            fault: step.fault,
            way: Some(way),
            from: now(),
            to: u64::MAX,
        };
        let mut ledger = lock(&self.ledger);
        ledger.troubles.push(trouble);
        let trouble = ledger.troubles.len() - 1;
        let end = End::Mend { way, trouble, cut };
        self.open.push((Instant::now() + step.hold, end));
    }

    /// The connection ends when the answer is lost, which may be a little later.
    fn lose(&mut self, step: &Step, way: usize, command: &str) {
        self.ways[way].lose_reply_of(command);
        self.lasts(step, way, false);
    }

    fn end(&self, ends: Vec<(Instant, End)>) {
        for (_, end) in ends {
            match end {
                End::Mend { way, trouble, cut } => {
                    if cut {
                        self.ways[way].cut();
                    }
                    self.ways[way].forward();
                    lock(&self.ledger).troubles[trouble].to = now();
                }
                End::GiveMemory => self.ask(&["CONFIG", "SET", "maxmemory", "0"]),
            }
        }
    }

    fn ask(&self, command: &[&str]) {
        self.server.command(command);
    }
}
