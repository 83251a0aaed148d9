//! How running handlers are, for whoever restarts a process or sends work its way. Plain data, made
//! of what the loops have noted: asking sends nothing to the server.

use std::time::Duration;

use crate::policy::Policy;
use crate::post::Post;
use crate::pulse::{Part, Signs, Trouble};

/// How running handlers are, all told and one by one: what
/// [`Broker::health`](crate::Broker::health) and [`Running::health`](crate::Running::health) give.
///
/// Asking is cheap and sends nothing to the server. For the endpoints of an orchestrator:
///
/// ```
/// use rillkit::{Broker, HealthVerdict};
///
/// /// `GET /ready`: whether this worker gets anything done right now.
/// fn ready(broker: &Broker) -> (u16, String) {
///     let health = broker.health();
///     match health.verdict {
///         HealthVerdict::Healthy => (200, "ready".to_owned()),
///         HealthVerdict::NotReady | HealthVerdict::Unhealthy => (503, format!("{health:?}")),
///     }
/// }
///
/// /// `GET /live`: a server that is down is no reason to restart a worker.
/// fn live(broker: &Broker) -> u16 {
///     if broker.health().verdict == HealthVerdict::Unhealthy { 500 } else { 200 }
/// }
/// # let broker = Broker::memory();
/// # assert_eq!(ready(&broker).0, 503, "no handler runs");
/// # assert_eq!(live(&broker), 200);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The worst of the handlers' verdicts; without any handler, `NotReady`.
    pub verdict: HealthVerdict,
    /// Each running handler.
    pub handlers: Vec<HandlerHealth>,
}

/// What to make of a worker, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HealthVerdict {
    /// It reads, or would if there were a free slot.
    Healthy,
    /// It waits for something outside: the server is away, loading, out of memory or read-only, a
    /// hundred messages cannot be moved to their dead-letter queue, or the worker is being started
    /// or stopped. It goes on by itself; a restart would not help.
    NotReady,
    /// One of its loops makes no progress although it should, or has panicked and is about to be
    /// started again, or the server refuses it for a reason that no waiting cures. Somebody has to
    /// look; a restart may help.
    Unhealthy,
}

/// How one running handler is. All durations say how long ago something was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerHealth {
    /// The name of its function.
    pub handler: &'static str,
    /// The stream that it reads.
    pub stream: &'static str,
    /// The group that it reads for.
    pub group: &'static str,
    /// Its name in that group.
    pub consumer: String,
    /// What to make of it.
    pub verdict: HealthVerdict,
    /// What is between it and the server.
    pub connection: ConnectionState,
    /// When the server last answered a read, with messages or without. On an idle stream that is
    /// every `block_ms`.
    pub last_read: Option<Duration>,
    /// When a run last ended, well or not.
    pub last_handled: Option<Duration>,
    /// Messages that are read and not settled, those that wait for a retry among them.
    pub in_hand: usize,
    /// How long the oldest of these has been in hand, not counting those that wait for a retry.
    pub oldest_in_hand: Option<Duration>,
    /// How often another consumer took a message that this one had in hand.
    pub lost_leases: u64,
    /// How many messages were acked without a run, since another with the same idempotency key was
    /// done; see [`Message::idempotency_key`](crate::Message::idempotency_key).
    pub duplicates: u64,
    /// How many pending messages this one found lost: somebody trimmed or deleted them from the
    /// stream before they were handled. Each is in the log as well.
    pub lost_entries: u64,
    /// How many messages were no longer pending when they were due again, had failed for good or were
    /// to be handed back: another consumer settled them, or somebody removed them from the group with
    /// `XACK`, `XGROUP DELCONSUMER` or the group itself. Each is in the log as well.
    pub not_pending: u64,
    /// How often RillKit itself panicked here and was started again. Each is in the log, and worth a
    /// report.
    pub restarts: u64,
    /// What last went wrong with the server, or in a loop that panicked, and when: at most 1000
    /// characters on one line, and never a password. It stays when it is over.
    pub last_error: Option<(String, Duration)>,
    /// The loop that makes no progress, if one does not.
    pub stalled: Option<&'static str>,
}

/// What is between a handler and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionState {
    /// The server answers.
    Connected,
    /// There has been no connection for this long.
    Reconnecting(Duration),
    /// The server has been there and refusing for this long: it is loading, out of memory, a
    /// replica, ...
    Waiting(Duration),
    /// The server has been refusing for this long, and no waiting cures it: a missing permission, a
    /// changed password, a key of another type.
    Refused(Duration),
}

/// Beyond three block times: how long an answer may take besides.
const READ_MARGIN: Duration = Duration::from_secs(6);
/// How long a loop may be busy with one step: some wait for several answers.
const STEP: Duration = Duration::from_secs(60);

impl Health {
    pub(crate) fn of<'a>(posts: impl IntoIterator<Item = &'a Post>) -> Self {
        let handlers: Vec<_> = posts.into_iter().map(HandlerHealth::of).collect();
        let verdict = handlers.iter().map(|handler| handler.verdict).max();
        Self {
            verdict: verdict.unwrap_or(HealthVerdict::NotReady),
            handlers,
        }
    }
}

impl HandlerHealth {
    fn of(post: &Post) -> Self {
        let (signs, hand) = (post.pulse.signs(), post.hand.census());
        let stalled = stalled(&signs, post.policy(), hand.polls_in_place);
        Self {
            handler: post.subscription.name(),
            stream: post.consumer.stream,
            group: post.consumer.group,
            consumer: post.consumer.name.to_string(),
            verdict: verdict(&signs, post.policy(), stalled.is_some()),
            connection: connection(&signs),
            last_read: signs.last_read,
            last_handled: signs.last_handled,
            in_hand: hand.count,
            oldest_in_hand: hand.oldest,
            lost_leases: signs.lost_leases,
            duplicates: signs.duplicates,
            lost_entries: signs.lost_entries,
            not_pending: signs.not_pending,
            restarts: signs.restarts,
            last_error: signs.last_error,
            stalled: stalled.map(Part::name),
        }
    }
}

