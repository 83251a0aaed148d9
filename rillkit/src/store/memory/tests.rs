//! What the in-process store promises beyond the contract: tokio's clock, reads that may be
//! dropped, and names.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, advance, sleep, timeout};

use super::{MemoryReader, MemoryStore, NAMED};
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::store::{Acked, Consumer, Entry, Fault, FaultClass, Rows, Start};

const SECOND: Duration = Duration::from_secs(1);

fn consumer(name: &str) -> Consumer {
    Consumer {
        stream: "jobs",
        group: "workers",
        name: Arc::from(name),
        acked: Acked::Stays,
    }
}

async fn store() -> MemoryStore {
    let store = MemoryStore::new();
    store
        .ensure_group("jobs", "workers", Start::After(EntryId::MIN))
        .await
        .unwrap();
    store
}

async fn reader(store: &MemoryStore, name: &str) -> MemoryReader {
    store.reader(&consumer(name)).await.unwrap()
}

async fn publish(store: &MemoryStore) -> EntryId {
    let fields: Fields = [(b"data".to_vec(), b"1".to_vec())].into_iter().collect();
    store
        .publish("jobs", &[fields], None)
        .await
        .unwrap()
        .remove(0)
        .unwrap()
}

fn ids(answer: Result<Vec<Entry>, Fault>) -> Vec<EntryId> {
    answer.unwrap().iter().map(|entry| entry.id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_read_blocks_on_the_clock_of_tokio() {
    let store = store().await;
    let reader = reader(&store, "c").await;
    let started = Instant::now();
    assert_eq!(ids(reader.read(1, Some(3600 * SECOND)).await), []);
    assert_eq!(started.elapsed(), 3600 * SECOND);

    let read = tokio::spawn(reader.read(1, Some(3600 * SECOND)));
    sleep(5 * SECOND).await;
    let id = publish(&store).await;
    assert_eq!(ids(read.await.unwrap()), [id]);
    assert_eq!(started.elapsed(), 3605 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn idle_times_and_ids_follow_the_clock_of_tokio() {
    let store = store().await;
    let first = publish(&store).await;
    ids(reader(&store, "c").await.read(1, None).await);
    advance(90 * SECOND).await;
    let rows = store
        .pending("jobs", "workers", "c", EntryId::MIN, 10)
        .await
        .unwrap();
    assert_eq!(rows[0].idle, 90 * SECOND);
    assert_eq!(
        store.peers("jobs", "workers").await.unwrap()[0].idle,
        90 * SECOND
    );
    let second = publish(&store).await;
    let third = publish(&store).await;
    assert_eq!(second.ms, first.ms + 90_000);
    assert_eq!(
        third,
        EntryId {
            seq: second.seq + 1,
            ..second
        }
    );
}

#[tokio::test(start_paused = true)]
async fn reads_of_one_reader_time_out_one_after_another() {
    let store = store().await;
    let reader = reader(&store, "c").await;
    let started = Instant::now();
    let timed = |read| async move { (ids(Box::pin(read).await), started.elapsed()) };
    let (a, b) = tokio::join!(
        timed(reader.read(1, Some(SECOND))),
        timed(reader.read(1, Some(SECOND)))
    );
    assert_eq!([a, b], [(vec![], SECOND), (vec![], 2 * SECOND)]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_read_is_a_sign_of_life() {
    let store = store().await;
    let reader = reader(&store, "c").await;
    assert_eq!(store.peers("jobs", "workers").await, Ok(vec![]));
    assert_eq!(ids(reader.read(1, None).await), []);
    advance(SECOND).await;
    assert_eq!(
        store.peers("jobs", "workers").await.unwrap()[0].idle,
        SECOND
    );
    assert_eq!(ids(reader.read(1, None).await), []);
    assert_eq!(
        store.peers("jobs", "workers").await.unwrap()[0].idle,
        Duration::ZERO
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_read_takes_nothing_and_holds_nobody_up() {
    let store = store().await;
    let reader = reader(&store, "c").await;
    let mut waiting = Box::pin(reader.read(1, Some(100 * SECOND)));
    assert!(timeout(SECOND, &mut waiting).await.is_err());
    let mut behind = Box::pin(reader.read(1, Some(100 * SECOND)));
    assert!(timeout(SECOND, &mut behind).await.is_err());
    let unpolled = reader.read(1, Some(100 * SECOND));
    let id = publish(&store).await;
    drop((waiting, unpolled));
    // The wake-up that the dropped read was given goes to the next.
    assert_eq!(ids(behind.await), [id]);
    assert_eq!(store.summary("jobs", "workers").await.unwrap().pending, 1);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_one_open_read_and_no_later_one() {
    let store = store().await;
    let reader = reader(&store, "c").await;
    let block = Some(100 * SECOND);
    let started = Instant::now();

    // Nothing is open.
    reader.interrupt().await.unwrap();
    assert_eq!(ids(reader.read(1, block).await), []);
    assert_eq!(started.elapsed(), 100 * SECOND);

    // Open, and not polled yet.
    let read = reader.read(1, block);
    reader.interrupt().await.unwrap();
    assert_eq!(ids(read.await), []);
    assert_eq!(started.elapsed(), 100 * SECOND);

    // One waits, and one stands behind it.
    let reads = tokio::spawn(async move {
        let answers = tokio::join!(reader.read(1, block), reader.read(1, block), async {
            sleep(SECOND).await;
            reader.interrupt().await
        });
        (ids(answers.0), ids(answers.1))
    });
    assert_eq!(reads.await.unwrap(), (vec![], vec![]));
    assert_eq!(started.elapsed(), 201 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_that_no_read_waited_for_goes_with_the_reads_it_met() {
    let store = store().await;
    let reader = reader(&store, "c").await;
    let id = publish(&store).await;
    let read = reader.read(1, Some(100 * SECOND));
    reader.interrupt().await.unwrap();
    assert_eq!(ids(read.await), [id]);
    let started = Instant::now();
    assert_eq!(ids(reader.read(1, Some(100 * SECOND)).await), []);
    assert_eq!(started.elapsed(), 100 * SECOND);
}

#[tokio::test]
async fn a_name_stands_for_one_store_while_somebody_holds_it() {
    let one = MemoryStore::named("a_name");
    let two = MemoryStore::named("a_name");
    one.ensure_group("jobs", "workers", Start::New)
        .await
        .unwrap();
    let id = publish(&two).await;
    assert_eq!(one.last_id("jobs").await, Ok(Some(id)));
    assert_eq!(
        MemoryStore::named("another_name").last_id("jobs").await,
        Ok(None)
    );
    assert_eq!(MemoryStore::new().last_id("jobs").await, Ok(None));

    let reader = reader(&one, "c").await;
    drop((one, two));
    assert_eq!(
        MemoryStore::named("a_name").last_id("jobs").await,
        Ok(Some(id))
    );
    drop(reader);
    assert_eq!(MemoryStore::named("a_name").last_id("jobs").await, Ok(None));
    assert!(!NAMED.lock().unwrap().contains_key("another_name"));
}

#[tokio::test]
async fn a_missing_group_is_said_in_the_words_of_redis() {
    let fault = reader(&MemoryStore::new(), "c")
        .await
        .read(1, None)
        .await
        .unwrap_err();
    assert_eq!(fault.class, FaultClass::EnsureGroup);
    assert_eq!(
        fault.text,
        "NOGROUP no stream 'jobs', or no consumer group 'workers' on it"
    );
}

#[tokio::test]
async fn a_dead_letter_that_is_refused_leaves_the_entry_pending() {
    let store = store().await;
    let id = publish(&store).await;
    ids(reader(&store, "c").await.read(1, None).await);
    let token = crate::store::Token { id, deliveries: 1 };
    let refused = store
        .dead_letter(
            &consumer("c"),
            token,
            "jobs-dlq",
            &Fields::default(),
            Rows::Left,
        )
        .await;
    assert_eq!(refused.unwrap_err().class, FaultClass::Config);
    assert_eq!(store.summary("jobs", "workers").await.unwrap().pending, 1);
}
