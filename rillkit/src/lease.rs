//! Keeps what is in hand ours: renews leases at a third, names runs that go on for very long.
//!
//! On Redis it runs on a thread and a connection of its own, so that a handler that blocks its
//! thread does not lose its lease. On the in-process store it is a task of the caller's runtime:
//! across threads a paused clock does not hold.

use std::sync::Arc;
use std::thread;

use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use crate::entry_id::EntryId;
use crate::error::{Error, ErrorKind};
use crate::log;
use crate::once;
use crate::panic::{caught, contained};
use crate::post::Post;
use crate::pulse::Part;
use crate::store::{Consumer, Fault, Fenced, Store, Token};

/// The keeper of one broker's leases; it ends with the last of its posts.
#[derive(Debug)]
pub(crate) struct LeaseKeeper {
    posts: Posts,
}

#[derive(Debug)]
enum Posts {
    /// To the thread.
    Thread(mpsc::UnboundedSender<(Arc<Post>, oneshot::Receiver<()>)>),
    /// On the caller's runtime.
    Here(Store),
}

/// As long as it lives, the post's leases are kept.
#[derive(Debug)]
pub(crate) struct Kept {
    _end: oneshot::Sender<()>,
    _keeper: Arc<LeaseKeeper>,
}

impl LeaseKeeper {
    pub(crate) fn start(store: &Store) -> Result<Self, Error> {
        if store.is_memory() {
            return Ok(Self {
                posts: Posts::Here(store.clone()),
            });
        }
        let store = store.separate();
        let (posts, mut arriving) = mpsc::unbounded_channel::<(Arc<Post>, oneshot::Receiver<()>)>();
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let failed = |error: std::io::Error| {
            Error::new(
                ErrorKind::Config,
                format!("the lease keeper's thread cannot be started: {error}"),
            )
        };
        let runtime = runtime.map_err(failed)?;
        let run = move || {
            runtime.block_on(async move {
                while let Some((post, end)) = arriving.recv().await {
                    tokio::spawn(keep_on(post, store.clone(), end));
                }
            });
        };
        thread::Builder::new()
            .name("rillkit-leases".to_owned())
            .spawn(run)
            .map_err(failed)?;
        Ok(Self {
            posts: Posts::Thread(posts),
        })
    }

    /// Keeps this post's leases from now on.
    pub(crate) fn keep(this: &Arc<Self>, post: Arc<Post>) -> Kept {
        let (end, ended) = oneshot::channel();
        match &this.posts {
            Posts::Thread(posts) => {
                // The thread ends after this keeper.
                let _ = posts.send((post, ended));
            }
            Posts::Here(store) => {
                tokio::spawn(keep_on(post, store.clone(), ended));
            }
        }
        Kept {
            _end: end,
            _keeper: Arc::clone(this),
        }
    }
}

/// Entries that reads under way can bring at a time, more or less.
const ARRIVING: usize = 2000;

/// Keeps a post's leases, and goes on after a panic: a round needs nothing of the one before.
async fn keep_on(post: Arc<Post>, store: Store, mut end: oneshot::Receiver<()>) {
    while let Err(panic) = caught(keep(&post, &store, &mut end)).await {
        post.pulse.panicked(Part::Leases, &panic);
        contained(|| log::broken(&post.consumer, Part::Leases, &panic));
    }
}

async fn keep(post: &Post, store: &Store, end: &mut oneshot::Receiver<()>) {
    let lease = post.policy().lease();
    let mut inline = (EntryId::MIN, Instant::now());
    loop {
        tokio::select! {
            () = sleep(lease / 6) => {}
            _ = &mut *end => return,
        }
        post.pulse.beat(Part::Leases);
        let now = Instant::now();
        let rounds = post
            .hand
            .rounds(now, lease, post.policy().timeout(), &mut inline);
        for (id, running) in rounds.long {
            log::running_long(&post.consumer, id, running);
        }
        for kept in [
            renew(post, store, rounds.renew, now).await,
            keep_arriving(post, store).await,
        ] {
            // It is done again in the next round.
            if let Err(fault) = kept {
                post.failing("renewing leases", &fault);
            }
        }
    }
}

/// Renews what is in hand, and notes what is another's by now.
async fn renew(post: &Post, store: &Store, tokens: Vec<Token>, now: Instant) -> Result<(), Fault> {
    if tokens.is_empty() {
        return Ok(());
    }
    let answers = once::touch(post, store, &tokens).await?;
    for (token, answer) in tokens.into_iter().zip(answers) {
        match answer {
            Fenced::Done => post.hand.renewed(token, now),
            // Gone: the group was lost, or the entry is being settled this very moment.
            Fenced::Gone => {}
            Fenced::Other => {
                if post.hand.lose(token) {
                    post.lease_lost(token.id);
                }
            }
        }
    }
    Ok(())
}

/// Renews what was handed out to a read whose answer nobody has looked at yet: a handler may block
/// the threads that would. Nobody but the pending list knows these entries.
async fn keep_arriving(post: &Post, store: &Store) -> Result<(), Fault> {
    let Consumer {
        stream,
        group,
        name,
        ..
    } = &post.consumer;
    let lease = post.policy().lease();
    // What a twin of a given name was handed is not ours to keep: it may be dead.
    if post.has_given_name() || !post.may_be_arriving(lease / 3) {
        return Ok(());
    }
    let pending = store
        .pending(stream, group, name, EntryId::MIN, ARRIVING)
        .await?;
    let unseen = pending.into_iter().filter(|row| {
        row.idle >= lease / 3 && post.may_be_arriving(row.idle) && !post.hand.contains(row.token.id)
    });
    let unseen: Vec<_> = unseen.map(|row| row.token).collect();
    if !unseen.is_empty() {
        store.touch(&post.consumer, &unseen).await?;
    }
    Ok(())
}
