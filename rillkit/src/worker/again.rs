//! Starts a worker again after a panic in it. What it had in hand is put in order by the table of
//! entries in hand alone: the loop's own lists may be what broke.
//!
//! | an entry that | goes on |
//! | --- | --- |
//! | runs | running; its end is handled by the worker that is started again |
//! | waits for its retry | waiting, due when it was |
//! | is being settled | being settled |
//! | was read and not started | to whoever has a slot, uncharged |
//! | was under the loop's hands | as if its process had died in the run: counted, when it is due |

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::timeout;

use super::{Broken, Crew, Event, Worker};
use crate::entry_id::EntryId;
use crate::in_hand::Stage;
use crate::log;
use crate::pace::Pace;
use crate::panic::contained;
use crate::retries::Retries;
use crate::waiting::Waiting;

/// How long acks that are under way are waited for.
const ACKS: Duration = Duration::from_secs(2);

impl Worker {
    /// Says that a part has panicked, and lets nothing more be read.
    pub(crate) fn breaks(&self, broken: &Broken) {
        let Broken { part, panic } = broken;
        self.post.pulse.breaks(*part, panic);
        self.crew.halt();
        contained(|| log::broken(&self.post.consumer, *part, panic));
    }

    /// Puts in order what was in hand, and gives back what is not started. After this the worker can
    /// be started again, or stopped.
    pub(crate) async fn mend(&mut self) {
        self.crew.end().await;
        self.post.set_reading_since(None);
        self.post.pulse.reads(false);
        self.settler.ack(std::mem::take(&mut self.acked));
        // Longer than this only without the server; what is acked later is fenced.
        let _ = timeout(ACKS, self.settler.settled()).await;
        let kept = self.events_to_keep();
        self.touches.clear();
        self.returns.clear();
        self.sort_what_is_in_hand(&kept);
        self.ready.clear();
        self.waiting = Waiting::default();
        self.overdue.clear();
        self.more_overdue = false;
        self.stalled_since = None;
        (self.arrived, self.usual_bytes) = (0, 0);
        self.pace = Pace::of(self.post.policy());
        let slots = self.post.policy().concurrency as usize;
        self.free =
            slots.saturating_sub(self.running.len() + self.claiming.len() + self.commits.len());
        self.post.set_runs(self.running.len());
        self.broken = None;
        for event in kept {
            let _ = self.sender.send(event);
        }
        self.flush();
    }

    /// Reads and looks again.
    pub(crate) fn begin_again(&mut self) {
        self.crew = Crew::start(&self.post, &self.lane, &self.sender, true);
        self.post.pulse.begins();
    }

    /// What the parts have reported and the loop has not looked at, except for what is found again in
    /// the pending list. A run that has ended and not reported that is no longer counted as one.
    fn events_to_keep(&mut self) -> Vec<Event> {
        // In this order: what has ended by now has reported before.
        let ended = self.running.iter().filter(|(_, run)| run.is_finished());
        let mut silent: HashSet<_> = ended.map(|(id, _)| *id).collect();
        let mut kept = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            match &event {
                Event::Finished { message, .. } => {
                    silent.remove(&message.id());
                }
                Event::Claimed { .. }
                | Event::Exhausted(_)
                | Event::StepEnded
                | Event::LetterEnded(_)
                | Event::CommitEnded(..) => {}
                Event::Arrived { .. }
                | Event::Afresh(_)
                | Event::Unseen(_)
                | Event::Overdue(_)
                | Event::NotOurs(_)
                | Event::IntakeEnded
                | Event::Broken(..) => continue,
            }
            kept.push(event);
        }
        self.running.retain(|id, _| !silent.contains(id));
        kept
    }

    fn sort_what_is_in_hand(&mut self, kept: &[Event]) {
        let at_work = self.at_work.take();
        let exhausted: HashSet<EntryId> = kept
            .iter()
            .filter_map(|event| match event {
                Event::Exhausted(message) => Some(message.id()),
                _ => None,
            })
            .collect();
        self.retries = Retries::default();
        for (id, stage) in self.post.hand.all() {
            let goes_on = self.running.contains_key(&id)
                || self.letters.contains(&id)
                || self.commits.contains(&id)
                || self.claiming.contains(&id)
                || exhausted.contains(&id);
            if goes_on {
                continue;
            }
            let Some(token) = self.post.hand.token(id) else {
                // Another consumer has it.
                self.post.hand.release([id]);
                continue;
            };
            match stage {
                Stage::Waiting { due, .. } => self.retries.insert(due, token),
                _ if at_work == Some(id) => self.post.cut_off(id),
                Stage::Ready | Stage::Running { .. } | Stage::Settling => {
                    self.return_uncharged(id);
                }
            }
        }
    }
}
