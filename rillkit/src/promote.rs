//! Adds delayed messages to their stream when they are due.
//!
//! Many look for them at a time: every started broker for the streams of its handlers, and whoever
//! has delayed a message. They need not agree: the server moves a message in one step, and who comes
//! late finds nothing to do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::log;
use crate::panic::{caught, contained};
use crate::store::{Fault, FaultClass, HORIZON, Store};
use crate::trouble::Trouble;

/// How often what others have delayed is looked for, at most. Jitter is subtracted, so that not all
/// look together. Well below the horizon, so that a look comes before what it is to find is due.
const EVERY: Duration = Duration::from_secs(2);
/// How much later one looks who came late the last time, at most; twice as much after each time
/// more. So the fastest goes on alone, and many that only watch cost little.
const BEHIND: Duration = Duration::from_millis(8);
/// The most of that: when the fastest is gone, what is due is late by no more.
const MOST_BEHIND: Duration = Duration::from_millis(64);

/// Looks after the delayed messages of one stream.
#[derive(Debug)]
pub(crate) struct Promoter {
    store: Store,
    stream: Arc<str>,
    /// What is due soon, the soonest first.
    upcoming: Vec<(Instant, String)>,
    /// Something is known to wait: it need not be asked for.
    sees_some: bool,
    /// How often in a row somebody else was faster.
    losses: u32,
    trouble: Trouble,
    /// Somebody was told of it.
    told: bool,
}

impl Promoter {
    pub(crate) fn new(store: Store, stream: &str) -> Self {
        Self {
            store,
            stream: stream.into(),
            upcoming: Vec::new(),
            sees_some: false,
            losses: 0,
            trouble: Trouble::none(),
            told: false,
        }
    }

    /// For a worker of the stream: until the stop.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let promoting = async {
            while let Err(panic) = caught(self.look_always()).await {
                self.panicked(&panic).await;
            }
        };
        tokio::select! {
            () = promoting => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    async fn look_always(&mut self) {
        loop {
            match self.round().await {
                Ok(_) => sleep_until(self.next(Instant::now(), fastrand::f64())).await,
                // Nothing may ever be delayed here: a worker needs no permission for it.
                Err(fault) if fault.is_permission() => {
                    return log::leaves_delayed(&self.stream, &fault);
                }
                // A server that is away is the intake's to report.
                Err(fault) => sleep(self.note(&fault, !is_away(&fault))).await,
            }
        }
    }

    /// For a publisher: while anything waits.
    async fn run_while_needed(mut self, promoters: Weak<Promoters>, news: Arc<Notify>) {
        while let Err(panic) = caught(self.look_while_needed(&promoters, &news)).await {
            self.panicked(&panic).await;
        }
    }

    async fn look_while_needed(&mut self, promoters: &Weak<Promoters>, news: &Notify) {
        while let Some(all) = promoters.upgrade() {
            all.looks(&self.stream);
            drop(all);
            match self.round().await {
                Ok(true) => {
                    let next = self.next(Instant::now(), fastrand::f64());
                    tokio::select! {
                        () = sleep_until(next) => {}
                        // It may be due before what is known.
                        () = news.notified() => self.sees_some = true,
                    }
                }
                Ok(false) => {
                    if promoters.upgrade().is_none_or(|all| all.ends(&self.stream)) {
                        return;
                    }
                }
                Err(fault) => sleep(self.note(&fault, true)).await,
            }
        }
    }

    /// Notes what went wrong; how long to wait.
    fn note(&mut self, fault: &Fault, tells: bool) -> Duration {
        self.told |= tells;
        self.trouble.note(fault, |fault| {
            if tells {
                log::cannot_promote(&self.stream, fault);
            }
        })
    }

    async fn panicked(&self, panic: &str) {
        contained(|| log::promoter_panicked(&self.stream, panic));
        sleep(EVERY).await;
    }

    /// Adds all that is due; whether anything may wait still.
    async fn round(&mut self) -> Result<bool, Fault> {
        let waits = self.sees_some || self.store.has_delayed(&self.stream).await?;
        while waits && self.promote().await? {
            // Very many may be due, and others are to have their turn.
            tokio::task::yield_now().await;
        }
        if let Some(after) = self.trouble.over()
            && std::mem::take(&mut self.told)
        {
            log::promotes_again(&self.stream, after);
        }
        Ok(waits)
    }

    /// Adds what is known to be due, and sees what comes next; whether that is due as well.
    async fn promote(&mut self) -> Result<bool, Fault> {
        let due = self.due(Instant::now());
        let promotion = self.store.promote(&self.stream, &due).await?;
        if !due.is_empty() {
            self.losses = match promotion.added {
                0 => self.losses.saturating_add(1),
                _ => 0,
            };
        }
        for id in &promotion.lost {
            log::delayed_lost(&self.stream, id);
        }
        let now = Instant::now();
        let upcoming = promotion.upcoming.into_iter();
        self.upcoming = upcoming.map(|(id, left)| (now + left, id)).collect();
        self.sees_some = !self.upcoming.is_empty();
        Ok(self.upcoming.first().is_some_and(|(due, _)| *due <= now))
    }

    fn due(&self, now: Instant) -> Vec<String> {
        let due = self.upcoming.iter().take_while(|(due, _)| *due <= now);
        due.map(|(_, id)| id.clone()).collect()
    }

    /// When to look again; `chance` is between 0 and 1.
    fn next(&self, now: Instant, chance: f64) -> Instant {
        let look = now + EVERY.mul_f64(1.0 - chance / 4.0);
        let Some((due, _)) = self.upcoming.first() else {
            return look;
        };
        let behind = match self.losses.checked_sub(1) {
            Some(more) => (BEHIND * 2_u32.pow(more.min(10))).min(MOST_BEHIND),
            None => Duration::ZERO,
        };
        look.min(*due + behind.mul_f64(0.25 + chance * 0.75))
    }
}

