//! Which letters are meant. Pure: a letter in, yes or no out; what a range of ids can say becomes a
//! range, so that the server reads no more than that.

use std::collections::BTreeSet;
use std::time::Duration;

use super::letter::Letter;
use crate::entry_id::EntryId;

/// Which dead letters are meant: those that fulfil all that is said. One that says nothing means
/// all of them.
///
/// ```
/// use std::time::Duration;
/// use rillkit::dlq::Filter;
///
/// let filter = Filter::new()
///     .reason("error")
///     .reason("timeout") // one of the two
///     .error_contains("connection refused")
///     .handler("run_job")
///     .older_than(Duration::from_secs(24 * 3600));
/// assert!(!filter.is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    reasons: BTreeSet<String>,
    errors: Vec<String>,
    handlers: BTreeSet<String>,
    groups: BTreeSet<String>,
    older_than: Option<Duration>,
    younger_than: Option<Duration>,
    from: Option<EntryId>,
    to: Option<EntryId>,
    ids: Option<BTreeSet<EntryId>>,
}

/// Ids from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: EntryId,
    pub(super) to: EntryId,
}

impl Filter {
    /// All letters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only letters with this reason: `error`, `panic`, `timeout`, `rejected`, `decode`,
    /// `exhausted` or `tx`. Said several times: one of them.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reasons.insert(reason.into());
        self
    }

    /// Only letters whose error's text holds this, letter for letter. Said several times: all of
    /// them.
    #[must_use]
    pub fn error_contains(mut self, text: impl Into<String>) -> Self {
        self.errors.push(text.into());
        self
    }

    /// Only letters of this handler: the name of the function, alone or with its module. Said several
    /// times: one of them.
    #[must_use]
    pub fn handler(mut self, handler: impl Into<String>) -> Self {
        self.handlers.insert(handler.into());
        self
    }

    /// Only letters that failed in this group. Said several times: one of them.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.groups.insert(group.into());
        self
    }

    /// Only letters that have been in the queue for longer than this, by the server's clock.
    #[must_use]
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = Some(age);
        self
    }

    /// Only letters that have been in the queue for less than this, by the server's clock.
    #[must_use]
    pub fn younger_than(mut self, age: Duration) -> Self {
        self.younger_than = Some(age);
        self
    }

    /// Only letters with this id (in the queue) or a later one.
    #[must_use]
    pub fn from(mut self, id: EntryId) -> Self {
        self.from = Some(id);
        self
    }

    /// Only letters with this id (in the queue) or an earlier one.
    #[must_use]
    pub fn to(mut self, id: EntryId) -> Self {
        self.to = Some(id);
        self
    }

    /// Only the letter with this id (in the queue). Said several times: one of them.
    #[must_use]
    pub fn id(self, id: EntryId) -> Self {
        self.ids([id])
    }

    /// Only the letters with these ids (in the queue).
    #[must_use]
    pub fn ids(mut self, ids: impl IntoIterator<Item = EntryId>) -> Self {
        self.ids.get_or_insert_default().extend(ids);
        self
    }

    /// Whether nothing is said, so that all letters are meant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn selected(&self) -> Option<&BTreeSet<EntryId>> {
        self.ids.as_ref()
    }

    /// Whether the time has to be known.
    pub(super) fn has_age(&self) -> bool {
        self.older_than.is_some() || self.younger_than.is_some()
    }

    /// Whether a range of ids says all of it.
    pub(super) fn is_span(&self) -> bool {
        self.reasons.is_empty()
            && self.errors.is_empty()
            && self.handlers.is_empty()
            && self.groups.is_empty()
            && self.ids.is_none()
    }

    /// The ids that are possible, at this time of the server; `None` where there are none.
    pub(super) fn span(&self, now_ms: u64) -> Option<Span> {
        let ago = |age: Duration| {
            let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            now_ms.checked_sub(age)
        };
        let mut span = Span {
            from: self.from.unwrap_or(EntryId::MIN),
            to: self.to.unwrap_or(EntryId::MAX),
        };
        if let Some(age) = self.older_than {
            span.to = span.to.min(
                EntryId {
                    ms: ago(age)?,
                    seq: 0,
                }
                .before(),
            );
        }
        if let Some(ms) = self.younger_than.and_then(ago) {
            span.from = span.from.max(EntryId { ms, seq: u64::MAX }.after());
        }
        (span.from <= span.to).then_some(span)
    }

    /// Whether the letter is meant, its id aside.
    pub(super) fn admits(&self, letter: &Letter) -> bool {
        let among = |names: &BTreeSet<String>, name: Option<&str>| {
            names.is_empty() || name.is_some_and(|name| names.contains(name))
        };
        let error = letter.error().unwrap_or_default();
        among(&self.reasons, letter.reason())
            && among(&self.groups, letter.group())
            && self.errors.iter().all(|text| error.contains(text))
            && (among(&self.handlers, letter.handler())
                || among(&self.handlers, letter.handler().map(function)))
    }
}

