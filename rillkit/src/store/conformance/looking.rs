//! Looking at a group or a stream, and removing consumers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{
    GROUP, HOUR, MINUTE, Place, SOON, assert_no_group, body, first, firsts, fresh_name, ids,
};
use crate::entry_id::EntryId;
use crate::store::{Consumer, Need, Start, Store, Summary};

pub(super) async fn sums_up_the_pending_list(store: &Store) {
    let place = Place::new(store).await;
    assert_eq!(
        store.summary(place.stream, GROUP).await,
        Ok(Summary::default())
    );
    let published = place.publish(6).await;
    place.read("d", 2).await;
    place.read("c", 3).await;
    place.read("e", 1).await;
    store
        .ack(&place.consumer("d"), &published[..1])
        .await
        .unwrap();
    store
        .ack(&place.consumer("e"), &published[5..])
        .await
        .unwrap();
    let mut summary = store.summary(place.stream, GROUP).await.unwrap();
    summary.consumers.sort();
    let expected = Summary {
        pending: 4,
        lowest: Some(published[1]),
        consumers: vec![(Arc::from("c"), 3), (Arc::from("d"), 1)],
    };
    assert_eq!(summary, expected);
}

pub(super) async fn lists_consumers(store: &Store) {
    let place = Place::new(store).await;
    assert_eq!(store.peers(place.stream, GROUP).await, Ok(vec![]));
    place.publish(3).await;
    place.read("c", 2).await;
    let done = place.read("d", 1).await;
    store.ack(&place.consumer("d"), &done).await.unwrap();
    let mut peers = store.peers(place.stream, GROUP).await.unwrap();
    peers.sort_by(|a, b| a.name.cmp(&b.name));
    let seen: Vec<(&str, u64)> = peers
        .iter()
        .map(|peer| (&*peer.name, peer.pending))
        .collect();
    assert_eq!(seen, [("c", 2), ("d", 0)]);
    assert!(peers.iter().all(|peer| peer.idle < MINUTE), "{peers:?}");

    // Who is given something is a consumer too, and its own idle time is not that of the entry.
    let token = place.holds("c").await[0];
    let back = crate::store::Return {
        token,
        deliveries: 1,
        idle: HOUR,
    };
    store
        .give(&place.consumer("c"), "e", &[back])
        .await
        .unwrap();
    let peers = store.peers(place.stream, GROUP).await.unwrap();
    let new = peers.iter().find(|peer| &*peer.name == "e").unwrap();
    assert_eq!(new.pending, 1);
    assert!(new.idle < MINUTE, "{new:?}");
}

pub(super) async fn pages_through_the_pending_list(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(9).await;
    // Not all in a row: every third is another's.
    for _ in 0..3 {
        place.read("c", 2).await;
        place.read("d", 1).await;
    }
    let own: Vec<EntryId> = [0, 1, 3, 4, 6, 7].map(|at| published[at]).to_vec();
    assert_eq!(place.holds("c").await, firsts(&own));

    let (mut seen, mut from) = (Vec::new(), EntryId::MIN);
    loop {
        let rows = store
            .pending(place.stream, GROUP, "c", from, 4)
            .await
            .unwrap();
        let Some(last) = rows.last() else { break };
        from = last.token.id.after();
        seen.push(rows.iter().map(|row| row.token.id).collect::<Vec<_>>());
    }
    assert_eq!(seen, [&own[..4], &own[4..]]);
    // `from` is included.
    let rows = store
        .pending(place.stream, GROUP, "c", own[5], 4)
        .await
        .unwrap();
    assert_eq!(
        rows.iter().map(|row| row.token).collect::<Vec<_>>(),
        [first(own[5])]
    );
    assert_eq!(
        store
            .pending(place.stream, GROUP, "nobody", EntryId::MIN, 4)
            .await,
        Ok(vec![])
    );
}

pub(super) async fn looks_at_nothing_without_a_group(store: &Store) {
    let nowhere = Place {
        store,
        stream: fresh_name(),
    };
    // First without the stream, then with it.
    for _ in 0..2 {
        assert_no_group(store.summary(nowhere.stream, GROUP).await);
        assert_no_group(store.peers(nowhere.stream, GROUP).await);
        assert_no_group(
            store
                .pending(nowhere.stream, GROUP, "c", EntryId::MIN, 10)
                .await,
        );
        let nobody = nowhere.consumer("c");
        assert_no_group(store.remove_consumer(&nobody, Duration::ZERO).await);
        nowhere.publish(1).await;
    }
}

