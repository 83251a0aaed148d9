//! The settings of one handler, and the arithmetic of its delays. No clock, no randomness, no I/O.

use std::time::Duration;

use crate::store::Acked;

/// When a message leaves the pending list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckPolicy {
    /// Ok acks, a failure is retried and ends in the DLQ.
    NackOnError,
    /// Ok and failure ack; a failure is logged.
    AckAlways,
    /// Acked just before the run: at most once.
    AckFirst,
    /// Only the handler's marks count.
    Manual,
}

impl AckPolicy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NackOnError => "nack_on_error",
            Self::AckAlways => "ack_always",
            Self::AckFirst => "ack_first",
            Self::Manual => "manual",
        }
    }
}

/// Whether what is acked is deleted from the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeleteOnAck {
    No,
    /// As long as the stream has no other group, which is looked at when the broker starts.
    Alone,
    EvenWithOtherGroups,
}

/// The settings of one handler. The setters check their ranges, and since a registration is a
/// constant, a value out of range is a compile error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Policy {
    pub(crate) max_retries: Option<u32>,
    claim_idle_ms: u64,
    backoff: f64,
    max_backoff_ms: Option<u64>,
    jitter: f64,
    block_ms: u64,
    pub(crate) ack_policy: AckPolicy,
    pub(crate) concurrency: u32,
    timeout_ms: Option<u64>,
    pub(crate) delete_on_ack: DeleteOnAck,
}

/// The cap of a delay when none was given, as in Python RillKit: fifteen minutes.
const MAX_BACKOFF_MS: u64 = 900_000;

impl Policy {
    pub(crate) const DEFAULT: Self = Self {
        max_retries: Some(3),
        claim_idle_ms: 60_000,
        backoff: 1.0,
        max_backoff_ms: None,
        jitter: 0.0,
        block_ms: 5_000,
        ack_policy: AckPolicy::NackOnError,
        concurrency: 1,
        timeout_ms: None,
        delete_on_ack: DeleteOnAck::No,
    };

