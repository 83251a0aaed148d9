//! One suite for all stores: every check asks a `Store` and does not know which one it has.
//!
//! A check that passes on one and fails on another is a fault of a store, or a promise of the
//! contract that cannot be kept. For Redis, and for a cluster of one node, one server is started for
//! the whole test process. Each check has a stream of its own. How the stores are built inside is left to their own tests.

mod adding;
mod committing;
mod delayed;
mod history;
mod inspecting;
mod looking;
mod marking;
mod mix;
mod publishing;
mod reading;
mod settling;
mod taking;
mod trimming;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::memory::MemoryStore;
use super::redis::RedisStore;
use super::{
    Acked, Consumer, Entry, Fault, FaultClass, Pending, Reader, Replayed, Return, Start, Store,
    Take, Taken, Token,
};
use crate::entry_id::EntryId;
use crate::fields::Fields;

/// Longer than any check runs.
const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);
/// The block time of a read that data or an interrupt must end.
const LONG: Duration = Duration::from_secs(20);
/// Well below `LONG`, and enough on a busy machine.
const SOON: Duration = Duration::from_secs(10);

static SERVER: LazyLock<rillkit_servers::Server> = LazyLock::new(rillkit_servers::Server::start);

static CLUSTER: LazyLock<rillkit_servers::Cluster> =
    LazyLock::new(|| rillkit_servers::Cluster::start(1));

fn redis() -> Store {
    Store::Redis(RedisStore::from_url(&SERVER.url()).unwrap())
}

fn cluster() -> Store {
    Store::Redis(RedisStore::from_url(&CLUSTER.url()).unwrap())
}

fn memory() -> Store {
    Store::Memory(MemoryStore::new())
}

macro_rules! on_all_stores {
    ($($module:ident: $($check:ident)+;)+) => {
        mod memory {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $check() {
                    super::$module::$check(&super::memory()).await;
                }
            )+)+
        }

        mod redis {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $check() {
                    super::$module::$check(&super::redis()).await;
                }
            )+)+
        }

        mod cluster {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $check() {
                    super::$module::$check(&super::cluster()).await;
                }
            )+)+
        }
    };
}

