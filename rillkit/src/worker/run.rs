//! Starts one handler, and sets going what follows its end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Event, Worker};
use crate::attempt::Attempt;
use crate::decide::{self, Action, Reason, Verdict};
use crate::entry_id::EntryId;
use crate::failed_delivery::FailedDelivery;
use crate::in_hand::Stage;
use crate::log;
use crate::message::{Mark, Message};
use crate::once;
use crate::panic::caught;
use crate::policy::AckPolicy;
use crate::pulse::Part;
use crate::settle;
use crate::store::effect::Effect;
use crate::store::{Row, Token};

impl Worker {
    pub(super) fn start_message(&mut self, message: Message) {
        self.at_work = Some(message.id());
        let started = Instant::now();
        let mut attempt = match Attempt::begin(self.post.subscription.call, &message) {
            Ok(attempt) => attempt,
            Err(verdict) => return self.ended(&message, &verdict, started.elapsed()),
        };
        let asks_first =
            self.post.keys.is_some() || self.post.policy().ack_policy == AckPolicy::AckFirst;
        if asks_first || !self.pace.polls_in_place() {
            return self.spawn(message, attempt, started, Duration::ZERO);
        }
        self.post.hand.set_inline(message.id());
        let poll = Pin::new(&mut attempt).poll(&mut Context::from_waker(Waker::noop()));
        let took = started.elapsed();
        match poll {
            Poll::Ready(verdict) => {
                self.pace.note(took, took);
                self.ended(&message, &verdict, took);
            }
            Poll::Pending => self.spawn(message, attempt, started, took),
        }
    }

    /// Gives a run a task of its own.
    fn spawn(
        &mut self,
        message: Message,
        attempt: Attempt,
        started: Instant,
        first_poll: Duration,
    ) {
        self.free = self.free.saturating_sub(1);
        self.post.run_begins();
        let id = message.id();
        self.post.hand.set_stage(
            id,
            Stage::Running {
                started,
                warned: Duration::ZERO,
            },
        );
        let policy = self.post.policy();
        let (timeout, ack_first) = (policy.timeout(), policy.ack_policy == AckPolicy::AckFirst);
        let post = Arc::clone(&self.post);
        let mut report = Report {
            message: Some(message.clone()),
            events: self.sender.clone(),
        };
        let run = async move {
            if let Some(keys) = &post.keys
                && let Some(verdict) = once::begin(&post, keys, &message).await
            {
                return report.send(verdict, started.elapsed(), first_poll);
            }
            // Not acked is not run: the report says so when it is dropped.
            if ack_first && !settle::ack_before_run(&post, &message).await {
                return;
            }
            drop(message);
            let (verdict, longest_poll) = attempt.finish(timeout).await;
            report.send(verdict, started.elapsed(), longest_poll.max(first_poll));
        };
        self.running.insert(id, tokio::spawn(run).abort_handle());
        self.at_work = None;
    }

    /// A delivery has ended, after `run`: logs it, decides, and sets going what follows.
    pub(super) fn ended(&mut self, message: &Message, verdict: &Verdict, run: Duration) {
        self.some_ended = true;
        let (id, delivery) = (message.id(), message.deliveries());
        self.at_work = Some(id);
        let mark = message.mark();
        let settled = message.is_settled();
        match verdict {
            Verdict::Duplicate(of) => {
                self.post.pulse.duplicate();
                log::duplicate(&self.post.consumer, id, *of);
            }
            Verdict::Held => log::held(&self.post.consumer, id),
            Verdict::Lost => {}
            Verdict::Done | Verdict::Interrupted => {
                if mark == Some(Mark::Nack) && !settled {
                    log::handler_failed(&self.post.consumer, id, delivery, verdict);
                }
            }
            Verdict::Malformed(error) => {
                log::undecodable(&self.post.consumer, id, &self.post.dlq, error)
            }
            _ => log::handler_failed(&self.post.consumer, id, delivery, verdict),
        }
        if settled && mark.is_some() {
            log::marks_ignored(&self.post.consumer, id);
        }
        let random = if self.post.policy().has_jitter() {
            fastrand::f64()
        } else {
            0.0
        };
        let action = decide::decide(
            delivery,
            verdict,
            mark.as_ref(),
            settled,
            self.post.policy(),
            random,
        );
        if action != Action::Ack {
            self.let_go_of_key(id);
        }
        match action {
            Action::Ack => self.ack(message, verdict),
            Action::Retry(delay) | Action::Leave(delay) => {
                if let Some(token) = self.wait(id, delivery, delay)
                    && self.post.history.is_on()
                {
                    let text = self.failed(message, verdict, run).to_json();
                    self.failed.push(Row { token, text });
                }
            }
            Action::DeadLetter(reason, error) => {
                let last = self.failed(message, verdict, run);
                self.dead_letter(message.clone(), reason, error, Some(last));
            }
            Action::HandBack => self.return_unstarted(message),
            Action::LookAgain => self.look_again_at(message),
            Action::Nothing => self.post.hand.release([id]),
        }
        self.at_work = None;
    }