    pub(crate) const fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
        self
    }

    pub(crate) const fn retry_for_ever(mut self) -> Self {
        self.max_retries = None;
        self
    }

    pub(crate) const fn claim_idle_ms(mut self, ms: u64) -> Self {
        assert!(
            ms >= 100,
            "`claim_idle_ms` must be at least 100 (milliseconds)"
        );
        self.claim_idle_ms = ms;
        self
    }

    pub(crate) const fn backoff(mut self, factor: f64) -> Self {
        assert!(
            factor >= 1.0 && factor.is_finite(),
            "`backoff` must be at least 1.0"
        );
        self.backoff = factor;
        self
    }

    pub(crate) const fn max_backoff_ms(mut self, ms: u64) -> Self {
        self.max_backoff_ms = Some(ms);
        self
    }

    pub(crate) const fn jitter(mut self, share: f64) -> Self {
        assert!(
            share >= 0.0 && share <= 1.0,
            "`jitter` must be between 0.0 and 1.0"
        );
        self.jitter = share;
        self
    }

    pub(crate) const fn block_ms(mut self, ms: u64) -> Self {
        assert!(ms > 0, "`block_ms` must be above 0 (milliseconds)");
        self.block_ms = ms;
        self
    }

    pub(crate) const fn ack_policy(mut self, policy: AckPolicy) -> Self {
        self.ack_policy = policy;
        self
    }

    pub(crate) const fn concurrency(mut self, handlers: u32) -> Self {
        assert!(handlers >= 1, "`concurrency` must be at least 1");
        self.concurrency = handlers;
        self
    }

    pub(crate) const fn timeout_ms(mut self, ms: u64) -> Self {
        assert!(ms > 0, "`timeout_ms` must be above 0 (milliseconds)");
        self.timeout_ms = Some(ms);
        self
    }

    pub(crate) const fn delete_on_ack(mut self, whether: bool) -> Self {
        self.delete_on_ack = if whether {
            DeleteOnAck::Alone
        } else {
            DeleteOnAck::No
        };
        self
    }

    pub(crate) const fn delete_on_ack_even_with_other_groups(mut self) -> Self {
        self.delete_on_ack = DeleteOnAck::EvenWithOtherGroups;
        self
    }

    /// What only the whole can tell, after every setter.
    pub(crate) const fn check(self) -> Self {
        if let Some(cap) = self.max_backoff_ms {
            assert!(
                cap >= self.claim_idle_ms,
                "`max_backoff_ms` must not be below `claim_idle_ms`"
            );
        }
        self
    }

    /// What becomes of an entry that is acked.
    pub(crate) fn acked(&self) -> Acked {
        match self.delete_on_ack {
            DeleteOnAck::No => Acked::Stays,
            DeleteOnAck::Alone | DeleteOnAck::EvenWithOtherGroups => Acked::Goes,
        }
    }

    /// How long an entry in hand may stay untouched.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.claim_idle_ms)
    }

    /// The longest blocking read.
    pub(crate) fn block(&self) -> Duration {
        Duration::from_millis(self.block_ms)
    }

    /// The longest run, if there is one.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }

    /// The delay after failed delivery number `deliveries`, without jitter:
    /// `min(claim_idle_ms * backoff^(n-1), max_backoff_ms)`, saturating. Python RillKit and every
    /// other worker of the group apply it to the idle time in the pending list. Zero for a message
    /// that was never delivered.
    pub(crate) fn delay(&self, deliveries: u64) -> Duration {
        if deliveries == 0 {
            return Duration::ZERO;
        }
        let cap = self.cap();
        let exponent = i32::try_from(deliveries - 1).unwrap_or(i32::MAX);
        // A float beyond u64 saturates in the cast, and infinity with it.
        let ms = (self.claim_idle_ms as f64 * self.backoff.powi(exponent)) as u64;
        Duration::from_millis(ms.min(cap))
    }

    fn cap(&self) -> u64 {
        self.max_backoff_ms
            .unwrap_or(MAX_BACKOFF_MS.max(self.claim_idle_ms))
    }

    /// The longest delay.
    pub(crate) fn max_backoff(&self) -> Duration {
        Duration::from_millis(self.cap())
    }

    /// The growth of the delay with each delivery.
    pub(crate) fn backoff_factor(&self) -> f64 {
        self.backoff
    }

    /// The share that is added to a delay at random, at most.
    pub(crate) fn jitter_share(&self) -> f64 {
        self.jitter
    }

    /// [`Policy::delay`] with jitter added; `random` is from 0.0 to 1.0.
    pub(crate) fn delay_with_jitter(&self, deliveries: u64, random: f64) -> Duration {
        let delay = self.delay(deliveries);
        delay.saturating_add(delay.mul_f64(self.jitter * random.clamp(0.0, 1.0)))
    }

    /// How long one entry may go on coming again, at most: all its delays, each with all of its jitter,
    /// the one after which it is dead among them. Without a limit of retries, the longest of them.
    pub(crate) fn redelivery_window(&self) -> Duration {
        let Some(retries) = self.max_retries else {
            return self.delay_with_jitter(u64::MAX, 1.0);
        };
        let last = u64::from(retries) + 1;
        // Beyond these all count as the longest.
        let single = last.min(1000);
        let singles = (1..=single).fold(Duration::ZERO, |sum, delivery| {
            sum.saturating_add(self.delay_with_jitter(delivery, 1.0))
        });
        let rest = u32::try_from(last - single).unwrap_or(u32::MAX);
        singles.saturating_add(self.delay_with_jitter(last, 1.0).saturating_mul(rest))
    }

    pub(crate) fn has_jitter(&self) -> bool {
        self.jitter > 0.0
    }

    /// Whether this count is more than the runs a message may have.
    pub(crate) fn is_exhausted(&self, deliveries: u64) -> bool {
        self.max_retries
            .is_some_and(|retries| deliveries > u64::from(retries))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn delays_grow_up_to_the_cap() {
        let policy = Policy::DEFAULT
            .claim_idle_ms(300)
            .backoff(2.0)
            .max_backoff_ms(1000);
        let delays: Vec<_> = (0..6).map(|n| policy.delay(n).as_millis()).collect();
        assert_eq!(delays, [0, 300, 600, 1000, 1000, 1000]);
    }

    #[test]
    fn the_default_cap_is_never_below_the_lease() {
        assert_eq!(
            Policy::DEFAULT.backoff(10.0).delay(9),
            Duration::from_secs(900)
        );
        assert_eq!(
            Policy::DEFAULT.claim_idle_ms(2_000_000).delay(1),
            Duration::from_secs(2000)
        );
    }

    #[test]
    fn a_limit_of_none_is_never_exhausted() {
        assert!(!Policy::DEFAULT.retry_for_ever().is_exhausted(u64::MAX));
        assert!(Policy::DEFAULT.max_retries(0).is_exhausted(1));
        assert!(!Policy::DEFAULT.max_retries(0).is_exhausted(0));
    }

    #[test]
    fn the_redelivery_window_is_the_sum_of_all_delays() {
        let ms = |policy: Policy| policy.redelivery_window().as_millis();
        let policy = Policy::DEFAULT.claim_idle_ms(300);
        assert_eq!(ms(policy.max_retries(0)), 300);
        assert_eq!(ms(policy.max_retries(2)), 900);
        assert_eq!(ms(policy.max_retries(2).jitter(0.5)), 1350);
        assert_eq!(ms(policy.max_retries(u32::MAX)), 300 << 32);
        let growing = policy.backoff(2.0).max_backoff_ms(1000);
        assert_eq!(ms(growing.max_retries(3)), 300 + 600 + 1000 + 1000);
        assert_eq!(ms(growing.retry_for_ever()), 1000);
    }

    proptest! {
        #[test]
        fn delays_never_shrink_never_pass_the_cap_and_never_panic(
            lease in 100u64.., backoff in 1.0f64..1e300, over in 0u64.., n in 1u64..,
            jitter in 0.0f64..=1.0, random in 0.0f64..=1.0,
        ) {
            let cap = lease.saturating_add(over);
            let policy = Policy::DEFAULT.claim_idle_ms(lease).backoff(backoff).max_backoff_ms(cap).jitter(jitter).check();
            let delay = policy.delay(n);
            prop_assert!(delay <= Duration::from_millis(cap));
            prop_assert!(delay >= policy.delay(n - 1));
            prop_assert!(delay >= Duration::from_millis(lease.min(1 << 52)));
            let jittered = policy.delay_with_jitter(n, random);
            prop_assert!(jittered >= delay);
            prop_assert!(jittered <= delay.saturating_mul(2).saturating_add(Duration::from_millis(1)));
        }
    }
}
