//! The tasks beside a worker's loop that are started again with it: the reads and the looks for
//! what is overdue. They end with the worker, however that ends: one that went on reading alone
//! would take messages that nobody handles.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::Event;
use crate::demand::Demand;
use crate::intake::Intake;
use crate::lane::Lane;
use crate::panic::caught;
use crate::post::Post;
use crate::pulse::Part;
use crate::takeover::Takeover;

pub(super) struct Crew {
    pub(super) demand: Arc<Demand>,
    look_again: Arc<Notify>,
    intake: JoinHandle<()>,
    takeover: JoinHandle<()>,
}

impl Crew {
    /// Starts them. When something may be pending unseen for this consumer, it is looked for first.
    pub(super) fn start(
        post: &Arc<Post>,
        lane: &Arc<Lane>,
        events: &mpsc::UnboundedSender<Event>,
        recovers: bool,
    ) -> Self {
        let (demand, look_again) = (Arc::new(Demand::new()), Arc::new(Notify::new()));
        let intake = Intake::new(
            Arc::clone(post),
            Arc::clone(lane),
            Arc::clone(&demand),
            events.clone(),
            recovers,
        );
        let takeover = Takeover::new(
            Arc::clone(post),
            Arc::clone(lane),
            events.clone(),
            Arc::clone(&look_again),
        );
        Self {
            demand,
            look_again,
            intake: spawn(Part::Reading, events.clone(), intake.run()),
            takeover: spawn(Part::TakingOver, events.clone(), takeover.run()),
        }
    }

    /// Lets the next look for what is overdue be at once.
    pub(super) fn look_again(&self) {
        self.look_again.notify_one();
    }

    /// No new reads, and no more looks. What is being read still arrives.
    pub(super) fn stop(&self) {
        self.demand.stop();
        self.takeover.abort();
    }

    /// Whether everything that was read has arrived.
    pub(super) fn reads_no_more(&self) -> bool {
        self.intake.is_finished()
    }

    /// Ends both where they stand.
    pub(super) fn halt(&self) {
        self.intake.abort();
        self.takeover.abort();
    }

    /// Ends both where they stand, and waits until they have.
    pub(super) async fn end(&mut self) {
        self.halt();
        for task in [&mut self.intake, &mut self.takeover] {
            if !task.is_finished() {
                // Ended is ended; a panic was reported by the task itself.
                let _ = task.await;
            }
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Runs a part, and reports its panic.
fn spawn(
    part: Part,
    events: mpsc::UnboundedSender<Event>,
    run: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Err(panic) = caught(run).await {
            let _ = events.send(Event::Broken(part, panic));
        }
    })
}