pub(super) async fn removes_a_consumer_only_when_empty(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    let me = place.consumer("c");
    assert_eq!(store.remove_consumer(&me, Duration::ZERO).await, Ok(false));
    assert_eq!(place.holds("c").await, [token]);

    store.ack(&me, &[token.id]).await.unwrap();
    assert_eq!(store.remove_consumer(&me, Duration::ZERO).await, Ok(true));
    assert_eq!(store.peers(place.stream, GROUP).await, Ok(vec![]));
    assert_eq!(store.remove_consumer(&me, Duration::ZERO).await, Ok(false));

    // It may come again.
    let token = place.deliver("c").await;
    assert_eq!(place.holds("c").await, [token]);
}

/// An idle time that is over within a check.
const SHORT: Duration = Duration::from_millis(20);

pub(super) async fn removes_a_consumer_only_when_idle(store: &Store) {
    let place = Place::new(store).await;
    let (me, token) = (place.consumer("c"), place.deliver("c").await);
    store.ack(&me, &[token.id]).await.unwrap();
    assert_eq!(store.remove_consumer(&me, HOUR).await, Ok(false));
    let began = Instant::now();
    while !store.remove_consumer(&me, SHORT).await.unwrap() {}
    assert!(began.elapsed() < SOON);
    assert_eq!(store.peers(place.stream, GROUP).await, Ok(vec![]));
}

pub(super) async fn asks_for_permission_and_changes_nothing(store: &Store) {
    let place = Place::new(store).await;
    let (token, waiting) = (place.deliver("c").await, place.publish(1).await);
    let dlq = fresh_name();
    for name in ["c", "d"] {
        let consumer = place.consumer(name);
        for needs in [&[][..], &[Need::Commits, Need::Markers]] {
            assert_eq!(store.permits(&consumer, dlq, needs).await, Ok(()));
        }
    }
    assert_eq!(store.last_id(dlq).await, Ok(None));
    assert_eq!(place.holds("c").await, [token]);
    assert_eq!(place.holds("d").await, []);
    assert_eq!(place.read("d", 10).await, waiting);
}

pub(super) async fn lists_groups_and_how_far_they_are(store: &Store) {
    let stream = fresh_name();
    assert_eq!(store.groups(stream).await, Ok(vec![]));
    let place = Place { store, stream };
    let published = place.publish(3).await;
    assert_eq!(store.groups(stream).await, Ok(vec![]));
    store
        .ensure_group(stream, GROUP, Start::After(EntryId::MIN))
        .await
        .unwrap();
    store
        .ensure_group(stream, "newest", Start::New)
        .await
        .unwrap();
    let groups = async || {
        let mut groups = store.groups(stream).await.unwrap();
        groups.sort();
        groups
    };
    assert_eq!(
        groups().await,
        [
            ("newest".to_owned(), published[2]),
            (GROUP.to_owned(), EntryId::MIN)
        ]
    );
    place.read("c", 2).await;
    store
        .ack(&place.consumer("c"), &published[..1])
        .await
        .unwrap();
    assert_eq!(
        groups().await,
        [
            ("newest".to_owned(), published[2]),
            (GROUP.to_owned(), published[1])
        ]
    );

    let other = Consumer {
        group: "newest",
        ..place.consumer("c")
    };
    assert_eq!(
        store.reader(&other).await.unwrap().read(1, None).await,
        Ok(vec![])
    );
    assert_eq!(groups().await[0].1, published[2]);
}

pub(super) async fn knows_the_last_id(store: &Store) {
    let place = Place {
        store,
        stream: fresh_name(),
    };
    assert_eq!(store.last_id(place.stream).await, Ok(None));
    let published = place.publish(2).await;
    assert_eq!(store.last_id(place.stream).await, Ok(Some(published[1])));
    // Deleted or not: ids are not given twice.
    place.trim(published[1]).await;
    place.trim(published[0]).await;
    assert_eq!(place.all(place.stream).await, []);
    assert_eq!(store.last_id(place.stream).await, Ok(Some(published[1])));
    assert!(place.publish(1).await[0] > published[1]);
}

