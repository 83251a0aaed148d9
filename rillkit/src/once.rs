//! Once by key: which messages of an idempotent handler run, and what their keys are meanwhile.
//!
//! A run may begin when the key's marker says that it is this delivery's, and it is done when the
//! marker was written together with the ack. In between the lease keeper has it last. What the store
//! does about it is in [`markers`](crate::store), what becomes of the message in
//! [`decide`](mod@crate::decide).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::decide::{self, Verdict};
use crate::entry_id::EntryId;
use crate::log;
use crate::message::Message;
use crate::post::Post;
use crate::store::{Begun, Consumer, Done, Fault, Fenced, Keyed, Store, Token};

/// The keys of the runs that one consumer has under way.
#[derive(Debug)]
pub(crate) struct KeysInHand {
    /// How long a key stays done.
    lifetime: Duration,
    by_id: Mutex<HashMap<EntryId, Arc<str>>>,
}

impl KeysInHand {
    pub(crate) fn new(lifetime: Duration) -> Self {
        Self {
            lifetime,
            by_id: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EntryId, Arc<str>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sorts deliveries: runs with their keys, and those that are no runs.
    pub(crate) fn sort(&self, tokens: &[Token]) -> (Vec<Keyed>, Vec<Token>) {
        let held = self.lock();
        let (mut keyed, mut plain) = (Vec::new(), Vec::new());
        for token in tokens {
            match held.get(&token.id) {
                Some(key) => keyed.push(Keyed {
                    token: *token,
                    key: Arc::clone(key),
                }),
                None => plain.push(*token),
            }
        }
        (keyed, plain)
    }

    /// What a run of this entry marks as done.
    pub(crate) fn done_by(&self, id: EntryId) -> Option<Done> {
        let key = Arc::clone(self.lock().get(&id)?);
        let lifetime = self.lifetime;
        Some(Done { key, lifetime })
    }

    /// The run of this entry has ended; its key, if there was a run.
    pub(crate) fn ends(&self, id: EntryId) -> Option<Arc<str>> {
        self.lock().remove(&id)
    }

    /// These are settled.
    pub(crate) fn forget(&self, ids: &[EntryId]) {
        let mut held = self.lock();
        for id in ids {
            held.remove(id);
        }
    }
}

/// Takes the key of a message for its run; what becomes of it where it may not run now.
pub(crate) async fn begin(post: &Post, keys: &KeysInHand, message: &Message) -> Option<Verdict> {
    let id = message.id();
    let Some(token) = post.hand.token(id) else {
        return Some(Verdict::Lost);
    };
    let key: Arc<str> = message.key().into();
    // Known before it is asked for: its answer may be lost.
    keys.lock().insert(id, Arc::clone(&key));
    let (keyed, sent) = (Keyed { token, key }, Instant::now());
    let begun = post
        .store
        .begin(&post.consumer, &keyed, post.policy().lease())
        .await;
    let verdict = match begun {
        Ok(begun) => {
            match begun {
                Begun::Gone => post.not_pending(id, "run"),
                Begun::Other => post.lease_lost(id),
                Begun::Marked | Begun::InProgress(_) | Begun::Done(_) => {}
            }
            decide::begun(begun)
        }
        Err(fault) => {
            post.pulse.error(&fault);
            if post.may_complain() {
                log::cannot_begin(&post.consumer, id, &fault);
            }
            Some(Verdict::Held)
        }
    };
    if verdict.is_some() {
        keys.ends(id);
    } else {
        post.hand.renewed(token, sent);
    }
    verdict
}

/// The run of this entry has ended; what is left of its key while that is not done.
pub(crate) fn ended(post: &Post, id: EntryId) -> Option<Keyed> {
    let key = post.keys.as_ref()?.ends(id)?;
    let token = post.hand.token(id)?;
    Some(Keyed { token, key })
}

/// Lets others have the key of a run that has ended without an ack. Where the server cannot be asked,
/// the marker ends with its lease, and the entry's own next delivery takes it over at once.
pub(crate) async fn abandon(post: &Post, keyed: &Keyed) {
    let _ = post.store.abandon(&post.consumer, keyed).await;
}

/// Touches what is in hand, and keeps the markers of what runs. One answer for each.
pub(crate) async fn touch(
    post: &Post,
    store: &Store,
    tokens: &[Token],
) -> Result<Vec<Fenced>, Fault> {
    let Some(keys) = &post.keys else {
        return store.touch(&post.consumer, tokens).await;
    };
    let (keyed, plain) = keys.sort(tokens);
    let kept = store.keep(&post.consumer, &keyed, post.policy().lease());
    let kept = kept.await?;
    let touched = store.touch(&post.consumer, &plain).await?;
    Ok(in_order(tokens, &keyed, kept, &plain, touched))
}

/// Acks what is still this consumer's, and marks as done what ran. One answer for each.
pub(crate) async fn ack(
    post: &Post,
    consumer: &Consumer,
    tokens: &[Token],
) -> Result<Vec<Fenced>, Fault> {
    let Some(keys) = &post.keys else {
        return post.store.ack_fenced(consumer, tokens).await;
    };
    let (keyed, plain) = keys.sort(tokens);
    let done = post.store.finish(consumer, &keyed, keys.lifetime);
    let done = done.await?;
    let acked = post.store.ack_fenced(consumer, &plain).await?;
    Ok(in_order(tokens, &keyed, done, &plain, acked))
}

fn in_order(
    tokens: &[Token],
    keyed: &[Keyed],
    of_keyed: Vec<Fenced>,
    plain: &[Token],
    of_plain: Vec<Fenced>,
) -> Vec<Fenced> {
    let keyed = keyed.iter().map(|keyed| keyed.token).zip(of_keyed);
    let answers: HashMap<_, _> = keyed.chain(plain.iter().copied().zip(of_plain)).collect();
    let answer = |token| answers.get(token).copied().unwrap_or(Fenced::Gone);
    tokens.iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_the_questions() {
        let keys = KeysInHand::new(Duration::ZERO);
        let token = |ms| Token {
            id: EntryId { ms, seq: 0 },
            deliveries: 1,
        };
        let tokens: Vec<_> = (1..5).map(token).collect();
        keys.lock().insert(tokens[1].id, "a".into());
        keys.lock().insert(tokens[2].id, "b".into());
        let (keyed, plain) = keys.sort(&tokens);
        assert_eq!((keyed.len(), &plain[..]), (2, &[tokens[0], tokens[3]][..]));
        let (of_keyed, of_plain) = (
            vec![Fenced::Gone, Fenced::Done],
            vec![Fenced::Other, Fenced::Done],
        );
        assert_eq!(
            in_order(&tokens, &keyed, of_keyed, &plain, of_plain),
            [Fenced::Other, Fenced::Gone, Fenced::Done, Fenced::Done]
        );
        assert_eq!(keys.ends(tokens[1].id).as_deref(), Some("a"));
        keys.forget(&[tokens[2].id]);
        assert_eq!(keys.sort(&tokens).1, tokens);
    }
}
