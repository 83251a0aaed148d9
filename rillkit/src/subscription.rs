//! The registration entry that `#[subscribe]` writes, and the checks of all entries at the start.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::body::Undecodable;
use crate::entry_id::EntryId;
use crate::error::{Error, ErrorKind};
use crate::extract::{Requirement, States};
use crate::message::Message;
use crate::outcome::Outcome;
use crate::policy::{AckPolicy, DeleteOnAck, Policy};
use crate::store::Need;
use crate::wire;

/// A handler's run, from the decoded body to its outcome.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Decodes, extracts and calls; the run itself is the future.
pub type Call = fn(&Message) -> Result<HandlerFuture, Undecodable>;

/// One handler as `#[subscribe]` registered it: its function, its stream and group, its settings.
///
/// Made by the attribute alone; [`handlers!`](crate::handlers) lists entries by the names of their
/// functions.
pub struct Subscription {
    name: &'static str,
    module: &'static str,
    file: &'static str,
    line: u32,
    stream: &'static str,
    group: &'static str,
    dlq: Option<&'static str>,
    consumer: Option<&'static str>,
    start: &'static str,
    requirements: &'static [fn() -> Option<Requirement>],
    idempotent: bool,
    idempotent_for_ms: u64,
    pub(crate) call: Call,
    pub(crate) policy: Policy,
}

inventory::collect!(Subscription);

/// How long a key stays done when nothing is said: a day.
const IDEMPOTENT_FOR_MS: u64 = 24 * 60 * 60 * 1000;

/// The setters are for expansions of `#[subscribe]` alone, and can change in any release.
#[doc(hidden)]
impl Subscription {
    #[must_use]
    pub const fn new(
        name: &'static str,
        module: &'static str,
        file: &'static str,
        line: u32,
        stream: &'static str,
        group: &'static str,
        call: Call,
    ) -> Self {
        Self {
            name,
            module,
            file,
            line,
            stream,
            group,
            dlq: None,
            consumer: None,
            start: "0",
            requirements: &[],
            idempotent: false,
            idempotent_for_ms: IDEMPOTENT_FOR_MS,
            call,
            policy: Policy::DEFAULT,
        }
    }

    #[must_use]
    pub const fn requirements(
        mut self,
        requirements: &'static [fn() -> Option<Requirement>],
    ) -> Self {
        self.requirements = requirements;
        self
    }

    /// The DLQ that the stream's constant names; the handler's own `dlq` goes over it.
    #[must_use]
    pub const fn stream_dlq(mut self, dlq: Option<&'static str>) -> Self {
        if self.dlq.is_none() {
            self.dlq = dlq;
        }
        self
    }

    #[must_use]
    pub const fn dlq(mut self, dlq: &'static str) -> Self {
        self.dlq = Some(dlq);
        self
    }

    #[must_use]
    pub const fn consumer(mut self, consumer: &'static str) -> Self {
        self.consumer = Some(consumer);
        self
    }

    #[must_use]
    pub const fn start(mut self, start: &'static str) -> Self {
        self.start = start;
        self
    }

    #[must_use]
    pub const fn idempotent(mut self, idempotent: bool) -> Self {
        self.idempotent = idempotent;
        self
    }

    #[must_use]
    pub const fn idempotent_for_ms(mut self, ms: u64) -> Self {
        assert!(ms > 0, "`idempotent_for_ms` must be above 0 (milliseconds)");
        self.idempotent_for_ms = ms;
        self
    }

    #[must_use]
    pub const fn max_retries(mut self, retries: u32) -> Self {
        self.policy = self.policy.max_retries(retries);
        self
    }

    #[must_use]
    pub const fn retry_for_ever(mut self) -> Self {
        self.policy = self.policy.retry_for_ever();
        self
    }

    #[must_use]
    pub const fn claim_idle_ms(mut self, ms: u64) -> Self {
        self.policy = self.policy.claim_idle_ms(ms);
        self
    }

    #[must_use]
    pub const fn backoff(mut self, factor: f64) -> Self {
        self.policy = self.policy.backoff(factor);
        self
    }

    #[must_use]
    pub const fn max_backoff_ms(mut self, ms: u64) -> Self {
        self.policy = self.policy.max_backoff_ms(ms);
        self
    }

    #[must_use]
    pub const fn jitter(mut self, share: f64) -> Self {
        self.policy = self.policy.jitter(share);
        self
    }

    #[must_use]
    pub const fn block_ms(mut self, ms: u64) -> Self {
        self.policy = self.policy.block_ms(ms);
        self
    }

    #[must_use]
    pub const fn ack_policy(mut self, policy: AckPolicy) -> Self {
        self.policy = self.policy.ack_policy(policy);
        self
    }

    #[must_use]
    pub const fn concurrency(mut self, handlers: u32) -> Self {
        self.policy = self.policy.concurrency(handlers);
        self
    }

