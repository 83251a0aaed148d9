//! Carries out what was decided: acks, commits, dead letters, touches, hand-backs. Nothing else changes the
//! state of a message on the server. Every step checks that the message is still this consumer's,
//! and is repeated until the server has answered.

mod commit;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

pub(crate) use self::commit::commit;
use crate::backoff::Backoff;
use crate::decide::Reason;
use crate::dlq;
use crate::entry_id::EntryId;
use crate::error::{Error, ErrorKind};
use crate::failed_delivery::FailedDelivery;
use crate::fields::Fields;
use crate::history;
use crate::in_hand::Settling;
use crate::log;
use crate::message::Message;
use crate::once;
use crate::panic::caught;
use crate::post::{HANDED_BACK, Post};
use crate::pulse::{BEAT, Part};
use crate::store::{Acked, Consumer, Fault, FaultClass, Fenced, Return, Rows, Token};
use crate::worker::Event;

/// Ids in one ack.
const ACKS: usize = 1000;

/// The way to the task that acks. Ids that wait while an ack is under way leave together in the
/// next one: an ack for each batch would tie the reads to the server's loop.
#[derive(Debug, Clone)]
pub(crate) struct Settler {
    orders: mpsc::UnboundedSender<Order>,
}

#[derive(Debug)]
enum Order {
    Ack(Vec<EntryId>),
    Pass(Vec<EntryId>),
    AckNow(Token, oneshot::Sender<Result<(), Error>>),
    Tell(oneshot::Sender<()>),
    Close,
}

impl Settler {
    /// Starts the task. When it panics it says so and goes on: what it was settling then is in hand,
    /// for the worker to see to.
    pub(crate) fn start(
        post: Arc<Post>,
        events: mpsc::UnboundedSender<Event>,
    ) -> (Self, JoinHandle<()>) {
        let (orders, mut waiting) = mpsc::unbounded_channel();
        let task = async move {
            while let Err(panic) = caught(settle(&post, &mut waiting)).await {
                let _ = events.send(Event::Broken(Part::Settling, panic));
            }
        };
        (Self { orders }, tokio::spawn(task))
    }

    /// Acks in the background, until it is done.
    pub(crate) fn ack(&self, ids: Vec<EntryId>) {
        // The task ends after the last worker part that could send.
        let _ = self.orders.send(Order::Ack(ids));
    }

    /// Acks in the background what is meant for another group, and leaves it on the stream.
    pub(crate) fn pass(&self, ids: Vec<EntryId>) {
        let _ = self.orders.send(Order::Pass(ids));
    }

    /// Acks one message and waits for the answer.
    pub(crate) async fn ack_now(&self, id: EntryId, deliveries: u64) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        let stopped = || {
            Error::new(
                ErrorKind::NotSent,
                format!("message {id} cannot be acked: the broker has stopped"),
            )
        };
        self.orders
            .send(Order::AckNow(Token { id, deliveries }, answer))
            .map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }

    /// Waits until everything before is settled.
    pub(crate) async fn settled(&self) {
        let (tell, told) = oneshot::channel();
        let _ = self.orders.send(Order::Tell(tell));
        // Dropped by a task that panics, or has ended.
        let _ = told.await;
    }

    /// Lets the task end once everything before is settled.
    pub(crate) fn close(&self) {
        let _ = self.orders.send(Order::Close);
    }
}

async fn settle(post: &Post, waiting: &mut mpsc::UnboundedReceiver<Order>) {
    let mut orders = Vec::new();
    let mut open = true;
    let mut beat = interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while open {
        tokio::select! {
            biased;
            received = waiting.recv_many(&mut orders, 256) => {
                if received == 0 {
                    break;
                }
            }
            _ = beat.tick() => {
                post.pulse.beat(Part::Settling);
                continue;
            }
        }
        let (mut ids, mut now, mut tell) = (Vec::new(), Vec::new(), Vec::new());
        let mut passed = Vec::new();
        for order in orders.drain(..) {
            match order {
                Order::Ack(more) if ids.is_empty() => ids = more,
                Order::Ack(more) => ids.extend(more),
                Order::Pass(more) => passed.extend(more),
                Order::AckNow(token, answer) => now.push((token, answer)),
                Order::Tell(who) => tell.push(who),
                Order::Close => open = false,
            }
        }
        if !now.is_empty() {
            ack_now(post, now).await;
        }
        for ids in ids.chunks(ACKS) {
            ack(post, &post.consumer, ids).await;
        }
        if !passed.is_empty() {
            let keeps = Consumer {
                acked: Acked::Stays,
                ..post.consumer.clone()
            };
            ack(post, &keeps, &passed).await;
        }
        for who in tell {
            // Nobody may be waiting any more.
            let _ = who.send(());
        }
    }
}

