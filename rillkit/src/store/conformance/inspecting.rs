//! Looks for people, and what workers say about themselves.

use std::sync::Arc;

use super::{GROUP, HOUR, MINUTE, Place, assert_no_group, fresh_name};
use crate::entry_id::EntryId;
use crate::inspect::{GroupInfo, PendingInfo, StreamInfo};
use crate::store::{Start, Store};

pub(super) async fn finds_streams(store: &Store) {
    let place = Place {
        store,
        stream: fresh_name(),
    };
    let found = async || {
        let streams = store.streams().await.unwrap();
        streams.iter().filter(|name| *name == place.stream).count()
    };
    assert_eq!(found().await, 0);
    place.publish(1).await;
    assert_eq!(found().await, 1);
}

pub(super) async fn sees_a_stream_at_a_glance(store: &Store) {
    let place = Place {
        store,
        stream: fresh_name(),
    };
    assert_eq!(store.stream_info(place.stream).await, Ok(None));
    let published = place.publish(3).await;
    let info = async || {
        let info = store.stream_info(place.stream).await.unwrap().unwrap();
        // Not every server counts it.
        StreamInfo {
            entries_added: None,
            ..info
        }
    };
    let mut expected = StreamInfo {
        length: 3,
        entries_added: None,
        first: Some(published[0]),
        last: Some(published[2]),
        last_id: published[2],
        groups: 0,
    };
    assert_eq!(info().await, expected);
    place.trim(published[2]).await;
    (expected.length, expected.last) = (2, Some(published[1]));
    assert_eq!(info().await, expected);
    place.trim(published[0]).await;
    place.trim(published[1]).await;
    let start = Start::After(EntryId::MIN);
    store
        .ensure_group(place.stream, GROUP, start)
        .await
        .unwrap();
    let nothing = StreamInfo {
        length: 0,
        entries_added: None,
        first: None,
        last: None,
        last_id: published[2],
        groups: 1,
    };
    assert_eq!(info().await, nothing);
}

pub(super) async fn sees_groups_at_a_glance(store: &Store) {
    let stream = fresh_name();
    assert_eq!(store.group_infos(stream).await, Ok(vec![]));
    let place = Place::new(store).await;
    let published = place.publish(4).await;
    place.read("c", 1).await;
    place.read("d", 2).await;
    let group = store.group_infos(place.stream).await.unwrap().remove(0);
    // Servers before 7.0 do not count what was not read.
    assert!(matches!(group.lag, Some(1) | None), "{group:?}");
    let expected = GroupInfo {
        name: GROUP.to_owned(),
        consumers: 2,
        pending: 3,
        lag: group.lag,
        last_delivered: published[2],
        oldest_pending: None,
        oldest_pending_idle: None,
    };
    assert_eq!(group, expected);
}

pub(super) async fn pages_through_what_a_group_holds(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(3).await;
    place.read("c", 1).await;
    place.read("d", 2).await;
    let token = place.holds("d").await[1];
    place.age("d", token, HOUR).await;
    let held = async |consumer, from, count| {
        let rows = store.held(place.stream, GROUP, consumer, from, count);
        rows.await.unwrap()
    };
    let of = |rows: &[PendingInfo]| rows.iter().map(|row| row.id).collect::<Vec<_>>();
    let all = held(None, EntryId::MIN, 10).await;
    assert_eq!(of(&all), published);
    let owners: Vec<_> = all.iter().map(|row| row.consumer.as_str()).collect();
    assert_eq!(owners, ["c", "d", "d"]);
    assert!(all[1].idle < MINUTE && all[2].idle >= HOUR, "{all:?}");
    assert!(all.iter().all(|row| row.deliveries == 1), "{all:?}");
    assert_eq!(of(&held(None, published[1], 1).await), published[1..2]);
    assert_eq!(of(&held(Some("d"), EntryId::MIN, 9).await), published[1..]);
    assert_eq!(held(Some("nobody"), EntryId::MIN, 9).await, []);
    assert_no_group(
        store
            .held(place.stream, "no group", None, EntryId::MIN, 9)
            .await,
    );
}

pub(super) async fn keeps_what_workers_say(store: &Store) {
    let place = Place {
        store,
        stream: fresh_name(),
    };
    let said = async || {
        let mut rows = store.workers(place.stream).await.unwrap();
        rows.sort();
        rows.into_iter()
            .map(|row| String::from_utf8(row).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(said().await, [""; 0]);
    let (c, mut other) = (place.consumer("c"), place.consumer("c"));
    other.group = "another group";
    store.note_worker(&c, "1").await.unwrap();
    store.note_worker(&place.consumer("d"), "2").await.unwrap();
    store.note_worker(&other, "3").await.unwrap();
    store.note_worker(&c, "4").await.unwrap();
    assert_eq!(said().await, ["2", "3", "4"]);
    let nobody = crate::store::Consumer {
        name: Arc::from("nobody"),
        ..c.clone()
    };
    store.forget_worker(&nobody).await.unwrap();
    store.forget_worker(&c).await.unwrap();
    assert_eq!(said().await, ["2", "3"]);
    // It stands beside the stream, and makes none.
    assert_eq!(store.last_id(place.stream).await, Ok(None));
}
