//! Two thousand increments under all that can go wrong at once: the number is right in the end.

use std::time::{Duration, Instant};

use rillkit_servers::{Proxy, Server};

use crate::place::{Place, until};
use crate::process::Process;

const MESSAGES: usize = 2000;
/// Longer than the lease of the worker's handler.
const PAST_THE_LEASE: Duration = Duration::from_millis(700);

/// Workers behind a proxy, and what was done to them.
struct Trouble<'a> {
    place: &'a Place,
    proxy: Proxy,
    workers: Vec<Process>,
    frozen: Vec<(usize, Instant)>,
    kills: usize,
    freezes: usize,
}

impl Trouble<'_> {
    fn start(&self) -> Process {
        Process::with(self.place, "count", &[("REDIS_URL", &self.proxy.url())])
    }

    fn thaw_those_past_their_lease(&mut self) {
        let workers = &self.workers;
        self.frozen.retain(|(worker, since)| {
            let over = since.elapsed() >= PAST_THE_LEASE;
            if over {
                workers[*worker].signal("CONT");
            }
            !over
        });
    }

    /// One more fault, of each kind in turn, to each worker in turn.
    fn strike(&mut self, round: usize) {
        let worker = round / 3 % self.workers.len();
        match round % 3 {
            0 => {
                self.workers[worker].kill();
                self.frozen.retain(|(frozen, _)| *frozen != worker);
                self.workers[worker] = self.start();
                self.kills += 1;
            }
            1 if self.frozen.is_empty() => {
                self.workers[worker].freeze();
                self.frozen.push((worker, Instant::now()));
                self.freezes += 1;
            }
            _ => self.proxy.lose_reply_of("EVALSHA"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_increments_are_two_thousand() {
    let server = Server::start();
    let place = Place::on(&server);
    let mut trouble = Trouble {
        place: &place,
        proxy: Proxy::to(server.port()),
        workers: Vec::new(),
        frozen: Vec::new(),
        kills: 0,
        freezes: 0,
    };
    trouble.workers = vec![trouble.start(), trouble.start(), trouble.start()];
    place
        .publish_many("count", "job", MESSAGES, "sleep:20")
        .await;
    until("the first are counted", || counted(&place) > 0).await;

    // Whatever is wrong, the counter shows it; as many as it should show have been handled by then.
    let mut round = 0;
    while counted(&place) < MESSAGES {
        trouble.strike(round);
        round += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
        trouble.thaw_those_past_their_lease();
        assert!(round < 400, "{} after {round} faults", counted(&place));
    }
    until("everybody goes on", || {
        trouble.thaw_those_past_their_lease();
        trouble.frozen.is_empty()
    })
    .await;
    until("everything is settled", || {
        place.pending("count", "workers").is_empty()
    })
    .await;

    assert_eq!(counted(&place), MESSAGES);
    assert_eq!(place.ask(&["HLEN", "counted"]).int(), MESSAGES as i64);
    assert_eq!(place.length("count-dlq"), 0);
    let (kills, freezes) = (trouble.kills, trouble.freezes);
    let lost = trouble.proxy.lost_replies();
    assert!(
        kills >= 5 && freezes >= 3 && lost >= 5,
        "{kills} kills, {freezes} freezes and {lost} lost replies are too few to tell anything"
    );
}

fn counted(place: &Place) -> usize {
    let answer = place.ask(&["GET", "counter"]);
    match answer {
        rillkit_servers::Reply::Nil => 0,
        count => count.text().parse().expect("a number"),
    }
}
