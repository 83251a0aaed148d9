//! The in-process store beside a model that is too simple to be wrong: one row for each entry.
//!
//! After every operation the two must agree on its answer and on the whole pending list, so that
//! nothing is lost, nothing is settled twice, and no count rises but by a read or a charged take.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::runtime::Builder;
use tokio::time::advance;

use super::MemoryStore;
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::store::{
    Acked, Charge, Consumer, Fenced, Pending, Replayed, Return, Rows, Start, Take, Taken, Token,
};

const STREAM: &str = "jobs";
const GROUP: &str = "workers";
const DLQ: &str = "jobs-dlq";
const NAMES: [&str; 3] = ["c", "d", "nobody"];

/// `who` is one of two consumers; `at` chooses an entry; `off` is added to the count it has.
#[derive(Debug, Clone)]
enum Step {
    Publish {
        count: usize,
    },
    Read {
        who: usize,
        count: usize,
    },
    Ack {
        who: usize,
        at: usize,
    },
    AckFenced {
        who: usize,
        at: usize,
        off: u64,
    },
    Touch {
        who: usize,
        at: usize,
        off: u64,
    },
    Take {
        who: usize,
        at: usize,
        off: u64,
        owner: usize,
        min_idle: u64,
        counted: bool,
    },
    Give {
        who: usize,
        at: usize,
        off: u64,
        to: usize,
        deliveries: u64,
        idle: u64,
    },
    DeadLetter {
        who: usize,
        at: usize,
        off: u64,
    },
    Trim {
        at: usize,
    },
    Pass {
        ms: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = || 0..2usize;
    let at = || any::<usize>();
    let off = || prop_oneof![6 => Just(0u64), 1 => Just(1u64)];
    let step = prop_oneof![
        3 => (1..4usize).prop_map(|count| Step::Publish { count }),
        4 => (who(), 1..4usize).prop_map(|(who, count)| Step::Read { who, count }),
        1 => (who(), at()).prop_map(|(who, at)| Step::Ack { who, at }),
        2 => (who(), at(), off()).prop_map(|(who, at, off)| Step::AckFenced { who, at, off }),
        2 => (who(), at(), off()).prop_map(|(who, at, off)| Step::Touch { who, at, off }),
        4 => (who(), at(), off(), who(), 0..80u64, any::<bool>()).prop_map(
            |(who, at, off, owner, min_idle, counted)| Step::Take { who, at, off, owner, min_idle, counted }
        ),
        3 => (who(), at(), off(), 0..3usize, 0..4u64, 0..u64::MAX / 2).prop_map(
            |(who, at, off, to, deliveries, idle)| Step::Give { who, at, off, to, deliveries, idle }
        ),
        2 => (who(), at(), off()).prop_map(|(who, at, off)| Step::DeadLetter { who, at, off }),
        1 => at().prop_map(|at| Step::Trim { at }),
        2 => (1..60u64).prop_map(|ms| Step::Pass { ms }),
    ];
    prop::collection::vec(step, 1..80)
}

struct Row {
    id: EntryId,
    body: Fields,
    trimmed: bool,
    state: State,
}

#[derive(Clone, PartialEq)]
enum State {
    Unread,
    Pending {
        owner: usize,
        deliveries: u64,
        idle: Duration,
    },
    Acked,
    Buried,
}

struct Bench {
    store: MemoryStore,
    rows: Vec<Row>,
}

impl Bench {
    async fn run(steps: Vec<Step>) {
        let store = MemoryStore::new();
        store
            .ensure_group(STREAM, GROUP, Start::After(EntryId::MIN))
            .await
            .unwrap();
        let mut bench = Self {
            store,
            rows: Vec::new(),
        };
        for step in steps {
            bench.step(step).await;
            bench.compare().await;
        }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Publish { count } => self.publish(count).await,
            Step::Read { who, count } => self.read(who, count).await,
            Step::Pass { ms } => self.pass(Duration::from_millis(ms)).await,
            Step::Ack { at, .. }
            | Step::AckFenced { at, .. }
            | Step::Touch { at, .. }
            | Step::Take { at, .. }
            | Step::Give { at, .. }
            | Step::DeadLetter { at, .. }
            | Step::Trim { at } => {
                if !self.rows.is_empty() {
                    self.step_on(at % self.rows.len(), step).await;
                }
            }
        }
    }