/// The last part of a handler's path.
fn function(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

impl Span {
    pub(super) fn contains(self, id: EntryId) -> bool {
        (self.from..=self.to).contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dlq::letter::tests::at;

    fn id(ms: u64) -> EntryId {
        EntryId { ms, seq: 0 }
    }

    #[test]
    fn a_letter_is_meant_when_it_fulfils_all_that_is_said() {
        let letter = at(
            5,
            &[
                ("x-reason", "timeout"),
                ("x-error", "ran past 30 s"),
                ("x-handler", "app::jobs::run_job"),
                ("x-group", "workers"),
            ],
        );
        let bare = at(6, &[("data", "1")]);
        let f = Filter::new;
        for (filter, meant, bare_too) in [
            (f(), true, true),
            (f().reason("timeout"), true, false),
            (f().reason("error"), false, false),
            (f().reason("error").reason("timeout"), true, false),
            (f().error_contains("past 30"), true, false),
            (f().error_contains("PAST"), false, false),
            (
                f().error_contains("past").error_contains("31"),
                false,
                false,
            ),
            (f().error_contains(""), true, true),
            (f().handler("run_job"), true, false),
            (f().handler("app::jobs::run_job"), true, false),
            (f().handler("jobs::run_job"), false, false),
            (f().handler("run"), false, false),
            (f().group("workers"), true, false),
            (f().group("worker"), false, false),
            (f().group("workers").reason("error"), false, false),
        ] {
            assert_eq!(filter.admits(&letter), meant, "{filter:?}");
            assert_eq!(filter.admits(&bare), bare_too, "{filter:?}");
            assert_eq!(filter.is_empty(), filter == f());
        }
    }

    #[test]
    fn ages_and_ids_are_a_range() {
        let ms = Duration::from_millis;
        let f = Filter::new;
        let (first, last) = (EntryId::MIN, EntryId::MAX);
        let end_of = |ms| EntryId { ms, seq: u64::MAX };
        for (filter, span) in [
            (f(), Some((first, last))),
            (f().from(id(3)).to(id(7)), Some((id(3), id(7)))),
            (f().from(id(7)).to(id(3)), None),
            // Now is 1000: what came at 900 is 100 old, neither older nor younger.
            (f().older_than(ms(100)), Some((first, end_of(899)))),
            (f().younger_than(ms(100)), Some((id(901), last))),
            (
                f().older_than(ms(100)).younger_than(ms(103)),
                Some((id(898), end_of(899))),
            ),
            (f().older_than(ms(100)).younger_than(ms(100)), None),
            (f().older_than(ms(1001)), None),
            (f().younger_than(ms(1001)), Some((first, last))),
            (f().older_than(Duration::MAX), None),
            (f().younger_than(Duration::MAX), Some((first, last))),
            (
                f().from(id(950)).younger_than(ms(100)),
                Some((id(950), last)),
            ),
            (f().to(id(50)).older_than(ms(100)), Some((first, id(50)))),
        ] {
            let found = filter.span(1000).map(|span| (span.from, span.to));
            assert_eq!(found, span, "{filter:?}");
            assert!(filter.is_span());
        }
        assert!(!f().id(id(1)).is_span());
        assert_eq!(
            f().id(id(2)).ids([id(1)]).selected(),
            Some(&[id(1), id(2)].into())
        );
    }
}
