//! The way back: letters become messages of their stream again, each in one step on the server.

use std::collections::BTreeSet;

use super::PARKED;
use super::letter::Letter;
use super::pace::Pace;
use super::progress::Progress;
use super::queue::Queue;
use super::replay::{Plan, ReplayReport};
use super::walk::{PAGE, Walk};
use super::watch::Watch;
use crate::error::{Error, ErrorKind};
use crate::fields::Fields;
use crate::log;
use crate::store::{Fault, Replayed};

/// Letters that are moved when nothing is said.
const COUNT: usize = 100;

/// One replay under way.
pub(super) struct Moving<'a> {
    queue: &'a Queue,
    plan: &'a Plan,
    /// Where letters go that are put aside.
    parked: String,
    /// The stream's groups, where a message is for one of them.
    groups: BTreeSet<String>,
    pace: Option<Pace>,
    watch: Option<Watch>,
}

impl<'a> Moving<'a> {
    pub(super) fn new(queue: &'a Queue, plan: &'a Plan) -> Result<Self, Error> {
        if plan.most_replays.is_some() && queue.name.ends_with(PARKED) {
            let text = format!(
                "`{}` holds letters that were put aside already: replay them without `.at_most_replays(..)`",
                queue.name
            );
            return Err(Error::new(ErrorKind::Input, text));
        }
        // A dry run changes nothing that would have to be slow, or be watched.
        let rate = plan.rate.map(Pace::per_second).transpose()?;
        let watch = plan.failing.map(|share| Watch::new(share, plan.patience));
        let watch = watch.transpose()?;
        Ok(Self {
            queue,
            plan,
            parked: format!("{}{PARKED}", queue.name),
            groups: BTreeSet::new(),
            pace: rate.filter(|_| !plan.dry_run),
            watch: watch.filter(|_| !plan.dry_run),
        })
    }

    pub(super) async fn run(
        &mut self,
        report: &mut ReplayReport,
        progress: &mut Progress<ReplayReport>,
    ) -> Result<(), Fault> {
        let (queue, plan) = (self.queue, self.plan);
        // Where no letter can be moved, the DLQ is not even looked for: it would just be empty.
        queue.store.together(&queue.stream, &queue.name)?;
        if plan.most_replays.is_some() {
            queue.store.together(&queue.name, &self.parked)?;
        }
        if !plan.every_group {
            let groups = queue.store.groups(&queue.stream).await?;
            self.groups = groups.into_iter().map(|(name, _)| name).collect();
        }
        if let Some(watch) = &mut self.watch {
            watch.begin(queue).await?;
        }
        let few = if plan.filter.is_empty() {
            COUNT
        } else {
            usize::MAX
        };
        let most = plan.count.unwrap_or(few) as u64;
        let mut walk = Walk::over_present(queue, &plan.filter, plan.after).await?;
        while report.moved + report.parked < most
            && let Some(found) = walk.next(PAGE).await?
        {
            for letter in found.letters {
                if report.moved + report.parked >= most {
                    break;
                }
                if let Some(watch) = &mut self.watch
                    && let Some(why) = watch.make_room(queue, report, progress).await?
                {
                    report.stopped = Some(why);
                    return Ok(());
                }
                self.take(&letter, report).await?;
                report.last = Some(letter.id());
                progress.tell(report);
            }
        }
        if let Some(watch) = &mut self.watch {
            watch.look(queue, report).await?;
        }
        Ok(())
    }

    async fn take(&mut self, letter: &Letter, report: &mut ReplayReport) -> Result<(), Fault> {
        let (queue, dry_run) = (self.queue, self.plan.dry_run);
        let step = Step::of(letter, self.plan.most_replays, &self.groups);
        let (target, fields, done) = match &step {
            Step::Move(fields) => {
                if let Some(pace) = &mut self.pace {
                    pace.wait().await;
                }
                (&queue.stream, fields, &mut report.moved)
            }
            Step::Park => (&self.parked, letter.fields(), &mut report.parked),
            Step::Leave => {
                report.skipped += 1;
                if !dry_run {
                    log::not_replayed(&queue.name, letter.id());
                }
                return Ok(());
            }
        };
        if dry_run {
            *done += 1;
            return Ok(());
        }
        let moved = queue.store.replay(&queue.name, letter.id(), target, fields);
        match (moved.await?, step, &mut self.watch) {
            (Replayed::Gone, ..) => report.skipped += 1,
            (Replayed::Moved(id), Step::Move(_), Some(watch)) => {
                *done += 1;
                watch.moved(id, letter.group());
            }
            (Replayed::Moved(_), ..) => *done += 1,
        }
        Ok(())
    }
}

/// What is done with a letter.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Back to the stream, with these fields.
    Move(Fields),
    /// To where letters are put aside, as it is.
    Park,
    /// It stays: it would be an entry without fields.
    Leave,
}

impl Step {
    fn of(letter: &Letter, most_replays: Option<u64>, groups: &BTreeSet<String>) -> Self {
        if most_replays.is_some_and(|most| letter.replays() >= most) {
            return Self::Park;
        }
        letter.replayed(groups).map_or(Self::Leave, Self::Move)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dlq::letter::tests::at;

    #[test]
    fn a_letter_that_was_replayed_too_often_is_put_aside() {
        let letter = |replays| at(1, &[("data", "1"), ("rk-replays", replays)]);
        let step = |letter: &Letter, most| match Step::of(letter, most, &BTreeSet::new()) {
            Step::Move(_) => "move",
            Step::Park => "park",
            Step::Leave => "leave",
        };
        for (replays, most, expected) in [
            ("0", None, "move"),
            ("9", None, "move"),
            ("0", Some(0), "park"),
            ("1", Some(2), "move"),
            ("2", Some(2), "park"),
            ("3", Some(2), "park"),
            ("nonsense", Some(1), "move"),
        ] {
            assert_eq!(step(&letter(replays), most), expected, "{replays} {most:?}");
        }
        let empty = at(1, &[("x-error", "e")]);
        assert_eq!(step(&empty, None), "leave");
        assert_eq!(step(&empty, Some(0)), "park");
    }
}