    #[must_use]
    pub const fn timeout_ms(mut self, ms: u64) -> Self {
        self.policy = self.policy.timeout_ms(ms);
        self
    }

    #[must_use]
    pub const fn delete_on_ack(mut self, whether: bool) -> Self {
        self.policy = self.policy.delete_on_ack(whether);
        self
    }

    #[must_use]
    pub const fn delete_on_ack_even_with_other_groups(mut self) -> Self {
        self.policy = self.policy.delete_on_ack_even_with_other_groups();
        self
    }

    /// The last call of an expansion: what only the whole can tell.
    #[must_use]
    pub const fn check(mut self) -> Self {
        self.policy = self.policy.check();
        self
    }
}

impl Subscription {
    /// The function's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The stream it reads.
    #[must_use]
    pub fn stream(&self) -> &'static str {
        self.stream
    }

    /// The group it reads for.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// The dead-letter stream.
    #[must_use]
    pub fn dlq_name(&self) -> String {
        self.dlq.map_or_else(
            || format!("{}{}", self.stream, wire::DLQ_SUFFIX),
            str::to_owned,
        )
    }

    /// The function with its module: `app::jobs::run_job`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}::{}", self.module, self.name)
    }

    /// The consumer's name, when the attribute gives one.
    pub(crate) fn given_consumer(&self) -> Option<&'static str> {
        self.consumer
    }

    /// How long a key stays done, where the handler is idempotent.
    pub(crate) fn idempotent_for(&self) -> Option<Duration> {
        self.idempotent
            .then(|| Duration::from_millis(self.idempotent_for_ms))
    }

    /// Whether the handler queues commands for its acks.
    pub(crate) fn has_tx(&self) -> bool {
        let requirements = self.requirements.iter();
        requirements
            .filter_map(|requirement| requirement())
            .any(|one| one == Requirement::Tx)
    }

    /// What the worker asks of the store beyond what all need.
    pub(crate) fn needs(&self) -> Vec<Need> {
        let commits = self.has_tx().then_some(Need::Commits);
        let markers = self.idempotent.then_some(Need::Markers);
        commits.into_iter().chain(markers).collect()
    }

    pub(crate) fn start_at(&self) -> &'static str {
        self.start
    }

    /// Why a handler that deletes what it acks is refused: the stream has these groups as well.
    pub(crate) fn deletes_for_others<'a>(
        &self,
        groups: impl IntoIterator<Item = &'a str>,
    ) -> String {
        let groups: Vec<_> = groups
            .into_iter()
            .map(|group| format!("`{}`", group.escape_debug()))
            .collect();
        format!(
            "`delete_on_ack` of {} would delete messages of stream `{}` that other groups of it have not handled: {}; \
             write `delete_on_ack = even_with_other_groups` to have that, or leave it out and use `broker.trim(..)`, \
             which waits for every group",
            self.place(),
            self.stream,
            groups.join(", ")
        )
    }

    fn place(&self) -> String {
        format!("`{}` ({}:{})", self.path(), self.file, self.line)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("handler", &self.path())
            .field("stream", &self.stream)
            .field("group", &self.group)
            .field("policy", &self.policy)
            .field("idempotent_for", &self.idempotent_for())
            .finish_non_exhaustive()
    }
}

/// Every handler that this program registered, in the order of stream, group and name.
pub(crate) fn collected() -> Vec<&'static Subscription> {
    let mut all: Vec<_> = inventory::iter::<Subscription>.into_iter().collect();
    all.sort_by_key(|subscription| (subscription.stream, subscription.group, subscription.path()));
    all
}

/// Only what `wanted` names, by stream, function or `module::function`. Nothing named: all.
///
/// # Errors
///
/// A name that fits no handler.
pub(crate) fn select(
    all: &[&'static Subscription],
    wanted: &[String],
) -> Result<Vec<&'static Subscription>, Error> {
    if wanted.is_empty() {
        return Ok(all.to_vec());
    }
    let named = |subscription: &Subscription, name: &str| {
        name == subscription.stream || name == subscription.name || name == subscription.path()
    };
    let unknown: Vec<_> = wanted
        .iter()
        .filter(|name| !all.iter().any(|subscription| named(subscription, name)))
        .map(|name| format!("`{}`", name.escape_debug()))
        .collect();
    if !unknown.is_empty() {
        let known: Vec<_> = all
            .iter()
            .map(|one| format!("`{}` (stream `{}`)", one.name, one.stream))
            .collect();
        return Err(Error::new(
            ErrorKind::Handlers,
            format!(
                "no handler has the name or the stream {}; registered are: {}",
                unknown.join(", "),
                if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                },
            ),
        ));
    }
    Ok(all
        .iter()
        .copied()
        .filter(|one| wanted.iter().any(|name| named(one, name)))
        .collect())
}