pub(super) async fn cuts_a_range(store: &Store) {
    let place = Place {
        store,
        stream: fresh_name(),
    };
    assert_eq!(
        store
            .range(place.stream, EntryId::MIN, EntryId::MAX, 10)
            .await,
        Ok(vec![])
    );
    let published = place.publish(6).await;
    let range = async |from, to, count| store.range(place.stream, from, to, count).await.unwrap();
    let entries = range(EntryId::MIN, EntryId::MAX, 10).await;
    assert_eq!(ids(&entries), published);
    assert_eq!(entries[5].fields, body(5));
    assert_eq!(
        ids(&range(published[1], published[4], 10).await),
        published[1..=4]
    );
    assert_eq!(
        ids(&range(published[1], published[4], 2).await),
        published[1..=2]
    );
    assert_eq!(
        ids(&range(published[2], published[2], 2).await),
        published[2..=2]
    );
    assert_eq!(range(published[4], published[1], 10).await, []);
    assert_eq!(range(published[5].after(), EntryId::MAX, 10).await, []);
    place.trim(published[3]).await;
    assert_eq!(
        ids(&range(published[2], published[4], 10).await),
        [published[2], published[4]]
    );
}

pub(super) async fn cuts_a_range_from_its_end(store: &Store) {
    let place = Place::new(store).await;
    let nothing = store.range_back(fresh_name(), EntryId::MIN, EntryId::MAX, 10);
    assert_eq!(nothing.await, Ok(vec![]));
    let published = place.publish(6).await;
    let back = async |from, to, count| {
        let range = store.range_back(place.stream, from, to, count);
        let mut entries = range.await.unwrap();
        assert!(entries.is_sorted_by(|a, b| a.id > b.id));
        entries.reverse();
        ids(&entries)
    };
    assert_eq!(back(EntryId::MIN, EntryId::MAX, 10).await, published);
    assert_eq!(back(EntryId::MIN, EntryId::MAX, 2).await, published[4..]);
    assert_eq!(back(published[1], published[4], 3).await, published[2..=4]);
    assert_eq!(back(published[4], published[1], 3).await, []);
    let newest = store
        .range_back(place.stream, published[3], published[3], 1)
        .await
        .unwrap();
    assert_eq!(newest[0].fields, body(3));
}

pub(super) async fn counts_entries(store: &Store) {
    let place = Place::new(store).await;
    assert_eq!(store.len(fresh_name()).await, Ok(0));
    assert_eq!(store.len(place.stream).await, Ok(0));
    let published = place.publish(3).await;
    place.trim(published[1]).await;
    assert_eq!(store.len(place.stream).await, Ok(2));
}

pub(super) async fn knows_the_time_of_new_ids(store: &Store) {
    let place = Place::new(store).await;
    let before = store.now_ms(place.stream).await.unwrap();
    let id = place.publish(1).await[0];
    let after = store.now_ms(place.stream).await.unwrap();
    assert!((before..=after).contains(&id.ms), "{before} {id} {after}");
}

pub(super) async fn deletes_what_is_there(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(4).await;
    let id = EntryId { ms: 1, seq: 0 };
    assert_eq!(store.delete(fresh_name(), &[id]).await, Ok(0));
    assert_eq!(store.delete(place.stream, &[]).await, Ok(0));
    let some = [published[2], id, published[0]];
    assert_eq!(store.delete(place.stream, &some).await, Ok(2));
    assert_eq!(store.delete(place.stream, &some).await, Ok(0));
    let left = [published[1], published[3]];
    assert_eq!(ids(&place.all(place.stream).await), left);
    assert_eq!(store.last_id(place.stream).await, Ok(Some(published[3])));
    assert_eq!(place.read("c", 10).await, left);
}

pub(super) async fn knows_what_is_still_pending(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(5).await;
    let pending = async |ids: &[EntryId]| store.still_pending(place.stream, GROUP, ids).await;
    assert_eq!(pending(&published).await, Ok(vec![]));
    place.read("c", 2).await;
    place.read("d", 2).await;
    store
        .ack(&place.consumer("c"), &published[..1])
        .await
        .unwrap();
    assert_eq!(pending(&published).await, Ok(published[1..4].to_vec()));
    assert_eq!(pending(&published[3..]).await, Ok(published[3..4].to_vec()));
    assert_eq!(pending(&[]).await, Ok(vec![]));
    let nobody = store.still_pending(place.stream, "nobody", &published);
    assert_no_group(nobody.await);
}
