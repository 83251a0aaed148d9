//! Carries out what a handler has queued, together with the ack.

use std::sync::Arc;

use super::dead_letter;
use crate::backoff::Backoff;
use crate::decide::Reason;
use crate::entry_id::EntryId;
use crate::error_text::capped;
use crate::in_hand::Stage;
use crate::message::Message;
use crate::post::Post;
use crate::store::commits::{Commit, Committed};
use crate::store::effect::Effect;
use crate::store::{Fault, FaultClass, Rows};
use crate::{dlq, history, log, once};

/// Does the effects and acks the message, all of it or nothing. While the server takes no writes, the
/// message stays pending and in hand.
pub(crate) async fn commit(post: Arc<Post>, message: Message, effects: Vec<Effect>) {
    let id = message.id();
    post.hand.set_stage(id, Stage::Settling);
    let done = post.keys.as_ref().and_then(|keys| keys.done_by(id));
    if let Err(error) = fits(&effects, post.largest) {
        let_go(&post, id).await;
        return dead_letter(post, message, Reason::Tx, error, None).await;
    }
    let letter = dlq::letter(&post, &message, Reason::Tx, "", None);
    let mut commit = Commit {
        effects: &effects,
        done: done.as_ref(),
        dlq: &post.dlq,
        letter: &letter,
        rows: Rows::Left,
    };
    let (mut short, mut slow, mut unknown) = (Backoff::short(), Backoff::slow(), false);
    while let Some(token) = post.hand.token(id) {
        if token.deliveries > 1 && post.history.is_on() {
            commit.rows = Rows::Moved;
        }
        let fault = match post.store.commit(&post.consumer, token, commit).await {
            Ok(committed) => {
                end(&post, &message, &commit, committed, unknown).await;
                if commit.rows == Rows::Moved {
                    history::forget(&post, &[token]).await;
                }
                return;
            }
            Err(fault) if fault.class == FaultClass::EnsureGroup => break,
            Err(fault) => fault,
        };
        unknown |= fault.class == FaultClass::Reconnect;
        complain(&post, &message, &fault);
        let wait = match fault.class {
            FaultClass::Config => slow.wait(),
            _ => short.wait(),
        };
        if post.wait_or_give_up(wait).await {
            break;
        }
    }
    once::ended(&post, id);
    post.hand.release([id]);
}

/// The key is not done by this: others may have it.
async fn let_go(post: &Post, id: EntryId) {
    if let Some(keyed) = once::ended(post, id) {
        once::abandon(post, &keyed).await;
    }
}

/// What follows from the server's answer. `unknown` says that an answer before this one was lost.
async fn end(
    post: &Arc<Post>,
    message: &Message,
    commit: &Commit<'_>,
    committed: Committed,
    unknown: bool,
) {
    let (id, delivery) = (message.id(), message.deliveries());
    if committed == Committed::Done {
        once::ended(post, id);
    } else {
        let_go(post, id).await;
    }
    match committed {
        Committed::Done => {}
        // By the step whose answer was lost, or by another consumer that took the message before that
        // step came through: not by both.
        Committed::Gone if unknown => log::committed_before(&post.consumer, id),
        Committed::Gone => post.not_pending(id, "ack with commands"),
        Committed::Other => post.lease_lost(id),
        Committed::Refused(failed) => return bury(post, message, &commit.refusal(&failed)).await,
        Committed::Unburied(failed) => return bury(post, message, &commit.failure(&failed)).await,
        Committed::Buried(failed) => {
            let error = commit.failure(&failed);
            log::dead_letter(&post.consumer, id, delivery, &post.dlq, Reason::Tx, &error);
        }
    }
    post.hand.release([id]);
}

async fn bury(post: &Arc<Post>, message: &Message, error: &str) {
    let (post, message) = (Arc::clone(post), message.clone());
    dead_letter(post, message, Reason::Tx, capped(error), None).await;
}

fn complain(post: &Post, message: &Message, fault: &Fault) {
    post.pulse.error(fault);
    if post.may_complain() {
        log::commit_fault(&post.consumer, message.id(), fault);
    }
}

/// A server closes the connection on what is too large, and it would be sent for ever.
fn fits(effects: &[Effect], largest: usize) -> Result<(), String> {
    let bytes: usize = effects.iter().map(Effect::bytes).sum();
    if bytes <= largest {
        return Ok(());
    }
    Err(format!(
        "the commands of the `Tx` have {bytes} bytes, and {largest} are allowed; nothing was applied. Put large data \
         elsewhere, or raise `Broker::largest_message`"
    ))
}