on_all_stores! {
    adding:
        keeps_the_order_and_raises_ids
        keeps_fields_as_they_are
        tells_each_of_many_at_once_its_own_id refuses_one_entry_and_keeps_the_others
        creates_a_group_once
        starts_a_group_at_the_beginning_or_behind_an_id
        starts_a_group_with_what_comes_new
        makes_the_stream_of_a_new_group
        replays_once
        replays_to_a_stream_that_is_not_there
        replays_nothing_from_a_dlq_that_is_not_there;
    delayed:
        adds_a_delayed_message_when_it_is_due
        keeps_a_delayed_message_as_it_is
        leaves_what_is_not_due
        names_what_is_due_next
        delays_once_under_an_id
        adds_nothing_that_was_published_meanwhile
        cancels_what_waits
        pages_through_what_waits
        trims_when_it_adds_a_delayed_message
        adds_once_what_many_promote
        wakes_for_delayed_messages
        keeps_the_delayed_of_streams_apart;
    publishing:
        publishes_once_under_an_id
        keeps_the_ids_of_streams_apart
        remembers_an_id_for_its_lifetime
        publishes_once_what_many_publish_at_a_time
        trims_when_it_publishes;
    reading:
        hands_out_each_entry_once
        hands_out_no_more_than_asked_for
        hands_out_to_each_group
        answers_an_empty_read_at_once
        ends_a_blocking_read_after_its_time
        wakes_a_blocking_read
        wakes_for_dead_letters_and_replays
        never_hands_one_entry_to_two
        answers_reads_in_the_order_of_their_polls
        serves_blocked_reads_in_turn
        interrupts_a_blocked_read
        interrupts_no_later_read_for_good
        reads_nothing_without_a_group;
    settling:
        acks_what_is_pending
        acks_nothing_without_a_group
        acks_only_what_the_fence_lets_pass
        touches_the_idle_time_and_not_the_count
        touches_only_what_the_fence_lets_pass
        tells_the_truth_about_a_touch_of_a_trimmed_entry
        dead_letters_once
        dead_letters_only_what_the_fence_lets_pass
        dead_letters_what_was_trimmed
        deletes_what_it_acks
        deletes_only_what_the_fence_lets_pass
        deletes_what_it_dead_letters
        answers_nothing_for_nothing
        settles_nothing_without_a_group;
    committing:
        commits_once
        commits_only_what_the_fence_lets_pass
        commits_nothing_without_a_group
        commits_an_ack_alone
        deletes_what_a_commit_acks
        does_every_effect
        wakes_for_what_a_commit_publishes
        trims_with_what_a_commit_publishes
        refuses_a_key_of_another_type_before_the_first_effect
        refuses_a_first_effect_that_fails
        buries_where_a_later_effect_fails
        refuses_a_command_that_it_cannot_run;
    taking:
        takes_and_counts
        takes_and_keeps_the_count
        takes_its_own
        takes_only_from_the_owner_named
        takes_only_at_the_count_named
        takes_only_what_is_idle
        takes_nothing_that_is_settled
        finds_a_trimmed_entry_lost
        answers_each_take_for_itself
        gives_with_count_and_idle_time
        gives_to_itself
        gives_with_an_idle_time_of_many_days
        gives_back_uncharged
        gives_only_what_the_fence_lets_pass
        tells_the_truth_about_a_gift_of_a_trimmed_entry;
    marking:
        marks_a_key_and_touches_the_entry
        lets_one_entry_of_a_key_begin
        keys_are_a_groups_own
        takes_over_the_marker_of_an_earlier_delivery
        begins_only_what_the_fence_lets_pass
        marks_as_done_and_acks
        marks_as_done_what_is_committed
        deletes_what_it_marks_as_done
        keeps_markers_with_their_entries
        markers_go_by_themselves
        abandons_its_own_marker_and_no_other
        takes_any_text_for_a_key
        begins_what_was_trimmed
        marks_nothing_without_a_group;
    looking:
        sums_up_the_pending_list
        lists_consumers
        pages_through_the_pending_list
        looks_at_nothing_without_a_group
        removes_a_consumer_only_when_empty
        removes_a_consumer_only_when_idle
        asks_for_permission_and_changes_nothing
        lists_groups_and_how_far_they_are
        knows_the_last_id
        cuts_a_range
        cuts_a_range_from_its_end
        knows_what_is_still_pending
        counts_entries
        knows_the_time_of_new_ids
        deletes_what_is_there;
    inspecting:
        finds_streams
        sees_a_stream_at_a_glance
        sees_groups_at_a_glance
        pages_through_what_a_group_holds
        keeps_what_workers_say;
    history:
        tells_a_letter_what_was_kept
        keeps_what_a_letter_leaves
        tells_nothing_where_nothing_was_kept
        keeps_the_first_and_the_newest
        forgets_with_the_ack
        keeps_each_groups_history_apart
        tidies_up_what_is_not_pending
        tells_a_letter_of_many_fields_too;
    trimming:
        trims_to_a_length
        trims_each_of_many
        trims_below_an_id
        trims_by_age
        trims_what_every_group_has_acked
        keeps_what_is_to_be_kept
        only_looks_when_nothing_may_be_removed
        trims_nothing_without_a_group_that_counts
        trims_behind_a_group_that_began_with_new_entries;
    mix:
        loses_nothing_in_ten_thousand;
}

/// A stream of its own with the group `workers`.
struct Place<'a> {
    store: &'a Store,
    stream: &'static str,
}

const GROUP: &str = "workers";

impl<'a> Place<'a> {
    async fn new(store: &'a Store) -> Self {
        let place = Self {
            store,
            stream: fresh_name(),
        };
        place
            .store
            .ensure_group(place.stream, GROUP, Start::After(EntryId::MIN))
            .await
            .unwrap();
        place
    }

    fn consumer(&self, name: &str) -> Consumer {
        Consumer {
            stream: self.stream,
            group: GROUP,
            name: Arc::from(name),
            acked: Acked::Stays,
        }
    }

