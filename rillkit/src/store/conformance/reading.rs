//! Readers: what is handed out to whom, waiting, and being interrupted.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::{GROUP, LONG, MINUTE, Place, SOON, assert_no_group, body, firsts, fresh_name, ids};
use crate::entry_id::EntryId;
use crate::store::{Consumer, Fenced, Rows, Start, Store};

/// Time for a read that was issued to be waiting, most likely.
const A_MOMENT: Duration = Duration::from_millis(50);

pub(super) async fn hands_out_each_entry_once(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(3).await;
    let entries = place.reader("c").await.read(10, None).await.unwrap();
    assert_eq!(ids(&entries), published);
    assert_eq!(entries[2].fields, body(2));
    let rows = place.rows("c").await;
    assert_eq!(
        rows.iter().map(|row| row.token).collect::<Vec<_>>(),
        firsts(&published)
    );
    assert!(rows.iter().all(|row| row.idle < MINUTE));
    assert_eq!(place.read("c", 10).await, []);
    assert_eq!(place.read("d", 10).await, []);
}

pub(super) async fn hands_out_no_more_than_asked_for(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(7).await;
    let reader = place.reader("c").await;
    assert_eq!(ids(&reader.read(3, None).await.unwrap()), published[..3]);
    assert_eq!(
        ids(&reader.read(1, Some(LONG)).await.unwrap()),
        published[3..4]
    );
    assert_eq!(
        ids(&reader.read(100, Some(LONG)).await.unwrap()),
        published[4..]
    );
}

pub(super) async fn hands_out_to_each_group(store: &Store) {
    let place = Place::new(store).await;
    store
        .ensure_group(place.stream, "others", Start::After(EntryId::MIN))
        .await
        .unwrap();
    let published = place.publish(2).await;
    assert_eq!(place.read("c", 10).await, published);
    let other = Consumer {
        group: "others",
        ..place.consumer("c")
    };
    let entries = store
        .reader(&other)
        .await
        .unwrap()
        .read(10, None)
        .await
        .unwrap();
    assert_eq!(ids(&entries), published);
    store.ack(&other, &published).await.unwrap();
    assert_eq!(place.holds("c").await, firsts(&published));
}

pub(super) async fn answers_an_empty_read_at_once(store: &Store) {
    let place = Place::new(store).await;
    let reader = place.reader("c").await;
    assert_eq!(
        timeout(SOON, reader.read(10, None)).await.unwrap(),
        Ok(vec![])
    );
    let published = place.publish(1).await;
    assert_eq!(ids(&reader.read(10, None).await.unwrap()), published);
}

pub(super) async fn ends_a_blocking_read_after_its_time(store: &Store) {
    let place = Place::new(store).await;
    let reader = place.reader("c").await;
    let block = Duration::from_millis(60);
    let started = Instant::now();
    assert_eq!(reader.read(10, Some(block)).await, Ok(vec![]));
    assert!(
        started.elapsed() >= block - Duration::from_millis(5),
        "{:?}",
        started.elapsed()
    );
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    let published = place.publish(1).await;
    assert_eq!(ids(&reader.read(10, Some(block)).await.unwrap()), published);
}

pub(super) async fn wakes_a_blocking_read(store: &Store) {
    let place = Place::new(store).await;
    let read = tokio::spawn(place.reader("c").await.read(10, Some(LONG)));
    sleep(A_MOMENT).await;
    let published = place.publish(1).await;
    let entries = timeout(SOON, read).await.unwrap().unwrap().unwrap();
    assert_eq!(ids(&entries), published);
    assert_eq!(entries[0].fields, body(0));
    assert_eq!(place.holds("c").await, firsts(&published));
}

pub(super) async fn wakes_for_dead_letters_and_replays(store: &Store) {
    let place = Place::new(store).await;
    let dlq = Place::new(store).await;
    let token = place.deliver("c").await;

    let read = tokio::spawn(dlq.reader("d").await.read(10, Some(LONG)));
    sleep(A_MOMENT).await;
    let settled = store
        .dead_letter(
            &place.consumer("c"),
            token,
            dlq.stream,
            &body(1),
            Rows::Left,
        )
        .await;
    assert_eq!(settled, Ok(Fenced::Done));
    let letters = timeout(SOON, read).await.unwrap().unwrap().unwrap();
    assert_eq!(letters[0].fields, body(1));

    let read = tokio::spawn(place.reader("c").await.read(10, Some(LONG)));
    sleep(A_MOMENT).await;
    store
        .replay(dlq.stream, letters[0].id, place.stream, &body(2))
        .await
        .unwrap();
    let entries = timeout(SOON, read).await.unwrap().unwrap().unwrap();
    assert_eq!(entries[0].fields, body(2));
}

