//! What becomes of a message: pure functions, the same for a first delivery, a retry, a take-over and
//! a crash loop. No clock, no randomness, no I/O.

use std::time::Duration;

use crate::entry_id::EntryId;
use crate::error_text::{ErrorText, capped};
use crate::message::Mark;
use crate::policy::{AckPolicy, Policy};
use crate::store::Begun;

/// How one run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The handler returned Ok, with the mark it had set.
    Done,
    /// It returned an error.
    Failed(ErrorText),
    /// It asked for a delay of its own.
    RetryAfter(Duration, ErrorText),
    /// It said that no retry can help.
    Rejected(ErrorText),
    /// The entry could not be decoded, so there was no run.
    Malformed(String),
    /// It panicked with this text.
    Panicked(String),
    /// It ran past `timeout_ms` and was cancelled.
    TimedOut(Duration),
    /// It was dropped at the end of the grace period.
    Interrupted,
    /// There was no run: a run of this entry, with the same key, is done.
    Duplicate(EntryId),
    /// There was no run yet: another entry with the same key is in progress, or nobody knows.
    Held,
    /// There was no run: the message is no longer this consumer's.
    Lost,
}

/// Why a message is dead-lettered; the field `x-reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Error,
    Panic,
    Timeout,
    Rejected,
    Decode,
    Exhausted,
    Tx,
}

impl Reason {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Rejected => "rejected",
            Self::Decode => "decode",
            Self::Exhausted => "exhausted",
            Self::Tx => "tx",
        }
    }
}

/// What is done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// It leaves the pending list.
    Ack,
    /// It stays pending and is due again after the delay.
    Retry(Duration),
    /// It goes to the DLQ.
    DeadLetter(Reason, String),
    /// It stays pending, and comes back after the delay, counted.
    Leave(Duration),
    /// It is given back as if this delivery had not been.
    HandBack,
    /// It stays in hand and is looked at again soon; this delivery has not been used up.
    LookAgain,
    /// It is acked already, or another's: nothing to do.
    Nothing,
}

/// In the attempt history: a run under the policy `manual` that said nothing. No dead letter's reason.
const UNMARKED: &str = "unmarked";

/// The text of a message that was handed out too often.
pub(crate) const EXHAUSTED: &str = "retries exhausted";

/// Whether a message that was handed out `deliveries_before` times may run once more; otherwise
/// what is done instead.
pub(crate) fn admit(deliveries_before: u64, policy: &Policy) -> Option<Action> {
    policy
        .is_exhausted(deliveries_before)
        .then(|| Action::DeadLetter(Reason::Exhausted, EXHAUSTED.to_owned()))
}

/// What becomes of a message whose key was asked for; `None` lets it run.
pub(crate) fn begun(begun: Begun) -> Option<Verdict> {
    match begun {
        Begun::Marked => None,
        Begun::InProgress(_) => Some(Verdict::Held),
        Begun::Done(id) => Some(Verdict::Duplicate(id)),
        Begun::Gone | Begun::Other => Some(Verdict::Lost),
    }
}