    /// A consumer whose acks delete.
    fn deleter(&self, name: &str) -> Consumer {
        Consumer {
            acked: Acked::Goes,
            ..self.consumer(name)
        }
    }

    async fn reader(&self, name: &str) -> Reader {
        self.store.reader(&self.consumer(name)).await.unwrap()
    }

    /// Adds `count` entries with the bodies 0, 1, 2, ...
    async fn publish(&self, count: usize) -> Vec<EntryId> {
        let entries: Vec<Fields> = (0..count).map(body).collect();
        let ids = self
            .store
            .publish(self.stream, &entries, None)
            .await
            .unwrap();
        ids.into_iter().map(Result::unwrap).collect()
    }

    /// Reads what there is, up to `count`.
    async fn read(&self, name: &str, count: usize) -> Vec<EntryId> {
        ids(&self.reader(name).await.read(count, None).await.unwrap())
    }

    /// Adds one entry and has it delivered to this consumer.
    async fn deliver(&self, name: &str) -> Token {
        let id = self.publish(1).await[0];
        assert_eq!(self.read(name, 10).await, [id]);
        first(id)
    }

    async fn rows(&self, name: &str) -> Vec<Pending> {
        self.store
            .pending(self.stream, GROUP, name, EntryId::MIN, 100_000)
            .await
            .unwrap()
    }

    /// What this consumer has pending.
    async fn holds(&self, name: &str) -> Vec<Token> {
        self.rows(name).await.iter().map(|row| row.token).collect()
    }

    async fn idle(&self, name: &str, id: EntryId) -> Duration {
        self.rows(name)
            .await
            .iter()
            .find(|row| row.token.id == id)
            .unwrap()
            .idle
    }

    /// Lets a pending entry look as if it had been idle for this long.
    async fn age(&self, name: &str, token: Token, idle: Duration) {
        let back = Return {
            token,
            deliveries: token.deliveries,
            idle,
        };
        let given = self
            .store
            .give(&self.consumer(name), name, &[back])
            .await
            .unwrap();
        assert_eq!(given, [super::Fenced::Done]);
    }

    /// Deletes an entry from the stream, where it may go on to be pending.
    async fn trim(&self, id: EntryId) {
        let moved = self
            .store
            .replay(self.stream, id, fresh_name(), &body(0))
            .await
            .unwrap();
        assert!(matches!(moved, Replayed::Moved(_)), "{moved:?}");
    }

    async fn take(&self, name: &str, take: Take) -> Taken {
        let mut taken = self
            .store
            .take(&self.consumer(name), &[take])
            .await
            .unwrap();
        assert_eq!(taken.len(), 1);
        taken.remove(0)
    }

    async fn all(&self, stream: &str) -> Vec<Entry> {
        self.store
            .range(stream, EntryId::MIN, EntryId::MAX, 100_000)
            .await
            .unwrap()
    }
}

/// A name that no other check and no other process uses. All are in one slot of a cluster.
fn fresh_name() -> &'static str {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos();
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{{check}}-{}-{nanos}-{number}", std::process::id()).leak()
}

fn fields<const N: usize>(fields: [(&[u8], &[u8]); N]) -> Fields {
    fields
        .into_iter()
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect()
}

fn body(number: usize) -> Fields {
    fields([(b"data", number.to_string().as_bytes())])
}

fn ids(entries: &[Entry]) -> Vec<EntryId> {
    entries.iter().map(|entry| entry.id).collect()
}

/// The first delivery of an entry.
fn first(id: EntryId) -> Token {
    Token { id, deliveries: 1 }
}

/// The first deliveries of these entries.
fn firsts(ids: &[EntryId]) -> Vec<Token> {
    ids.iter().copied().map(first).collect()
}

/// The same delivery, miscounted.
fn miscounted(token: Token) -> Token {
    Token {
        deliveries: token.deliveries + 1,
        ..token
    }
}

#[track_caller]
fn assert_no_group<T: std::fmt::Debug>(answer: Result<T, Fault>) {
    assert_eq!(answer.unwrap_err().class, FaultClass::EnsureGroup);
}