/// Refuses what cannot be started, all mistakes in one error.
pub(crate) fn check(subscriptions: &[&'static Subscription], states: &States) -> Result<(), Error> {
    if subscriptions.is_empty() {
        return Err(Error::new(
            ErrorKind::Handlers,
            "no handler is registered: annotate a function with `#[subscribe(stream = \"..\", group = \"..\")]`; \
             if your handlers are in a library crate, write `use that_crate as _;` in the program, since the linker \
             drops a crate that nothing refers to; or list them with `broker.with_handlers(handlers![..])`",
        ));
    }
    let mut mistakes = Vec::new();
    for one in subscriptions {
        mistakes.extend(mistakes_of(one));
    }
    mistakes.extend(twins(subscriptions));
    mistakes.extend(deleters(subscriptions));
    mistakes.extend(missing_states(subscriptions, states));
    if mistakes.is_empty() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Handlers, mistakes.join("; ")))
}

fn mistakes_of(one: &Subscription) -> Vec<String> {
    let mut mistakes = Vec::new();
    let dlq = one.dlq_name();
    for (key, name) in [
        ("stream", one.stream),
        ("group", one.group),
        ("dlq", dlq.as_str()),
        ("consumer", one.consumer.unwrap_or("-")),
    ] {
        if let Err(why) = check_name(name) {
            mistakes.push(format!("`{key}` of {} {why}", one.place()));
        }
    }
    if dlq == one.stream {
        mistakes.push(format!(
            "`dlq` of {} is its own stream `{}`: a dead letter would be delivered again for ever; name another stream",
            one.place(),
            one.stream
        ));
    }
    let window = one.policy.redelivery_window();
    if one
        .idempotent_for()
        .is_some_and(|lifetime| lifetime < window)
    {
        mistakes.push(format!(
            "`idempotent_for_ms` of {} is {}: a message may come again for up to {} ms by `max_retries` and the \
             delays, and would run although its key was done; write that or more",
            one.place(),
            one.idempotent_for_ms,
            window.as_millis()
        ));
    }
    if one.has_tx() && one.policy.ack_policy == AckPolicy::AckFirst {
        mistakes.push(format!(
            "{} takes a `Tx`, whose commands are applied with the ack when a run has ended, and \
             `ack_policy = ack_first` acks before the run; write another policy, or leave the `Tx` out",
            one.place()
        ));
    }
    if one.start != "$" && EntryId::parse(one.start.as_bytes()).is_none() {
        mistakes.push(format!(
            "`start` of {} is `{}`: expected \"0\" (from the beginning), \"$\" (only new ones) or an entry id",
            one.place(),
            one.start.escape_debug()
        ));
    }
    mistakes
}

/// Names go into logs and keys: they are not empty and hold no control characters.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("is empty: give it a name".to_owned());
    }
    let plain = name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if !plain && name.chars().any(char::is_control) {
        return Err(format!(
            "holds a control character: `{}`",
            name.escape_debug()
        ));
    }
    Ok(())
}

fn twins(subscriptions: &[&'static Subscription]) -> Vec<String> {
    let mut places: HashMap<_, Vec<String>> = HashMap::new();
    for one in subscriptions {
        places
            .entry((one.stream, one.group))
            .or_default()
            .push(one.place());
    }
    let mut twins: Vec<_> = places
        .into_iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|((stream, group), places)| {
            format!(
                "stream `{stream}` and group `{group}` have {} handlers: {}; each message of a group goes to one \
                 handler, so give each its own group",
                places.len(),
                places.join(" and ")
            )
        })
        .collect();
    twins.sort();
    twins
}

/// Handlers that would delete what others of this program read as well.
fn deleters(subscriptions: &[&'static Subscription]) -> Vec<String> {
    let alone = |one: &&&Subscription| one.policy.delete_on_ack == DeleteOnAck::Alone;
    subscriptions
        .iter()
        .filter(alone)
        .filter_map(|one| {
            let shares =
                |other: &&&Subscription| other.stream == one.stream && other.group != one.group;
            let others: Vec<_> = subscriptions
                .iter()
                .filter(shares)
                .map(|other| other.group)
                .collect();
            (!others.is_empty()).then(|| one.deletes_for_others(others))
        })
        .collect()
}

fn missing_states(subscriptions: &[&'static Subscription], states: &States) -> Vec<String> {
    let mut missing: Vec<(&str, Vec<String>)> = Vec::new();
    for one in subscriptions {
        let lacking = one
            .requirements
            .iter()
            .filter_map(|requirement| states.lacks(requirement()?));
        for lacking in lacking {
            match missing.iter_mut().find(|(name, _)| *name == lacking) {
                Some((_, places)) => places.push(one.place()),
                None => missing.push((lacking, vec![one.place()])),
            }
        }
    }
    missing
        .into_iter()
        .map(|(name, places)| {
            format!(
                "no `State<{name}>` was provided for {}: call `broker.with_state(value)`",
                places.join(" and ")
            )
        })
        .collect()
}