/// What is done with a message after its delivery number `deliveries` ended so. `settled` says that
/// it is acked already, `mark` is what the handler marked, `random` (0.0 to 1.0) places the jitter.
pub(crate) fn decide(
    deliveries: u64,
    verdict: &Verdict,
    mark: Option<&Mark>,
    settled: bool,
    policy: &Policy,
    random: f64,
) -> Action {
    if settled {
        return Action::Nothing;
    }
    match verdict {
        Verdict::Interrupted => return Action::HandBack,
        Verdict::Duplicate(_) => return Action::Ack,
        Verdict::Held => return Action::LookAgain,
        Verdict::Lost => return Action::Nothing,
        Verdict::Malformed(error) => return Action::DeadLetter(Reason::Decode, error.clone()),
        Verdict::Rejected(error) => {
            return Action::DeadLetter(Reason::Rejected, error.text.clone());
        }
        Verdict::Done
        | Verdict::Failed(_)
        | Verdict::RetryAfter(..)
        | Verdict::Panicked(_)
        | Verdict::TimedOut(_) => {}
    }
    match mark {
        Some(Mark::Reject(reason)) => Action::DeadLetter(Reason::Rejected, capped(reason)),
        Some(Mark::Nack) => retry_or_dead_letter(deliveries, verdict, policy, random),
        Some(Mark::Ack) => Action::Ack,
        None => match (policy.ack_policy, verdict) {
            (AckPolicy::Manual, _) => leave_or_dead_letter(deliveries, policy, random),
            (
                AckPolicy::NackOnError | AckPolicy::AckAlways | AckPolicy::AckFirst,
                Verdict::Done,
            )
            | (AckPolicy::AckAlways | AckPolicy::AckFirst, _) => Action::Ack,
            (AckPolicy::NackOnError, _) => {
                retry_or_dead_letter(deliveries, verdict, policy, random)
            }
        },
    }
}

/// Whether what the handler queued goes with the ack. A run that was acked though it failed may have
/// queued half of it.
pub(crate) fn applies(verdict: &Verdict) -> bool {
    *verdict == Verdict::Done
}

fn retry_or_dead_letter(
    deliveries: u64,
    verdict: &Verdict,
    policy: &Policy,
    random: f64,
) -> Action {
    if policy.is_exhausted(deliveries) {
        let (reason, error) = failure(verdict);
        return Action::DeadLetter(reason, error);
    }
    match verdict {
        Verdict::RetryAfter(delay, _) => Action::Retry(*delay),
        _ => Action::Retry(policy.delay_with_jitter(deliveries, random)),
    }
}

/// A message that nothing was said about stays pending; without a limit it comes back for ever.
fn leave_or_dead_letter(deliveries: u64, policy: &Policy, random: f64) -> Action {
    if policy.is_exhausted(deliveries) {
        return Action::DeadLetter(Reason::Exhausted, EXHAUSTED.to_owned());
    }
    Action::Leave(policy.delay_with_jitter(deliveries, random))
}

/// The reason and the text of a failed run.
fn failure(verdict: &Verdict) -> (Reason, String) {
    match verdict {
        Verdict::Panicked(_) => (Reason::Panic, verdict.error()),
        Verdict::TimedOut(_) => (Reason::Timeout, verdict.error()),
        _ => (Reason::Error, verdict.error()),
    }
}

/// What the attempt history says of a failed delivery: why, in one word, and the error.
pub(crate) fn told(verdict: &Verdict, mark: Option<&Mark>) -> (&'static str, ErrorText) {
    match (verdict, mark) {
        (Verdict::Rejected(error), _) => (Reason::Rejected.name(), error.clone()),
        (Verdict::Malformed(error), _) => (Reason::Decode.name(), error.into()),
        (_, Some(Mark::Reject(reason))) => (Reason::Rejected.name(), reason.into()),
        (Verdict::Failed(error) | Verdict::RetryAfter(_, error), _) => {
            (Reason::Error.name(), error.clone())
        }
        (Verdict::Done, None) => (UNMARKED, "the handler ended without a mark".into()),
        _ => {
            let (reason, error) = failure(verdict);
            (reason.name(), error.into())
        }
    }
}

impl Verdict {
    /// Whether the handler was called, whatever became of it.
    pub(crate) fn is_a_run(&self) -> bool {
        !matches!(self, Self::Duplicate(_) | Self::Held | Self::Lost)
    }