    async fn publish(&mut self, count: usize) {
        let number = self.rows.len();
        let bodies: Vec<Fields> = (number..number + count).map(body).collect();
        let ids = self.store.publish(STREAM, &bodies, None).await.unwrap();
        for (id, body) in ids.into_iter().zip(bodies) {
            let id = id.unwrap();
            assert!(self.rows.last().is_none_or(|last| last.id < id));
            self.rows.push(Row {
                id,
                body,
                trimmed: false,
                state: State::Unread,
            });
        }
    }

    async fn read(&mut self, who: usize, count: usize) {
        let reader = self.store.reader(&consumer(who)).await.unwrap();
        let mut handed = reader.read(count, None).await.unwrap().into_iter();
        // What was trimmed before a later one was read is passed over for ever.
        for row in self
            .rows
            .iter_mut()
            .filter(|row| row.state == State::Unread && !row.trimmed)
            .take(count)
        {
            let entry = handed.next().unwrap();
            assert_eq!((entry.id, &entry.fields), (row.id, &row.body));
            row.state = State::Pending {
                owner: who,
                deliveries: 1,
                idle: Duration::ZERO,
            };
        }
        assert_eq!(handed.next(), None);
    }

    async fn pass(&mut self, time: Duration) {
        advance(time).await;
        for row in &mut self.rows {
            if let State::Pending { idle, .. } = &mut row.state {
                *idle += time;
            }
        }
    }

    async fn step_on(&mut self, at: usize, step: Step) {
        let store = self.store.clone();
        let row = &mut self.rows[at];
        match step {
            Step::Ack { who, .. } => {
                store.ack(&consumer(who), &[row.id]).await.unwrap();
                if let State::Pending { .. } = row.state {
                    row.state = State::Acked;
                }
            }
            Step::AckFenced { who, off, .. } => {
                let answer = store
                    .ack_fenced(&consumer(who), &[row.token(off)])
                    .await
                    .unwrap();
                assert_eq!(answer, [row.fence(who, off)]);
                if row.fence(who, off) == Fenced::Done {
                    row.state = State::Acked;
                }
            }
            Step::Touch { who, off, .. } => {
                let token = row.token(off);
                let answer = store.touch(&consumer(who), &[token]).await.unwrap();
                assert_eq!(answer, [row.fence(who, off)]);
                row.hold(
                    who,
                    off,
                    State::Pending {
                        owner: who,
                        deliveries: token.deliveries,
                        idle: Duration::ZERO,
                    },
                );
            }
            Step::Take {
                who,
                off,
                owner,
                min_idle,
                counted,
                ..
            } => {
                let min_idle = Duration::from_millis(min_idle);
                let charge = if counted {
                    Charge::Counted
                } else {
                    Charge::Kept
                };
                let take = Take {
                    token: row.token(off),
                    owner: Arc::from(NAMES[owner]),
                    min_idle,
                    charge,
                };
                let answer = store.take(&consumer(who), &[take]).await.unwrap();
                assert_eq!(answer, [row.take(who, off, owner, min_idle, counted)]);
            }
            Step::Give {
                who,
                off,
                to,
                deliveries,
                idle,
                ..
            } => {
                let idle = Duration::from_millis(idle);
                let back = Return {
                    token: row.token(off),
                    deliveries,
                    idle,
                };
                let answer = store
                    .give(&consumer(who), NAMES[to], &[back])
                    .await
                    .unwrap();
                assert_eq!(answer, [row.fence(who, off)]);
                row.hold(
                    who,
                    off,
                    State::Pending {
                        owner: to,
                        deliveries,
                        idle,
                    },
                );
            }
            Step::DeadLetter { who, off, .. } => {
                let answer = store
                    .dead_letter(&consumer(who), row.token(off), DLQ, &row.body, Rows::Left)
                    .await
                    .unwrap();
                assert_eq!(answer, row.fence(who, off));
                row.hold(who, off, State::Buried);
            }
            Step::Trim { .. } => {
                let moved = store
                    .replay(STREAM, row.id, "elsewhere", &row.body)
                    .await
                    .unwrap();
                assert_eq!(moved == Replayed::Gone, row.trimmed);
                row.trimmed = true;
            }
            Step::Publish { .. } | Step::Read { .. } | Step::Pass { .. } => unreachable!(),
        }
    }

