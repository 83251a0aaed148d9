//! Publishes to all streams at once, each at a rate of its own, and notes what it was told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rillkit::{Broker, ErrorKind};

use crate::fleet::lock;
use crate::ledger::{Ledger, Published};
use crate::plan::{Fate, fate};
use crate::worker::Body;

/// Every so many milliseconds a message.
const RATES: [(&str, u64); 5] = [
    ("quick", 10),
    ("retried", 100),
    ("once", 100),
    ("slow", 1000),
    ("first", 100),
];

/// A thread that publishes until it is told to stop.
pub(crate) struct Publisher {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Publisher {
    pub(crate) fn start(url: &str, ledger: &Arc<Mutex<Ledger>>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = |(stream, every)| {
            let (url, ledger, stop) = (url.to_owned(), Arc::clone(ledger), Arc::clone(&stop));
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(publish(&url, stream, every, &ledger, &stop));
            })
        };
        let threads = RATES.into_iter().map(thread).collect();
        Self { stop, threads }
    }

    /// Returns when nothing is published any more.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().expect("the publisher never panics");
        }
    }
}

async fn publish(
    url: &str,
    stream: &'static str,
    every: u64,
    ledger: &Mutex<Ledger>,
    stop: &AtomicBool,
) {
    let broker = Broker::connect(url).expect("a good URL");
    for number in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let published = if fate(stream, number, 1) == Fate::Decode {
            broker.publish(stream, &number.to_string()).await
        } else {
            broker.publish(stream, &Body { number }).await
        };
        let told = match published {
            Ok(id) => Published::Surely(id.to_string()),
            Err(error) => match error.kind() {
                ErrorKind::NotSent | ErrorKind::Refused => Published::Not,
                ErrorKind::Unknown => Published::Perhaps,
                kind => panic!("publishing fails with {kind:?}: {error}"),
            },
        };
        lock(ledger).published.insert((stream.into(), number), told);
        tokio::time::sleep(Duration::from_millis(every)).await;
    }
}