    /// The text for the log and the DLQ.
    pub(crate) fn error(&self) -> String {
        match self {
            Self::Done => "nacked by the handler".to_owned(),
            Self::Failed(error) | Self::RetryAfter(_, error) | Self::Rejected(error) => {
                error.text.clone()
            }
            Self::Malformed(error) => error.clone(),
            Self::Panicked(text) => capped(&format!("handler panicked: {text}")),
            Self::TimedOut(limit) => format!("handler timed out after {} ms", limit.as_millis()),
            Self::Interrupted => "interrupted by the stop".to_owned(),
            Self::Duplicate(id) => format!("a duplicate of {id}"),
            Self::Held | Self::Lost => "not run".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_millis(300);

    fn policy(ack_policy: AckPolicy, max_retries: Option<u32>) -> Policy {
        let policy = Policy::DEFAULT.claim_idle_ms(300).ack_policy(ack_policy);
        match max_retries {
            Some(retries) => policy.max_retries(retries),
            None => policy.retry_for_ever(),
        }
    }

    fn verdicts() -> Vec<Verdict> {
        vec![
            Verdict::Done,
            Verdict::Failed("bad".into()),
            Verdict::RetryAfter(Duration::from_secs(9), "later".into()),
            Verdict::Rejected("no".into()),
            Verdict::Malformed("not JSON".to_owned()),
            Verdict::Panicked("oh".to_owned()),
            Verdict::TimedOut(Duration::from_millis(50)),
            Verdict::Interrupted,
            Verdict::Duplicate(EntryId::MIN),
            Verdict::Held,
            Verdict::Lost,
        ]
    }

    fn letter(reason: Reason, error: &str) -> Action {
        Action::DeadLetter(reason, error.to_owned())
    }

    /// The rules of one cell, written anew and apart from `decide`.
    fn expected(
        ack_policy: AckPolicy,
        verdict: &Verdict,
        mark: Option<&Mark>,
        exhausted: bool,
    ) -> Action {
        let failed = match verdict {
            Verdict::Done => letter(Reason::Error, "nacked by the handler"),
            Verdict::Failed(error) | Verdict::RetryAfter(_, error) => {
                letter(Reason::Error, &error.text)
            }
            Verdict::Panicked(_) => letter(Reason::Panic, "handler panicked: oh"),
            Verdict::TimedOut(_) => letter(Reason::Timeout, "handler timed out after 50 ms"),
            Verdict::Rejected(error) => return letter(Reason::Rejected, &error.text),
            Verdict::Malformed(error) => return letter(Reason::Decode, error),
            Verdict::Interrupted => return Action::HandBack,
            Verdict::Duplicate(_) => return Action::Ack,
            Verdict::Held => return Action::LookAgain,
            Verdict::Lost => return Action::Nothing,
        };
        let delay = if let Verdict::RetryAfter(delay, _) = verdict {
            *delay
        } else {
            LEASE
        };
        let retry = if exhausted {
            failed
        } else {
            Action::Retry(delay)
        };
        match (mark, ack_policy) {
            (Some(Mark::Reject(reason)), _) => letter(Reason::Rejected, reason),
            (Some(Mark::Nack), _) => retry,
            (Some(Mark::Ack), _) => Action::Ack,
            (None, AckPolicy::AckAlways | AckPolicy::AckFirst) => Action::Ack,
            (None, AckPolicy::NackOnError) if *verdict == Verdict::Done => Action::Ack,
            (None, AckPolicy::NackOnError) => retry,
            (None, AckPolicy::Manual) if exhausted => {
                letter(Reason::Exhausted, "retries exhausted")
            }
            (None, AckPolicy::Manual) => Action::Leave(LEASE),
        }
    }

    #[test]
    fn every_cell_of_the_table() {
        let marks = [
            None,
            Some(Mark::Ack),
            Some(Mark::Nack),
            Some(Mark::Reject("marked".to_owned())),
        ];
        for ack_policy in [
            AckPolicy::NackOnError,
            AckPolicy::AckAlways,
            AckPolicy::AckFirst,
            AckPolicy::Manual,
        ] {
            for (max_retries, deliveries, exhausted) in [
                (Some(2), 1, false),
                (Some(2), 2, false),
                (Some(2), 3, true),
                (Some(0), 1, true),
                (None, 1_000, false),
            ] {
                let policy = policy(ack_policy, max_retries);
                for verdict in verdicts() {
                    for mark in &marks {
                        let cell = format!(
                            "{ack_policy:?} {max_retries:?} {deliveries} {verdict:?} {mark:?}"
                        );
                        let action =
                            decide(deliveries, &verdict, mark.as_ref(), false, &policy, 0.0);
                        assert_eq!(
                            action,
                            expected(ack_policy, &verdict, mark.as_ref(), exhausted),
                            "{cell}"
                        );
                        let settled =
                            decide(deliveries, &verdict, mark.as_ref(), true, &policy, 0.0);
                        assert_eq!(settled, Action::Nothing, "{cell}");
                    }
                }
            }
        }
    }

    #[test]
    fn only_a_key_that_is_free_or_its_own_lets_a_message_run() {
        let other = EntryId { ms: 7, seq: 1 };
        for (begun, verdict) in [
            (Begun::Marked, None),
            (Begun::InProgress(other), Some(Verdict::Held)),
            (Begun::Done(other), Some(Verdict::Duplicate(other))),
            (Begun::Gone, Some(Verdict::Lost)),
            (Begun::Other, Some(Verdict::Lost)),
        ] {
            assert_eq!(super::begun(begun), verdict, "{begun:?}");
        }
    }

    #[test]
    fn only_a_run_that_ended_well_applies_what_it_queued() {
        let applied: Vec<_> = verdicts().into_iter().filter(applies).collect();
        assert_eq!(applied, [Verdict::Done]);
    }

    #[test]
    fn the_history_says_of_a_failed_delivery_what_its_letter_would() {
        let manual = policy(AckPolicy::Manual, Some(0));
        let retried = policy(AckPolicy::NackOnError, Some(0));
        for policy in [manual, retried] {
            for verdict in verdicts() {
                for mark in [
                    None,
                    Some(Mark::Nack),
                    Some(Mark::Reject("marked".to_owned())),
                ] {
                    let action = decide(1, &verdict, mark.as_ref(), false, &policy, 0.0);
                    let Action::DeadLetter(reason, error) = action else {
                        continue;
                    };
                    let (word, told) = told(&verdict, mark.as_ref());
                    let cell = format!("{verdict:?} {mark:?}");
                    if reason != Reason::Exhausted {
                        assert_eq!((word, told.text), (reason.name(), error), "{cell}");
                    } else if verdict == Verdict::Done {
                        assert_eq!(word, "unmarked", "{cell}");
                    } else {
                        assert_eq!(told.text, verdict.error(), "{cell}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_message_is_admitted_as_often_as_it_may_run() {
        let two = policy(AckPolicy::NackOnError, Some(2));
        assert_eq!(admit(0, &two), None);
        assert_eq!(admit(2, &two), None);
        assert_eq!(
            admit(3, &two),
            Some(letter(Reason::Exhausted, "retries exhausted"))
        );
        assert_eq!(
            admit(1, &policy(AckPolicy::Manual, Some(0))),
            Some(letter(Reason::Exhausted, "retries exhausted"))
        );
        assert_eq!(admit(u64::MAX, &policy(AckPolicy::NackOnError, None)), None);
    }

    #[test]
    fn a_reason_marked_blank_or_long_is_made_fit() {
        let policy = policy(AckPolicy::NackOnError, Some(2));
        let blank = decide(
            1,
            &Verdict::Done,
            Some(&Mark::Reject(String::new())),
            false,
            &policy,
            0.0,
        );
        assert_eq!(blank, letter(Reason::Rejected, "error without a message"));
    }

    #[test]
    fn jitter_is_added_and_never_subtracted() {
        let policy = policy(AckPolicy::NackOnError, Some(2)).jitter(0.5);
        let failed = Verdict::Failed("bad".into());
        assert_eq!(
            decide(1, &failed, None, false, &policy, 0.0),
            Action::Retry(LEASE)
        );
        assert_eq!(
            decide(1, &failed, None, false, &policy, 1.0),
            Action::Retry(LEASE * 3 / 2)
        );
    }
}
