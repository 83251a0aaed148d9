//! Everything at once, by consumers that steal from each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{GROUP, Place, body, fresh_name};
use crate::entry_id::EntryId;
use crate::store::{Charge, Consumer, Fenced, Return, Rows, Store, Take, Taken, Token};

const ENTRIES: usize = 10_000;
const NAMES: [&str; 3] = ["c", "d", "e"];

/// How often each entry was settled, by an ack or by a dead letter.
type Settled = Arc<Mutex<HashMap<EntryId, u32>>>;

/// What is published is at all times either settled, once, or pending, or unread.
pub(super) async fn loses_nothing_in_ten_thousand(store: &Store) {
    let place = Place::new(store).await;
    let dlq = fresh_name();
    let acked = Settled::default();
    let buried = Settled::default();
    let mut published = Vec::new();
    for _ in 0..ENTRIES / 1000 {
        published.extend(place.publish(1000).await);
    }

    // Rounds of 40 entries for each of three consumers, with a look after each phase.
    for phase in 0..3 {
        let workers = NAMES.map(|name| {
            let worker = Worker {
                store: store.clone(),
                me: place.consumer(name),
                dlq,
                dice: Dice(1 + phase * 10 + u64::from(name.as_bytes()[0])),
                acked: Arc::clone(&acked),
                buried: Arc::clone(&buried),
            };
            tokio::spawn(worker.work(25))
        });
        for worker in workers {
            worker.await.unwrap();
        }
        assert_balance(&place, dlq, &acked, &buried).await;
    }

    place.read("c", ENTRIES).await;
    for name in NAMES {
        let tokens = place.holds(name).await;
        let answers = store
            .ack_fenced(&place.consumer(name), &tokens)
            .await
            .unwrap();
        assert!(answers.iter().all(|answer| *answer == Fenced::Done));
        note(&acked, tokens.iter().map(|token| token.id));
    }
    assert_balance(&place, dlq, &acked, &buried).await;
    let (acked, buried) = (acked.lock().unwrap(), buried.lock().unwrap());
    assert!(
        published
            .iter()
            .all(|id| acked.contains_key(id) != buried.contains_key(id))
    );
}

async fn assert_balance(place: &Place<'_>, dlq: &str, acked: &Settled, buried: &Settled) {
    let summary = place.store.summary(place.stream, GROUP).await.unwrap();
    let mut pending = 0;
    for name in NAMES {
        pending += place.holds(name).await.len();
    }
    assert_eq!(pending as u64, summary.pending);
    let read_up_to = place.store.groups(place.stream).await.unwrap()[0].1;
    let unread = place
        .store
        .range(place.stream, read_up_to.after(), EntryId::MAX, ENTRIES)
        .await
        .unwrap()
        .len();
    let letters = place.all(dlq).await.len();

    let (acked, buried) = (acked.lock().unwrap(), buried.lock().unwrap());
    assert!(
        acked
            .values()
            .chain(buried.values())
            .all(|times| *times == 1),
        "settled twice"
    );
    assert_eq!(letters, buried.len());
    assert_eq!(ENTRIES, acked.len() + buried.len() + pending + unread);
}

fn note(settled: &Settled, ids: impl Iterator<Item = EntryId>) {
    let mut settled = settled.lock().unwrap();
    for id in ids {
        *settled.entry(id).or_default() += 1;
    }
}

struct Worker {
    store: Store,
    me: Consumer,
    dlq: &'static str,
    dice: Dice,
    acked: Settled,
    buried: Settled,
}

impl Worker {
    async fn work(mut self, rounds: usize) {
        let reader = self.store.reader(&self.me).await.unwrap();
        for _ in 0..rounds {
            reader.read(40, None).await.unwrap();
            self.steal().await;
            self.settle().await;
        }
    }

    /// Takes some of another's entries, or of its own.
    async fn steal(&mut self) {
        let owner: Arc<str> = Arc::from(NAMES[self.dice.roll(NAMES.len())]);
        let charge = if self.dice.roll(2) == 0 {
            Charge::Counted
        } else {
            Charge::Kept
        };
        let tokens = self.some_of(&owner).await;
        let take = |token| Take {
            token,
            owner: Arc::clone(&owner),
            min_idle: Duration::ZERO,
            charge,
        };
        let takes: Vec<Take> = tokens.into_iter().map(take).collect();
        let taken = self.store.take(&self.me, &takes).await.unwrap();
        assert_eq!(taken.len(), takes.len());
        assert!(!taken.contains(&Taken::Lost));
    }

    /// Does something with some of its own entries, while they may be stolen.
    async fn settle(&mut self) {
        let tokens = self.some_of(&Arc::clone(&self.me.name)).await;
        for chunk in tokens.chunks(8) {
            match self.dice.roll(8) {
                0..4 => {
                    let answers = self.store.ack_fenced(&self.me, chunk).await.unwrap();
                    let done = chunk
                        .iter()
                        .zip(answers)
                        .filter(|(_, answer)| *answer == Fenced::Done);
                    note(&self.acked, done.map(|(token, _)| token.id));
                }
                4 => {
                    self.store.touch(&self.me, chunk).await.unwrap();
                }
                5 => {
                    let back = |token: &Token| Return {
                        token: *token,
                        deliveries: 1,
                        idle: Duration::from_secs(9),
                    };
                    let returns: Vec<Return> = chunk.iter().map(back).collect();
                    let to = NAMES[self.dice.roll(NAMES.len())];
                    self.store.give(&self.me, to, &returns).await.unwrap();
                }
                6 => {
                    let token = chunk[0];
                    let settled = self
                        .store
                        .dead_letter(&self.me, token, self.dlq, &body(1), Rows::Left)
                        .await
                        .unwrap();
                    if settled == Fenced::Done {
                        note(&self.buried, std::iter::once(token.id));
                    }
                }
                _ => {}
            }
        }
    }

    async fn some_of(&mut self, owner: &str) -> Vec<Token> {
        let rows = self
            .store
            .pending(self.me.stream, self.me.group, owner, EntryId::MIN, 120)
            .await
            .unwrap();
        rows.iter()
            .map(|row| row.token)
            .filter(|_| self.dice.roll(3) > 0)
            .collect()
    }
}

/// The same throws in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}