fn is_away(fault: &Fault) -> bool {
    matches!(fault.class, FaultClass::Reconnect | FaultClass::Unreachable)
}

/// The promoters of what a broker and its clones have delayed: one for each stream, while anything
/// waits there. They end with the last clone.
#[derive(Debug, Default)]
pub(crate) struct Promoters(Mutex<HashMap<String, Task>>);

#[derive(Debug)]
struct Task {
    handle: JoinHandle<()>,
    news: Arc<Notify>,
    /// Something was delayed since its last look.
    fresh: bool,
}

impl Promoters {
    /// Sees to it that a message which was just delayed is added when it is due, in so long.
    pub(crate) fn note(self: &Arc<Self>, store: &Store, stream: &str, left: Duration) {
        // Outside of a runtime nothing can run in the background: it is left to others.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let mut tasks = self.tasks();
        if let Some(task) = tasks.get_mut(stream)
            && !task.handle.is_finished()
        {
            task.fresh = true;
            if left <= HORIZON {
                task.news.notify_one();
            }
            return;
        }
        let news = Arc::new(Notify::new());
        let promoter = Promoter::new(store.clone(), stream);
        let run = promoter.run_while_needed(Arc::downgrade(self), Arc::clone(&news));
        let task = Task {
            handle: runtime.spawn(run),
            news,
            fresh: true,
        };
        tasks.insert(stream.to_owned(), task);
    }

    fn looks(&self, stream: &str) {
        if let Some(task) = self.tasks().get_mut(stream) {
            task.fresh = false;
        }
    }