pub(super) async fn never_hands_one_entry_to_two(store: &Store) {
    const ENTRIES: usize = 700;
    let place = Place::new(store).await;
    let mut readers = Vec::new();
    for name in ["c", "d", "e"] {
        let reader = place.reader(name).await;
        readers.push(tokio::spawn(async move {
            let mut handed = Vec::new();
            loop {
                let entries = reader
                    .read(7, Some(Duration::from_millis(300)))
                    .await
                    .unwrap();
                if entries.is_empty() {
                    return handed;
                }
                handed.extend(ids(&entries));
            }
        }));
    }
    let mut published = Vec::new();
    for _ in 0..ENTRIES / 10 {
        published.extend(place.publish(10).await);
    }
    let mut handed = Vec::new();
    for (reader, name) in readers.into_iter().zip(["c", "d", "e"]) {
        let its = reader.await.unwrap();
        assert_eq!(place.holds(name).await, firsts(&its));
        handed.extend(its);
    }
    handed.extend(place.read("f", ENTRIES).await);
    assert_eq!(handed.len(), ENTRIES);
    assert_eq!(BTreeSet::from_iter(handed), BTreeSet::from_iter(published));
}

pub(super) async fn answers_reads_in_the_order_of_their_polls(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(7).await;
    let reader = place.reader("c").await;
    // Polled in the order of `join!`, not in that of the calls.
    let (c, b, a) = (
        reader.read(3, None),
        reader.read(3, None),
        reader.read(3, Some(LONG)),
    );
    let (a, b, c) = tokio::join!(a, b, c);
    assert_eq!(ids(&a.unwrap()), published[..3]);
    assert_eq!(ids(&b.unwrap()), published[3..6]);
    assert_eq!(ids(&c.unwrap()), published[6..]);
}

pub(super) async fn serves_blocked_reads_in_turn(store: &Store) {
    let place = Place::new(store).await;
    let reader = place.reader("c").await;
    let (a, b) = (reader.read(10, Some(LONG)), reader.read(10, Some(LONG)));
    let reads = tokio::spawn(async move {
        let a = async { (ids(&a.await.unwrap()), Instant::now()) };
        let b = async { (ids(&b.await.unwrap()), Instant::now()) };
        tokio::join!(a, b)
    });
    sleep(A_MOMENT).await;
    let one = place.publish(1).await;
    sleep(A_MOMENT).await;
    let two = place.publish(1).await;
    let ((a, a_at), (b, b_at)) = timeout(SOON, reads).await.unwrap().unwrap();
    assert_eq!((a, b), (one, two));
    assert!(a_at < b_at);
}

pub(super) async fn interrupts_a_blocked_read(store: &Store) {
    let place = Place::new(store).await;
    let reader = place.reader("c").await;
    let mut read = tokio::spawn(reader.read(10, Some(LONG)));
    let started = Instant::now();
    // A server is not told of a read that has not come to it yet, so one interrupt may be too early.
    let answer = loop {
        sleep(A_MOMENT).await;
        reader.interrupt().await.unwrap();
        if let Ok(answer) = timeout(A_MOMENT, &mut read).await {
            break answer.unwrap();
        }
        assert!(started.elapsed() < SOON, "not interrupted");
    };
    assert_eq!(answer, Ok(vec![]));

    let published = place.publish(1).await;
    assert_eq!(ids(&reader.read(10, Some(LONG)).await.unwrap()), published);
}

pub(super) async fn interrupts_no_later_read_for_good(store: &Store) {
    let place = Place::new(store).await;
    let reader = place.reader("c").await;
    reader.interrupt().await.unwrap();
    // It may end the next read, but not the one after that.
    let read = tokio::spawn(async move {
        match reader.read(10, Some(LONG)).await {
            Ok(entries) if entries.is_empty() => reader.read(10, Some(LONG)).await,
            answer => answer,
        }
    });
    sleep(2 * A_MOMENT).await;
    let published = place.publish(1).await;
    let entries = timeout(SOON, read).await.unwrap().unwrap().unwrap();
    assert_eq!(ids(&entries), published);
}

pub(super) async fn reads_nothing_without_a_group(store: &Store) {
    let nowhere = Place {
        store,
        stream: fresh_name(),
    };
    let reader = nowhere.reader("c").await;
    assert_no_group(reader.read(10, None).await);
    assert_no_group(timeout(SOON, reader.read(10, Some(LONG))).await.unwrap());
    // The stream alone does not do.
    nowhere.publish(1).await;
    assert_no_group(reader.read(10, None).await);
    assert_no_group(timeout(SOON, reader.read(10, Some(LONG))).await.unwrap());
    // The reader is of use once the group is there.
    store
        .ensure_group(nowhere.stream, GROUP, Start::After(EntryId::MIN))
        .await
        .unwrap();
    assert_eq!(reader.read(10, None).await.unwrap().len(), 1);
}