    async fn compare(&self) {
        let mut summary = BTreeMap::new();
        for (who, name) in NAMES.into_iter().enumerate() {
            let expected: Vec<Pending> = self
                .rows
                .iter()
                .filter_map(|row| row.pending_for(who))
                .collect();
            if !expected.is_empty() {
                summary.insert(Arc::from(name), expected.len() as u64);
            }
            assert_eq!(
                self.store
                    .pending(STREAM, GROUP, name, EntryId::MIN, 1000)
                    .await
                    .unwrap(),
                expected
            );
        }
        let lowest = self
            .rows
            .iter()
            .find(|row| matches!(row.state, State::Pending { .. }))
            .map(|row| row.id);
        let seen = self.store.summary(STREAM, GROUP).await.unwrap();
        assert_eq!(seen.lowest, lowest);
        assert_eq!(seen.pending, summary.values().sum::<u64>());
        assert_eq!(seen.consumers, summary.into_iter().collect::<Vec<_>>());
        let letters = self
            .store
            .range(DLQ, EntryId::MIN, EntryId::MAX, 1000)
            .await
            .unwrap();
        assert_eq!(
            letters.len(),
            self.rows
                .iter()
                .filter(|row| row.state == State::Buried)
                .count()
        );
    }
}

impl Row {
    fn token(&self, off: u64) -> Token {
        let deliveries = match self.state {
            State::Pending { deliveries, .. } => deliveries,
            State::Unread | State::Acked | State::Buried => 1,
        };
        Token {
            id: self.id,
            deliveries: deliveries + off,
        }
    }

    fn fence(&self, who: usize, off: u64) -> Fenced {
        match self.state {
            State::Pending { owner, .. } if owner == who && off == 0 => Fenced::Done,
            State::Pending { .. } => Fenced::Other,
            State::Unread | State::Acked | State::Buried => Fenced::Gone,
        }
    }

    fn hold(&mut self, who: usize, off: u64, state: State) {
        if self.fence(who, off) == Fenced::Done {
            self.state = state;
        }
    }

    fn take(
        &mut self,
        who: usize,
        off: u64,
        from: usize,
        min_idle: Duration,
        counted: bool,
    ) -> Taken {
        let State::Pending {
            owner,
            deliveries,
            idle,
        } = self.state
        else {
            return Taken::Gone;
        };
        if owner != from || off != 0 || idle < min_idle {
            return Taken::Other;
        }
        if self.trimmed {
            self.state = State::Acked;
            return Taken::Lost;
        }
        let deliveries = deliveries + u64::from(counted);
        self.state = State::Pending {
            owner: who,
            deliveries,
            idle: Duration::ZERO,
        };
        Taken::Entry(self.body.clone())
    }

    fn pending_for(&self, who: usize) -> Option<Pending> {
        match self.state {
            State::Pending {
                owner,
                deliveries,
                idle,
            } if owner == who => Some(Pending {
                token: Token {
                    id: self.id,
                    deliveries,
                },
                idle,
            }),
            _ => None,
        }
    }
}

fn consumer(who: usize) -> Consumer {
    Consumer {
        stream: STREAM,
        group: GROUP,
        name: Arc::from(NAMES[who]),
        acked: Acked::Stays,
    }
}

fn body(number: usize) -> Fields {
    [(b"data".to_vec(), number.to_string().into_bytes())]
        .into_iter()
        .collect()
}

proptest! {
    #[test]
    fn agrees_with_the_model(steps in steps()) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(Bench::run(steps));
    }
}
