//! What becomes of replayed messages: how many have ended, and how many are dead again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::letter::Letter;
use super::progress::Progress;
use super::queue::Queue;
use super::replay::{ReplayReport, Stopped};
use super::walk::PAGE;
use crate::entry_id::EntryId;
use crate::error::{Error, ErrorKind};
use crate::store::Fault;

/// Messages that are under way at once.
const UNDER_WAY: usize = 100;
/// Messages that are moved between two looks.
const STEPS: usize = 10;
/// Messages that must have ended before their share counts.
const ENOUGH: u64 = 10;
/// Between two looks while nothing can be moved.
const NAP: Duration = Duration::from_millis(100);
/// How long nothing may end, when nothing else is said.
const PATIENCE: Duration = Duration::from_secs(600);

pub(super) struct Watch {
    share: f64,
    patience: Duration,
    /// Messages that were moved and whose end was not seen, and the group in which each failed.
    under_way: BTreeMap<EntryId, Option<String>>,
    /// The last letter that was looked at.
    seen: EntryId,
    moved_since: usize,
}

impl Watch {
    pub(super) fn new(share: f64, patience: Option<Duration>) -> Result<Self, Error> {
        if !(0.0..=1.0).contains(&share) {
            let text = format!("a share of {share} is none: give a number from 0.0 to 1.0");
            return Err(Error::new(ErrorKind::Input, text));
        }
        Ok(Self {
            share,
            patience: patience.unwrap_or(PATIENCE),
            under_way: BTreeMap::new(),
            seen: EntryId::MIN,
            moved_since: 0,
        })
    }

    /// What is in the queue now has not failed again.
    pub(super) async fn begin(&mut self, queue: &Queue) -> Result<(), Fault> {
        let last = queue.store.last_id(&queue.name).await?;
        self.seen = last.unwrap_or(EntryId::MIN);
        Ok(())
    }

    pub(super) fn moved(&mut self, id: EntryId, group: Option<&str>) {
        self.under_way.insert(id, group.map(str::to_owned));
        self.moved_since += 1;
    }

    /// Returns when another message may be moved, or with the reason why none may.
    pub(super) async fn make_room(
        &mut self,
        queue: &Queue,
        report: &mut ReplayReport,
        progress: &mut Progress<ReplayReport>,
    ) -> Result<Option<Stopped>, Fault> {
        let full = |watch: &Self| watch.under_way.len() >= UNDER_WAY;
        if !full(self) && self.moved_since < STEPS {
            return Ok(None);
        }
        let mut changed = Instant::now();
        loop {
            let before = report.ended;
            self.look(queue, report).await?;
            if too_many(report.failed_again, report.ended, self.share) {
                return Ok(Some(Stopped::Failing));
            }
            if !full(self) {
                return Ok(None);
            }
            if report.ended > before {
                changed = Instant::now();
                progress.tell(report);
            } else if changed.elapsed() >= self.patience {
                return Ok(Some(Stopped::NothingEnds));
            }
            sleep(NAP).await;
        }
    }

    /// Finds out which messages have ended.
    pub(super) async fn look(
        &mut self,
        queue: &Queue,
        report: &mut ReplayReport,
    ) -> Result<(), Fault> {
        self.moved_since = 0;
        // In this order: a message leaves the pending list when its letter is there.
        let open = self.open(queue).await?;
        let dead = self.dead(queue).await?;
        self.under_way.retain(|id, _| {
            let failed = dead.contains(id);
            let ended = failed || !open.contains(id);
            report.failed_again += u64::from(failed);
            report.ended += u64::from(ended);
            !ended
        });
        Ok(())
    }

    /// The messages that a group has still to read, or has pending.
    async fn open(&self, queue: &Queue) -> Result<BTreeSet<EntryId>, Fault> {
        let groups = queue.store.groups(&queue.stream).await?;
        let is_group = |name: &str| groups.iter().any(|(known, _)| known == name);
        // It matters to the group in which it failed; where that is gone, to all.
        let matters = |failed_in: &Option<String>, group: &str| {
            let failed_in = failed_in.as_deref().filter(|name| is_group(name));
            failed_in.is_none_or(|name| name == group)
        };
        if groups.is_empty() {
            return Ok(self.under_way.keys().copied().collect());
        }
        let mut open = BTreeSet::new();
        for (group, read_up_to) in &groups {
            let of_it = self.under_way.iter();
            let of_it = of_it.filter(|(_, failed_in)| matters(failed_in, group));
            let (read, unread): (Vec<_>, Vec<_>) =
                of_it.map(|(id, _)| *id).partition(|id| id <= read_up_to);
            open.extend(unread);
            let pending = queue.store.still_pending(&queue.stream, group, &read);
            open.extend(pending.await?);
        }
        Ok(open)
    }

    /// The messages whose letters have come since the last look.
    async fn dead(&mut self, queue: &Queue) -> Result<BTreeSet<EntryId>, Fault> {
        let mut dead = BTreeSet::new();
        loop {
            let from = self.seen.after();
            let page = queue.store.range(&queue.name, from, EntryId::MAX, PAGE);
            let page = page.await?;
            let full = page.len() >= PAGE;
            for letter in page.into_iter().map(Letter::from) {
                self.seen = letter.id();
                if queue.owns(&letter) {
                    dead.extend(letter.original_id());
                }
            }
            if !full {
                return Ok(dead);
            }
        }
    }
}

/// Whether a replay should stop: more than this share of what has ended has failed again.
fn too_many(failed: u64, ended: u64, share: f64) -> bool {
    ended >= ENOUGH && failed as f64 > share * ended as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_counts_when_enough_have_ended() {
        for (failed, ended, share, stops) in [
            (0, 0, 0.0, false),
            (9, 9, 0.0, false),
            (0, 10, 0.0, false),
            (1, 10, 0.0, true),
            (2, 10, 0.2, false),
            (3, 10, 0.2, true),
            (10, 10, 1.0, false),
            (200, 1000, 0.2, false),
            (201, 1000, 0.2, true),
        ] {
            assert_eq!(
                too_many(failed, ended, share),
                stops,
                "{failed} of {ended}, {share}"
            );
        }
    }

    #[test]
    fn a_share_must_be_one() {
        for share in [-0.1, 1.1, 20.0, f64::NAN] {
            let refused = Watch::new(share, None).map(|_| ());
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Input, "{share}");
        }
    }
}