    /// Others with the key of this run may run now.
    fn let_go_of_key(&mut self, id: EntryId) {
        if let Some(keyed) = once::ended(&self.post, id) {
            self.step(|post, _| async move { once::abandon(&post, &keyed).await });
        }
    }

    /// Lets a message wait that may not run yet. Without retries nothing is held unstarted.
    fn look_again_at(&mut self, message: &Message) {
        if self.stopping || self.post.policy().max_retries == Some(0) {
            return self.return_unstarted(message);
        }
        let (id, now) = (message.id(), Instant::now());
        self.post.hand.set_stage(id, Stage::Ready);
        if let Some(age) = self.post.hand.age(id, now) {
            self.waiting.insert(message.clone(), age, now);
        }
    }

    /// Acks, together with what the handler has queued.
    fn ack(&mut self, message: &Message, verdict: &Verdict) {
        let id = message.id();
        match message.close_queue().filter(|effects| !effects.is_empty()) {
            None => self.acked.push(id),
            Some(effects) if decide::applies(verdict) => self.commit(message.clone(), effects),
            Some(effects) => {
                log::queued_in_vain(&self.post.consumer, id, effects.len());
                self.acked.push(id);
            }
        }
    }

    /// The run keeps its slot until its effects are there: the next one may ask for them.
    fn commit(&mut self, message: Message, effects: Vec<Effect>) {
        let (id, began) = (message.id(), Instant::now());
        self.commits.insert(id);
        self.free = self.free.saturating_sub(1);
        self.settle_here(
            settle::commit(Arc::clone(&self.post), message, effects),
            move || Event::CommitEnded(id, began.elapsed()),
        );
    }

    /// What there is to tell of a delivery that failed just now.
    fn failed(&self, message: &Message, verdict: &Verdict, run: Duration) -> FailedDelivery {
        let told = decide::told(verdict, message.mark().as_ref());
        FailedDelivery::now(message.deliveries(), &self.post.consumer.name, run, told)
    }

    /// Lets a failed message wait for its next delivery, unless another consumer has it.
    fn wait(&mut self, id: EntryId, delivery: u64, delay: Duration) -> Option<Token> {
        let now = Instant::now();
        // Everybody else goes by the formula; what is due later is held until that fits.
        let formula = self.post.policy().delay(delivery);
        let hold_until = delay
            .checked_sub(formula)
            .filter(|more| !more.is_zero())
            .map(|more| later(now, more));
        let untouched = self.post.hand.untouched(id, now);
        let Some(token) = self.post.hand.token(id) else {
            self.post.hand.release([id]);
            return None;
        };
        let due = later(now, delay);
        self.post
            .hand
            .set_stage(id, Stage::Waiting { due, hold_until });
        self.retries.insert(due, token);
        let short = (formula / 100).max(Duration::from_millis(10));
        // At a stop it is handed back with its idle time.
        if !self.stopping && untouched.is_none_or(|idle| idle > short) {
            self.touches.push(token);
        }
        Some(token)
    }

    pub(super) fn dead_letter(
        &mut self,
        message: Message,
        reason: Reason,
        error: String,
        last: Option<FailedDelivery>,
    ) {
        let id = message.id();
        self.letters.insert(id);
        self.settle_here(
            settle::dead_letter(Arc::clone(&self.post), message, reason, error, last),
            move || Event::LetterEnded(id),
        );
    }

    /// Settles a message in the background. The first command is sent from here, so that letters and
    /// commits are sent in the order in which runs ended.
    fn settle_here(
        &self,
        step: impl Future<Output = ()> + Send + 'static,
        ended: impl FnOnce() -> Event + Send + 'static,
    ) {
        let events = self.sender.clone();
        let mut step = Box::pin(async move {
            let settled = caught(step).await;
            let _ = events.send(ended());
            if let Err(panic) = settled {
                let _ = events.send(Event::Broken(Part::Settling, panic));
            }
        });
        if step
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
        {
            tokio::spawn(step);
        }
    }
}

/// A moment that may be farther away than the clock can tell.
fn later(now: Instant, delay: Duration) -> Instant {
    now.checked_add(delay)
        .unwrap_or_else(|| now + Duration::from_secs(100 * 365 * 24 * 60 * 60))
}

/// Reports the end of a run, also when its task is dropped.
struct Report {
    message: Option<Message>,
    events: mpsc::UnboundedSender<Event>,
}

impl Report {
    fn send(&mut self, verdict: Verdict, run: Duration, longest_poll: Duration) {
        if let Some(message) = self.message.take() {
            let _ = self.events.send(Event::Finished {
                message,
                verdict,
                run,
                longest_poll,
            });
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.send(Verdict::Interrupted, Duration::ZERO, Duration::ZERO);
    }
}
