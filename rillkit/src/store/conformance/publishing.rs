//! Publications that ask for more than an entry.

use std::time::Duration;

use super::{HOUR, SOON, body, fresh_name};
use crate::entry_id::EntryId;
use crate::store::conformance::Place;
use crate::store::{Once, Store};
use crate::trim::Trim;

fn once(id: &str, lifetime: Duration) -> Once {
    Once::new(id, lifetime)
}

async fn publish(store: &Store, stream: &str, number: usize, once: &Once) -> EntryId {
    let published = store.publish_once(stream, &body(number), None, once).await;
    published.unwrap()
}

pub(super) async fn publishes_once_under_an_id(store: &Store) {
    let place = Place::new(store).await;
    let (one, other) = (once("one {x}", HOUR), once("other", HOUR));
    let first = publish(store, place.stream, 1, &one).await;
    assert_eq!(publish(store, place.stream, 2, &one).await, first);
    let second = publish(store, place.stream, 3, &other).await;
    assert_eq!(publish(store, place.stream, 4, &one).await, first);

    let entries = place.all(place.stream).await;
    let bodies: Vec<_> = entries.iter().map(|entry| &entry.fields).collect();
    assert_eq!(super::ids(&entries), [first, second]);
    assert_eq!(bodies, [&body(1), &body(3)]);
    assert_eq!(place.read("c", 10).await, [first, second]);
}

pub(super) async fn keeps_the_ids_of_streams_apart(store: &Store) {
    let (one, other) = (fresh_name(), fresh_name());
    let options = once("an id", HOUR);
    publish(store, one, 1, &options).await;
    publish(store, other, 1, &options).await;
    for stream in [one, other] {
        let place = Place { store, stream };
        assert_eq!(place.all(stream).await.len(), 1);
    }
}

pub(super) async fn remembers_an_id_for_its_lifetime(store: &Store) {
    let stream = fresh_name();
    let short = once("short", Duration::from_millis(20));
    let first = publish(store, stream, 1, &short).await;
    let another = async {
        while publish(store, stream, 2, &short).await == first {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, another).await.unwrap();
    // For ever, almost.
    let long = once("long", Duration::MAX);
    let first = publish(store, stream, 3, &long).await;
    assert_eq!(publish(store, stream, 4, &long).await, first);
}

pub(super) async fn publishes_once_what_many_publish_at_a_time(store: &Store) {
    let place = Place::new(store).await;
    let many: Vec<_> = (0..50)
        .map(|number| {
            let (store, stream) = (store.clone(), place.stream);
            let publish = async move { publish(&store, stream, number, &once("id", HOUR)).await };
            tokio::spawn(publish)
        })
        .collect();
    let mut ids = Vec::new();
    for one in many {
        ids.push(one.await.unwrap());
    }
    ids.dedup();
    assert_eq!(super::ids(&place.all(place.stream).await), ids);
    assert_eq!(ids.len(), 1);
}

pub(super) async fn trims_when_it_publishes(store: &Store) {
    let place = Place::new(store).await;
    let exact = Some(Trim::MaxLenExact(2));
    let mut ids = place.publish(3).await;
    let id = once("id", HOUR);
    let added = store.publish_once(place.stream, &body(4), exact, &id).await;
    ids.push(added.unwrap());
    assert_eq!(super::ids(&place.all(place.stream).await), ids[2..]);
    ids.extend(place.publish(1).await);
    // What is not published again trims nothing again.
    let again = store.publish_once(place.stream, &body(5), exact, &id).await;
    assert_eq!(again, Ok(ids[3]));
    assert_eq!(super::ids(&place.all(place.stream).await), ids[2..]);
}
