//! Single steps of the way of a message, for the benchmarks of this workspace. Not public API.

use std::sync::LazyLock;

use crate::attempt::Attempt;
use crate::decide::{self, Verdict};
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::message::Message;
use crate::policy::Policy;
use crate::store::memory::MemoryStore;
use crate::store::{Acked, Consumer, Start, Store, redis};
use crate::subscription::Subscription;

/// Reads a reply of `XREADGROUP` from its bytes; the entries in it.
#[must_use]
pub fn parse_reply(wire: &[u8]) -> usize {
    redis::parse_reply(wire)
}

/// Decodes a message's body for this handler, up to the call.
#[must_use]
pub fn decode(subscription: &Subscription, message: &Message) -> bool {
    Attempt::begin(subscription.call, message).is_ok()
}

/// Decides about a failed delivery.
#[must_use]
pub fn decide(deliveries: u64) -> bool {
    static FAILED: LazyLock<Verdict> = LazyLock::new(|| Verdict::Failed("bad input".into()));
    let action = decide::decide(deliveries, &FAILED, None, false, &Policy::DEFAULT, 0.5);
    matches!(action, decide::Action::Retry(_))
}

/// The delay after a failed delivery, in milliseconds.
#[must_use]
pub fn backoff(deliveries: u64) -> u128 {
    let policy = Policy::DEFAULT.backoff(2.0).jitter(0.1);
    policy.delay_with_jitter(deliveries, 0.5).as_millis()
}

/// The in-process store with one group on it.
#[derive(Debug)]
pub struct InProcess {
    store: Store,
    consumer: Consumer,
}

impl InProcess {
    /// A fresh store.
    pub async fn new() -> Self {
        let store = Store::Memory(MemoryStore::new());
        let consumer = Consumer {
            stream: "s",
            group: "g",
            name: "c".into(),
            acked: Acked::Stays,
        };
        // A fresh store refuses nothing.
        let _ = store
            .ensure_group("s", "g", Start::After(EntryId::MIN))
            .await;
        Self { store, consumer }
    }

    /// Publishes, reads and acks this many entries; how many it read.
    pub async fn round(&self, entries: usize) -> usize {
        let bodies: Vec<Fields> = (0..entries)
            .map(|_| {
                let mut fields = Fields::default();
                fields.push("data", "{}");
                fields
            })
            .collect();
        let Ok(reader) = self.store.reader(&self.consumer).await else {
            return 0;
        };
        if self.store.publish("s", &bodies, None).await.is_err() {
            return 0;
        }
        let read = reader.read(entries, None).await.unwrap_or_default();
        let ids: Vec<_> = read.iter().map(|entry| entry.id).collect();
        let acked = self.store.ack(&self.consumer, &ids).await;
        acked.map_or(0, |()| ids.len())
    }
}
