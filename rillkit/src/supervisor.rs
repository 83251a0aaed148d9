//! Runs one worker until it is stopped, and starts it again when a part of it panics. That is a
//! fault of RillKit, or of the `tracing` subscriber that its lines go to: a handler's panic is a
//! failed delivery, and does not get here.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::backoff::Backoff;
use crate::log;
use crate::panic::{caught, contained};
use crate::pulse::Part;
use crate::worker::{Broken, Worker};

/// A worker that has worked for so long is not one that panics again and again.
const STEADY: Duration = Duration::from_secs(60);

/// Runs the worker until `stop` says so, then lets running handlers end within `grace` and hands
/// back the rest.
pub(crate) async fn supervise(
    mut worker: Worker,
    mut stop: watch::Receiver<bool>,
    grace: Duration,
) {
    let handling = |panic| Broken {
        part: Part::Handling,
        panic,
    };
    let (mut backoff, mut began) = (Backoff::short(), Instant::now());
    let mut broken_since = None;
    loop {
        let work = async {
            if let Some(since) = broken_since {
                worker.mend().await;
                worker.begin_again();
                log::recovered(&worker.post().consumer, Instant::elapsed(&since));
            }
            worker.run(&mut stop).await
        };
        let worked = caught(work).await.map_err(handling);
        let Err(broken) = worked.and_then(|worked| worked) else {
            break;
        };
        worker.breaks(&broken);
        if began.elapsed() >= STEADY {
            backoff = Backoff::short();
        }
        broken_since = Some(Instant::now());
        let stopped = stop.wait_for(|stop| *stop);
        if timeout(backoff.wait(), stopped).await.is_ok() {
            let mended = caught(worker.mend()).await.map_err(handling);
            let _ = mended.map_err(|broken| worker.breaks(&broken));
            break;
        }
        began = Instant::now();
    }
    let post = worker.post().clone();
    if let Err(panic) = caught(worker.wind_down(grace)).await {
        contained(|| log::broken(&post.consumer, Part::Handling, &panic));
        post.give_up();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::body::Undecodable;
    use crate::broker::Broker;
    use crate::entry_id::EntryId;
    use crate::extract::{FromDelivery, State};
    use crate::health::HealthVerdict;
    use crate::in_hand::Stage;
    use crate::message::Message;
    use crate::outcome::Outcome;
    use crate::running::Running;
    use crate::store::Store;
    use crate::store::memory::MemoryStore;
    use crate::subscription::{HandlerFuture, Subscription};

    /// What each run of [`handle`] was given: body and delivery.
    #[derive(Default)]
    struct Runs(Mutex<Vec<(String, u64)>>);

    impl Runs {
        fn all(&self) -> Vec<(String, u64)> {
            let mut runs = self.0.lock().unwrap().clone();
            runs.sort();
            runs
        }
    }

    /// `fails` fails at first, `never` always, `long` takes ten seconds, everything else ends at once.
    fn handle(msg: &Message) -> Result<HandlerFuture, Undecodable> {
        let body = msg.fields().text("data").unwrap_or_default().to_owned();
        let delivery = msg.deliveries();
        let runs = State::<Arc<Runs>>::from_delivery(msg);
        Ok(Box::pin(async move {
            runs.0.lock().unwrap().push((body.clone(), delivery));
            if body.contains("long") {
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
            if body.contains("never") || body.contains("fails") && delivery == 1 {
                return Outcome::Failed("not yet".into());
            }
            Outcome::Done
        }))
    }

    static HANDLER: Subscription =
        Subscription::new("handle", "app", file!(), line!(), "s", "g", handle)
            .claim_idle_ms(20_000)
            .max_retries(2)
            .check();

    struct Scene {
        store: Store,
        broker: Broker,
        running: Running,
        runs: Arc<Runs>,
    }

    impl Scene {
        async fn start() -> Self {
            let runs = Arc::new(Runs::default());
            let store = Store::Memory(MemoryStore::new());
            let broker = Broker::on(store.clone())
                .with_handlers([&HANDLER])
                .with_state(Arc::clone(&runs));
            let running = broker.start().await.unwrap();
            Self {
                store,
                broker,
                running,
                runs,
            }
        }

        async fn publish(&self, body: &str) {
            self.broker.publish("s", body).await.unwrap();
        }

        /// Has one message running for ten seconds, and one that was read ahead behind it.
        async fn occupy(&self) {
            // Who is quick is given more than one at a time.
            self.broker.publish_all("s", ["warm"; 100]).await.unwrap();
            self.broker
                .publish_all("s", ["long", "quick"])
                .await
                .unwrap();
            while self.running.post(0).hand.census().oldest < Some(Duration::from_millis(100)) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let stages = self.running.post(0).hand.all();
            assert!(stages.iter().any(|(_, stage)| *stage == Stage::Ready));
            self.runs
                .0
                .lock()
                .unwrap()
                .retain(|(body, _)| body != "\"warm\"");
        }

        fn health(&self) -> (HealthVerdict, Option<String>) {
            let one = self.running.health().handlers.remove(0);
            (one.verdict, one.last_error.map(|(text, _)| text))
        }

        /// Lets a part panic, and waits until it has.
        async fn break_part(&self, part: Part) {
            self.running.post(0).pulse.trap.set(part);
            let text = format!("{} panicked: the trap of {part:?}", part.name());
            while self.health().1.as_ref() != Some(&text) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }

        async fn pending(&self) -> u64 {
            self.store.summary("s", "g").await.unwrap().pending
        }

        async fn dead_letters(&self) -> bool {
            self.store.last_id("s-dlq").await.unwrap().is_some()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whichever_part_panics_the_worker_goes_on() {
        for part in Part::ALL {
            let scene = Scene::start().await;
            scene.publish("before").await;
            scene.running.drained().await.unwrap();
            scene.break_part(part).await;
            let restarts = scene.running.health().handlers[0].restarts;
            if part == Part::Leases {
                assert_eq!(restarts, 0, "it goes on by itself");
            } else {
                assert_eq!(restarts, 1, "{part:?}");
                assert_eq!(scene.health().0, HealthVerdict::Unhealthy, "{part:?}");
            }
            let began = Instant::now();
            scene.publish("after").await;
            scene.running.drained().await.unwrap();
            assert!(began.elapsed() < Duration::from_secs(2), "{part:?}");
            let runs = [("\"after\"".to_owned(), 1), ("\"before\"".to_owned(), 1)];
            assert_eq!(scene.runs.all(), runs, "{part:?}");
            assert_eq!(scene.health().0, HealthVerdict::Healthy, "{part:?}");
            let leases = &scene.running.post(0).pulse;
            tokio::time::sleep(Duration::from_secs(10)).await;
            let beats = leases.signs().beats;
            assert!(
                beats.iter().all(|beat| *beat < Duration::from_secs(5)),
                "{part:?}: {beats:?}"
            );
            scene.running.stop().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_in_hand_goes_on_as_if_nothing_had_been() {
        for part in Part::ALL {
            let scene = Scene::start().await;
            let began = Instant::now();
            scene.publish("fails").await;
            while scene.runs.all().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            scene.occupy().await;
            scene.break_part(part).await;
            scene.running.drained().await.unwrap();
            let runs = [("fails", 1), ("fails", 2), ("long", 1), ("quick", 1)];
            let runs = runs.map(|(body, delivery)| (format!("\"{body}\""), delivery));
            assert_eq!(scene.runs.all(), runs, "{part:?}");
            // The retry was due after twenty seconds, and the long run had ended by then.
            let took = began.elapsed().as_millis();
            assert!((20_000..20_200).contains(&took), "{part:?}: {took}");
            assert_eq!(scene.pending().await, 0, "{part:?}");
            assert!(!scene.dead_letters().await, "{part:?}");
            scene.running.stop().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_waits_to_be_started_again_can_be_stopped() {
        let scene = Scene::start().await;
        scene.occupy().await;
        // Each start panics at once, so that the waits grow.
        let post = Arc::clone(scene.running.post(0));
        let traps = tokio::spawn(async move {
            loop {
                post.pulse.trap.set(Part::Handling);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(scene.health().0, HealthVerdict::Unhealthy);
        traps.abort();
        let began = Instant::now();
        scene.running.stop().await;
        // The run that is under way ends well, and nothing else is started.
        assert!(began.elapsed() < Duration::from_secs(6));
        assert_eq!(scene.runs.all(), [("\"long\"".to_owned(), 1)]);
        let summary = scene.store.summary("s", "g").await.unwrap();
        let owners: Vec<_> = summary
            .consumers
            .iter()
            .map(|(name, count)| (&**name, *count))
            .collect();
        assert_eq!(owners, [(crate::post::HANDED_BACK, 1)]);
    }

    /// What the program does with log lines may panic, in the worker's loop.
    struct PanicsAt(&'static str);

    impl tracing::Subscriber for PanicsAt {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            struct Text<'a>(&'a str);
            impl tracing::field::Visit for Text<'_> {
                fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                    assert!(!format!("{value:?}").contains(self.0), "cannot write this");
                }
            }
            event.record(&mut Text(self.0));
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_breaks_the_worker_counts_as_one_whose_process_died() {
        let _lines = tracing::subscriber::set_default(PanicsAt("handler failed"));
        let scene = Scene::start().await;
        for body in ["fails", "never", "quick"] {
            scene.publish(body).await;
        }
        scene.running.drained().await.unwrap();
        let runs = [
            ("fails", 1),
            ("fails", 2),
            ("never", 1),
            ("never", 2),
            ("never", 3),
            ("quick", 1),
        ];
        let runs = runs.map(|(body, delivery)| (format!("\"{body}\""), delivery));
        assert_eq!(scene.runs.all(), runs);
        let (first, last) = (EntryId::MIN, EntryId::MAX);
        let letters = scene.store.range("s-dlq", first, last, 9).await.unwrap();
        let reasons: Vec<_> = letters
            .iter()
            .map(|one| one.fields.text("x-reason"))
            .collect();
        assert_eq!(reasons, [Some("exhausted")]);
        scene.running.stop().await;
    }
}