async fn ack(post: &Post, consumer: &Consumer, ids: &[EntryId]) {
    let (mut backoff, mut failed) = (Backoff::short(), false);
    let acked = loop {
        post.pulse.beat(Part::Settling);
        // Nobody else takes an entry that was touched within its lease; half of it is the margin
        // for the way to the server.
        let fresh = match post.keys {
            None => post.policy().lease() / 2,
            // What marks a key as done checks everything.
            Some(_) => Duration::ZERO,
        };
        let settling = post.hand.settling(ids, fresh, Instant::now());
        match ack_once(post, consumer, settling).await {
            Ok(again) => break again,
            Err(fault) if fault.class == FaultClass::EnsureGroup => break Vec::new(),
            Err(fault) => {
                failed = true;
                post.pulse.cannot_ack(&fault);
                if post.may_complain() {
                    log::trouble(&post.consumer, &fault);
                }
            }
        }
        if post.wait_or_give_up(backoff.wait()).await {
            break Vec::new();
        }
    };
    if failed {
        post.pulse.can_ack();
    }
    if let Some(keys) = &post.keys {
        keys.forget(ids);
    }
    post.hand.release(ids.iter().copied());
    history::forget(post, &acked).await;
}

/// Acks; which of them had been handed out before.
async fn ack_once(
    post: &Post,
    consumer: &Consumer,
    settling: Settling,
) -> Result<Vec<Token>, Fault> {
    let Settling {
        plain,
        fenced,
        mut again,
    } = settling;
    if !plain.is_empty() {
        post.store.ack(consumer, &plain).await?;
    }
    if !fenced.is_empty() {
        let answers = once::ack(post, consumer, &fenced).await?;
        for (token, answer) in fenced.iter().zip(answers) {
            if answer == Fenced::Other {
                again.retain(|other| other.id != token.id);
                post.lease_lost(token.id);
            }
        }
    }
    Ok(again)
}

async fn ack_now(post: &Post, waiting: Vec<(Token, oneshot::Sender<Result<(), Error>>)>) {
    let tokens: Vec<_> = waiting
        .iter()
        .map(|(token, _)| post.hand.token(token.id).unwrap_or(*token))
        .collect();
    let answers = once::ack(post, &post.consumer, &tokens).await;
    let (mut done, mut acked) = (HashSet::new(), Vec::new());
    for (place, (token, answer)) in waiting.into_iter().enumerate() {
        let id = token.id;
        let result = match &answers {
            Ok(answers) => match answers.get(place) {
                Some(Fenced::Done) => {
                    post.hand.release([id]);
                    done.insert(id);
                    if token.deliveries > 1 {
                        acked.push(token);
                    }
                    Ok(())
                }
                // Asked for twice at once.
                Some(Fenced::Gone) if done.contains(&id) => Ok(()),
                Some(Fenced::Gone | Fenced::Other) | None => Err(Error::new(
                    ErrorKind::LeaseLost,
                    format!("message {id} cannot be acked: it is no longer this consumer's"),
                )),
            },
            Err(fault) => Err(Error::from_fault(
                fault,
                &format!("message {id} cannot be acked"),
            )),
        };
        // Who asked may have been dropped.
        let _ = answer.send(result);
    }
    history::forget(post, &acked).await;
}

/// Acks a message whose policy is at most once, just before its run; whether it may run.
pub(crate) async fn ack_before_run(post: &Post, message: &Message) -> bool {
    let (mut backoff, mut unknown) = (Backoff::short(), false);
    loop {
        match message.ack_now().await {
            Ok(()) => return true,
            Err(error) if error.kind() == ErrorKind::LeaseLost => {
                // Not pending any more, after an ack whose answer was lost: that ack did it, as long
                // as nobody else can have taken the entry.
                let untouched = post.hand.untouched(message.id(), Instant::now());
                let ours = unknown && untouched.is_some_and(|idle| idle < post.policy().lease());
                post.hand.release([message.id()]);
                if ours {
                    message.set_settled();
                } else {
                    post.lease_lost(message.id());
                }
                return ours;
            }
            Err(error) => unknown |= error.kind() == ErrorKind::Unknown,
        }
        if post.wait_or_give_up(backoff.wait()).await {
            return false;
        }
    }
}