    /// Whether a promoter that has found nothing may end: from then on the next has to be started.
    fn ends(&self, stream: &str) -> bool {
        let mut tasks = self.tasks();
        let ends = tasks.get(stream).is_none_or(|task| !task.fresh);
        if ends {
            tasks.remove(stream);
        }
        ends
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<String, Task>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Promoters {
    fn drop(&mut self) {
        for task in self.tasks().values() {
            task.handle.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Broker;
    use crate::store::memory::MemoryStore;

    const HOUR: Duration = Duration::from_secs(3600);

    fn promoter(upcoming: &[u64], losses: u32, now: Instant) -> Promoter {
        let due = |ms: &u64| (now + Duration::from_millis(*ms), ms.to_string());
        Promoter {
            upcoming: upcoming.iter().map(due).collect(),
            losses,
            ..Promoter::new(Store::Memory(MemoryStore::new()), "s")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_look_is_at_the_next_due_time_or_the_next_turn() {
        let now = Instant::now();
        for (upcoming, losses, chance, expected) in [
            (&[][..], 0, 0.0, 2000),
            (&[], 0, 1.0, 1500),
            (&[40, 50], 0, 0.5, 40),
            (&[40, 50], 1, 0.0, 42),
            (&[40, 50], 1, 1.0, 48),
            (&[40, 50], 2, 1.0, 56),
            (&[40, 50], 4, 0.0, 56),
            (&[40, 50], 4, 1.0, 104),
            (&[40, 50], u32::MAX, 1.0, 104),
            (&[2900], 1, 1.0, 1500),
        ] {
            let next = promoter(upcoming, losses, now).next(now, chance);
            let next = (next - now).as_millis();
            assert_eq!(next, expected, "{upcoming:?} {losses} {chance}");
        }
        assert!(EVERY < HORIZON, "what is due is seen before");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_due_is_the_first_of_what_is_upcoming() {
        let now = Instant::now();
        let promoter = promoter(&[0, 40, 50, 60], 0, now);
        assert_eq!(promoter.due(now), ["0"]);
        let later = now + Duration::from_millis(50);
        assert_eq!(promoter.due(later), ["0", "40", "50"]);
    }

    fn running(broker: &Promoters) -> usize {
        broker.tasks().len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_publisher_looks_after_what_it_delayed_until_nothing_waits() {
        let broker = Broker::memory();
        let promoters = broker.promoters();
        let began = Instant::now();
        for delay in [2 * HOUR, HOUR] {
            broker.publish("s", "a body").delay(delay).await.unwrap();
        }
        assert_eq!(running(&promoters), 1);
        let length = async || {
            let page = broker.delayed("s").await.unwrap();
            2 - page.total
        };
        for (expected, at) in [(1, HOUR), (2, 2 * HOUR)] {
            sleep_until(began + at - Duration::from_millis(1)).await;
            assert_eq!(length().await, expected - 1);
            while length().await < expected {
                sleep(Duration::from_millis(1)).await;
            }
            let late = began.elapsed() - at;
            assert!(late <= Duration::from_millis(5), "{late:?}");
        }
        sleep(EVERY).await;
        assert_eq!(running(&promoters), 0);
        // And begins again.
        broker.publish("s", "a body").delay(HOUR).await.unwrap();
        assert_eq!(running(&promoters), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_left_behind_by_a_broker_that_is_gone() {
        let broker = Broker::memory();
        let promoters = Arc::downgrade(&broker.promoters());
        broker.publish("s", "a body").delay(HOUR).await.unwrap();
        sleep(EVERY).await;
        let alive = tokio::runtime::Handle::current().metrics();
        assert_eq!(alive.num_alive_tasks(), 1);
        drop(broker);
        assert!(promoters.upgrade().is_none());
        sleep(EVERY).await;
        assert_eq!(alive.num_alive_tasks(), 0);
    }

    /// A runtime took its promoter along; the next one gets one of its own.
    #[test]
    fn a_broker_that_outlives_a_runtime_promotes_on_the_next() {
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_time().start_paused(true).build().unwrap()
        };
        let broker = Broker::memory();
        let first = runtime();
        first
            .block_on(async { broker.publish("s", "one").delay(HOUR).await })
            .unwrap();
        drop(first);
        runtime().block_on(async {
            let soon = Duration::from_millis(10);
            broker.publish("s", "two").delay(soon).await.unwrap();
            while broker.delayed("s").await.unwrap().total > 1 {
                sleep(Duration::from_millis(1)).await;
            }
        });
    }
}