fn connection(signs: &Signs) -> ConnectionState {
    match signs.reads {
        None => ConnectionState::Connected,
        Some((Trouble::Unreachable, since)) => ConnectionState::Reconnecting(since),
        Some((Trouble::Refusing, since)) => ConnectionState::Waiting(since),
        Some((Trouble::Mistake, since)) => ConnectionState::Refused(since),
    }
}

fn verdict(signs: &Signs, policy: &Policy, stalled: bool) -> HealthVerdict {
    if signs.stopping {
        return HealthVerdict::NotReady;
    }
    // A permission that is missing for a moment, while rules are loaded, is nobody's fault.
    let lasting = |trouble: Option<(Trouble, Duration)>| {
        trouble.is_some_and(|(trouble, since)| {
            trouble == Trouble::Mistake && since >= policy.block().saturating_mul(3)
        })
    };
    if signs.broken || stalled || lasting(signs.reads) || lasting(signs.acks) {
        HealthVerdict::Unhealthy
    } else if signs.reads.is_some() || signs.acks.is_some() || signs.stuck {
        HealthVerdict::NotReady
    } else {
        HealthVerdict::Healthy
    }
}

/// The first loop that has not gone round for longer than it may take.
fn stalled(signs: &Signs, policy: &Policy, polls_in_place: bool) -> Option<Part> {
    let reads = policy.block().saturating_mul(3) + READ_MARGIN;
    let unanswered = match (signs.reading, signs.last_read) {
        (Some(since), Some(last)) => Some(since.min(last)),
        (since, None) => since,
        (None, _) => None,
    };
    if signs.reads.is_none() && unanswered.is_some_and(|since| since > reads) {
        return Some(Part::Reading);
    }
    Part::ALL.into_iter().find(|part| {
        let allowed = match part {
            Part::Reading => reads + STEP,
            Part::Handling | Part::Settling | Part::TakingOver => STEP,
            Part::Leases => policy.lease() / 6 + STEP,
        };
        // A handler that blocks its thread is slow, not stalled: its messages show it.
        let busy = *part == Part::Handling && polls_in_place;
        !busy && signs.beats[*part as usize] > allowed
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy::DEFAULT;
    const LONG: Duration = Duration::from_secs(600);

    fn good() -> Signs {
        Signs {
            beats: [Duration::ZERO; Part::ALL.len()],
            last_read: Some(Duration::from_secs(1)),
            last_handled: None,
            reading: Some(LONG),
            lost_leases: 0,
            duplicates: 0,
            lost_entries: 0,
            not_pending: 0,
            restarts: 0,
            stopping: false,
            stuck: false,
            broken: false,
            reads: None,
            acks: None,
            last_error: None,
        }
    }

    fn of(signs: &Signs) -> HealthVerdict {
        verdict(signs, &POLICY, stalled(signs, &POLICY, false).is_some())
    }

    #[test]
    fn trouble_outside_is_not_ready_and_a_lasting_mistake_is_unhealthy() {
        assert_eq!(of(&good()), HealthVerdict::Healthy);
        for (trouble, verdict) in [
            (Trouble::Unreachable, HealthVerdict::NotReady),
            (Trouble::Refusing, HealthVerdict::NotReady),
            (Trouble::Mistake, HealthVerdict::Unhealthy),
        ] {
            let reads = Signs {
                reads: Some((trouble, LONG)),
                ..good()
            };
            let acks = Signs {
                acks: Some((trouble, LONG)),
                ..good()
            };
            assert_eq!((of(&reads), of(&acks)), (verdict, verdict), "{trouble:?}");
        }
        let stuck = Signs {
            stuck: true,
            ..good()
        };
        assert_eq!(of(&stuck), HealthVerdict::NotReady);
        let broken = Signs {
            broken: true,
            ..good()
        };
        assert_eq!(of(&broken), HealthVerdict::Unhealthy);
        let fresh = Signs {
            reads: Some((Trouble::Mistake, Duration::ZERO)),
            ..good()
        };
        assert_eq!(of(&fresh), HealthVerdict::NotReady);
    }

    #[test]
    fn a_read_that_is_under_way_must_be_answered_within_three_block_times() {
        let silent = Signs {
            last_read: Some(LONG),
            ..good()
        };
        assert_eq!(stalled(&silent, &POLICY, false), Some(Part::Reading));
        // No slot is free, so that nothing is read; or reads have only just begun again.
        for reading in [None, Some(Duration::from_secs(1))] {
            let signs = Signs {
                reading,
                ..silent.clone()
            };
            assert_eq!(of(&signs), HealthVerdict::Healthy);
        }
    }

    #[test]
    fn every_loop_that_freezes_is_found() {
        for part in Part::ALL {
            let mut signs = good();
            signs.beats[part as usize] = LONG;
            assert_eq!(stalled(&signs, &POLICY, false), Some(part));
            assert_eq!(of(&signs), HealthVerdict::Unhealthy);
            signs.stopping = true;
            assert_eq!(of(&signs), HealthVerdict::NotReady);
        }
    }

    #[test]
    fn a_handler_that_blocks_its_thread_is_not_a_frozen_loop() {
        let mut signs = good();
        signs.beats[Part::Handling as usize] = LONG;
        assert_eq!(stalled(&signs, &POLICY, true), None);
    }
}