/// Moves a message to the DLQ. Until that can be written, the message stays pending and in hand.
/// With it goes what is kept about earlier deliveries, and `last`.
pub(crate) async fn dead_letter(
    post: Arc<Post>,
    message: Message,
    reason: Reason,
    error: String,
    last: Option<FailedDelivery>,
) {
    let (id, delivery) = (message.id(), message.deliveries());
    let moved = || log::dead_letter(&post.consumer, id, delivery, &post.dlq, reason, &error);
    post.hand.set_stage(id, crate::in_hand::Stage::Settling);
    let letter = dlq::letter(&post, &message, reason, &error, last.as_ref());
    let (mut short, mut slow, mut unknown) = (Backoff::short(), Backoff::slow(), false);
    while let Some(token) = post.hand.token(id) {
        let wait = match move_letter(&post, token, &letter).await {
            Ok(Fenced::Done) => {
                moved();
                break;
            }
            // Done before, and the answer was lost.
            Ok(Fenced::Gone) if unknown => {
                moved();
                break;
            }
            Ok(Fenced::Gone) => {
                post.not_pending(id, "dead letter");
                break;
            }
            Ok(Fenced::Other) => {
                post.lease_lost(id);
                break;
            }
            Err(fault) if fault.class == FaultClass::EnsureGroup => break,
            Err(fault) => {
                unknown |= fault.class == FaultClass::Reconnect;
                post.pulse.error(&fault);
                if post.may_complain() {
                    log::dead_letter_fault(&post.consumer, id, &post.dlq, &fault);
                }
                if fault.class == FaultClass::Config {
                    slow.wait()
                } else {
                    short.wait()
                }
            }
        };
        if post.wait_or_give_up(wait).await {
            break;
        }
    }
    post.hand.release([id]);
}

/// Moves it with what is kept about it, unless that alone is forbidden.
async fn move_letter(post: &Post, token: Token, letter: &Fields) -> Result<Fenced, Fault> {
    let send = async |rows| {
        let (store, consumer) = (&post.store, &post.consumer);
        store
            .dead_letter(consumer, token, &post.dlq, letter, rows)
            .await
    };
    if token.deliveries == 1 || !post.history.is_on() {
        return send(Rows::Left).await;
    }
    match send(Rows::Moved).await {
        Err(fault) if fault.is_permission() => {
            let moved = send(Rows::Left).await;
            if moved.is_ok() {
                history::trouble(post, &fault);
            }
            moved
        }
        moved => moved,
    }
}

/// Starts the idle time of failed runs now. Returns those that are not this consumer's any more. That
/// the server cannot be reached changes nothing but when others would take them.
pub(crate) async fn touch(post: &Post, tokens: &[Token]) -> Vec<(EntryId, Fenced)> {
    let sent = Instant::now();
    let answers = match post.store.touch(&post.consumer, tokens).await {
        Ok(answers) => answers,
        Err(fault) => {
            post.failing("noting the end of a failed run", &fault);
            return Vec::new();
        }
    };
    let mut not_ours = Vec::new();
    for (token, answer) in tokens.iter().zip(answers) {
        match answer {
            Fenced::Done => post.hand.renewed(*token, sent),
            Fenced::Gone | Fenced::Other => not_ours.push((token.id, answer)),
        }
    }
    not_ours
}

/// Gives entries back to the group, for whichever worker looks next.
pub(crate) async fn hand_back(post: &Post, returns: &[Return]) {
    let (mut backoff, mut unknown) = (Backoff::short(), false);
    // In small steps: newer servers keep the pending list by time, and an old time is looked for.
    for chunk in returns.chunks(100) {
        loop {
            match post.store.give(&post.consumer, HANDED_BACK, chunk).await {
                Ok(answers) => {
                    // After an answer that was lost it may have been given, and settled by who took it.
                    let gone = chunk
                        .iter()
                        .zip(answers)
                        .filter(|(_, answer)| *answer == Fenced::Gone && !unknown);
                    for (one, _) in gone {
                        post.not_pending(one.token.id, "hand-back");
                    }
                    break;
                }
                Err(fault) if fault.class == FaultClass::EnsureGroup => break,
                Err(fault) => {
                    unknown |= fault.class == FaultClass::Reconnect;
                    post.pulse.error(&fault);
                    if post.may_complain() {
                        log::trouble(&post.consumer, &fault);
                    }
                }
            }
            if post.wait_or_give_up(backoff.wait()).await {
                return;
            }
        }
        post.hand.release(chunk.iter().map(|one| one.token.id));
    }
}

/// An idle time that makes an entry due at once, for Python RillKit too.
pub(crate) const LONG_AGO: Duration = Duration::from_secs(24 * 60 * 60);
