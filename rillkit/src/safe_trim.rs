//! Trims a stream of what all its groups have handled, and says what holds the rest back.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use crate::entry_id::EntryId;
use crate::error::{Error, ErrorKind};
use crate::store::{Fault, Spared, Standing, Store, TrimStep};
use crate::subscription::check_name;

/// Entries in one step: the server does nothing else meanwhile.
const STEP: u64 = 5_000;
/// Entries counted in one step, for which the server has to look at each.
const COUNT_STEP: u64 = 100;

/// Removes what no group needs any more, when it is awaited; see
/// [`Broker::trim`](crate::Broker::trim).
#[derive(Clone)]
#[must_use = "nothing is trimmed until this is awaited"]
pub struct SafeTrim {
    store: Store,
    stream: String,
    spared: Spared,
    dry_run: bool,
}

impl SafeTrim {
    pub(crate) fn new(store: &Store, stream: &str) -> Self {
        Self {
            store: store.clone(),
            stream: stream.to_owned(),
            spared: Spared::default(),
            dry_run: false,
        }
    }

    /// Leaves the newest `count` entries, handled or not.
    pub fn keep(mut self, count: u64) -> Self {
        self.spared.newest = count;
        self
    }

    /// Removes only what is older than this by the server's clock.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.spared.younger_than = Some(age);
        self
    }

    /// Takes no account of these groups: what they have not read or have pending goes as well. For
    /// groups of programs that are no more.
    pub fn ignoring<N: Into<String>>(mut self, groups: impl IntoIterator<Item = N>) -> Self {
        let groups = groups.into_iter().map(Into::into);
        self.spared.ignored_groups.extend(groups);
        self
    }

    /// Trims a stream without a group too, by [`keep`](Self::keep) and
    /// [`older_than`](Self::older_than) alone; with neither, everything goes. A group may be about
    /// to be created, or may have been deleted by mistake: without this, such a stream is left as it
    /// is. Ignored groups are none.
    pub fn even_without_groups(mut self) -> Self {
        self.spared.unless_grouped = true;
        self
    }

    /// Removes nothing, and says what would be removed. The server counts it entry by entry.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    pub(crate) fn stream(&self) -> &str {
        &self.stream
    }

    pub(crate) async fn run(&self) -> Result<Trimmed, Error> {
        check_name(&self.stream)
            .map_err(|why| Error::new(ErrorKind::Input, format!("the name of the stream {why}")))?;
        let done = if self.dry_run {
            self.count().await
        } else {
            self.trim().await
        };
        done.map_err(|fault| {
            Error::from_fault(&fault, &format!("trimming `{}` failed", self.stream))
        })
    }

    /// Step by step, each with a look of its own at the groups. No more than there was at the
    /// beginning: quick handlers would keep it going for ever.
    async fn trim(&self) -> Result<Trimmed, Fault> {
        let (mut removed, mut at_first) = (0, None);
        loop {
            let step = self.store.trim(&self.stream, &self.spared, STEP).await?;
            removed += step.removed;
            let at_first = *at_first.get_or_insert(step.removed + step.left);
            if step.removed == 0 || removed >= at_first {
                return Ok(Trimmed::of(removed, &step));
            }
        }
    }

    async fn count(&self) -> Result<Trimmed, Fault> {
        let look = self.store.trim(&self.stream, &self.spared, 0).await?;
        let excess = look.left.saturating_sub(self.spared.newest);
        let mut removable = 0;
        if let Some(floor) = look.floor.filter(|floor| *floor > EntryId::MIN) {
            let mut from = EntryId::MIN;
            while removable < excess {
                let most = COUNT_STEP.min(excess - removable);
                let counted = self.store.count(&self.stream, from, floor.before(), most);
                let (count, last) = counted.await?;
                removable += count;
                match last {
                    Some(last) if count == most && last < floor.before() => from = last.after(),
                    _ => break,
                }
            }
        }
        let left = look.left - removable;
        Ok(Trimmed::of(removable, &TrimStep { left, ..look }))
    }
}

impl IntoFuture for SafeTrim {
    type Output = Result<Trimmed, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.run().await })
    }
}

impl fmt::Debug for SafeTrim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SafeTrim")
            .field("stream", &self.stream)
            .field("spared", &self.spared)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}

/// What a trim did, and what holds the rest back.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trimmed {
    /// Entries that were removed, or would have been.
    pub removed: u64,
    /// Entries that are left, or would have been.
    pub left: u64,
    /// Groups that were looked at. Without any, nothing is removed unless
    /// [`even_without_groups`](SafeTrim::even_without_groups) says so.
    pub groups: usize,
    /// Each group that still needs something, the one that holds back most at first.
    pub holds: Vec<Hold>,
}

/// A group that still needs a part of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hold {
    /// The group's name.
    pub group: String,
    /// What it needs.
    pub reason: HoldReason,
    /// From this id on the stream is held back; the group has handled everything below.
    pub from: EntryId,
    /// How many are pending or unread; `None` where the server does not know.
    pub count: Option<u64>,
}

/// Why a group holds back a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldReason {
    /// It was handed messages that are not acked.
    Pending,
    /// It has not read on.
    Unread,
}

impl Trimmed {
    fn of(removed: u64, step: &TrimStep) -> Self {
        Self {
            removed,
            left: step.left,
            groups: step.groups.len(),
            holds: holds(&step.groups),
        }
    }

    /// The group that holds back most, if any does.
    #[must_use]
    pub fn held_back_by(&self) -> Option<&Hold> {
        self.holds.first()
    }
}

fn holds(groups: &[Standing]) -> Vec<Hold> {
    let mut holds: Vec<_> = groups.iter().filter_map(hold).collect();
    holds.sort_by_key(|hold| hold.from);
    holds
}

fn hold(standing: &Standing) -> Option<Hold> {
    let unread = standing.has_unread.then(|| standing.last.after());
    let pending = standing
        .lowest
        .filter(|lowest| unread.is_none_or(|unread| *lowest < unread));
    let (reason, from, count) = match (pending, unread) {
        (Some(lowest), _) => (HoldReason::Pending, lowest, Some(standing.pending)),
        (None, Some(from)) => (HoldReason::Unread, from, standing.unread),
        (None, None) => return None,
    };
    Some(Hold {
        group: standing.group.clone(),
        reason,
        from,
        count,
    })
}

/// `removed 10, 5 are left, held back by group `audit`: 5 unread from 17-1 on`.
impl fmt::Display for Trimmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "removed {}, {} are left", self.removed, self.left)?;
        match self.held_back_by() {
            Some(hold) => write!(f, ", held back by {hold}"),
            None if self.groups == 0 => f.write_str(", without a group to go by"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group `{}`: ", self.group)?;
        if let Some(count) = self.count {
            write!(f, "{count} ")?;
        }
        write!(f, "{} from {} on", self.reason, self.from)
    }
}

impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Unread => "unread",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(seq: u64) -> EntryId {
        EntryId { ms: 1, seq }
    }

    fn standing(last: u64, lowest: Option<u64>, has_unread: bool) -> Standing {
        Standing {
            group: format!("g{last}"),
            last: id(last),
            pending: 2,
            lowest: lowest.map(id),
            has_unread,
            unread: None,
        }
    }

    #[test]
    fn a_group_holds_from_the_first_that_it_needs() {
        for (standing, expected) in [
            (standing(5, None, false), None),
            (
                standing(5, None, true),
                Some((HoldReason::Unread, id(6), None)),
            ),
            (
                standing(5, Some(3), true),
                Some((HoldReason::Pending, id(3), Some(2))),
            ),
            (
                standing(5, Some(3), false),
                Some((HoldReason::Pending, id(3), Some(2))),
            ),
            // The group was set back behind what it has pending.
            (
                standing(5, Some(9), true),
                Some((HoldReason::Unread, id(6), None)),
            ),
        ] {
            let found = hold(&standing).map(|hold| (hold.reason, hold.from, hold.count));
            assert_eq!(found, expected, "{standing:?}");
        }
    }

    #[test]
    fn the_group_that_holds_most_stands_first() {
        let groups = [
            standing(9, None, true),
            standing(7, Some(2), true),
            standing(4, None, true),
        ];
        let step = TrimStep {
            left: 8,
            groups: groups.to_vec(),
            ..TrimStep::default()
        };
        let trimmed = Trimmed::of(3, &step);
        let order: Vec<_> = trimmed.holds.iter().map(|hold| &*hold.group).collect();
        assert_eq!(order, ["g7", "g4", "g9"]);
        let said = "removed 3, 8 are left, held back by group `g7`: 2 pending from 1-2 on";
        assert_eq!(trimmed.to_string(), said);
    }
}
