//! Adding to streams: publish, groups, replay.

use super::{GROUP, Place, body, fields, fresh_name, ids};
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::store::{Entry, Group, Replayed, Start, Store};

pub(super) async fn keeps_the_order_and_raises_ids(store: &Store) {
    let place = Place::new(store).await;
    let mut published = place.publish(100).await;
    published.extend(place.publish(1).await);
    assert!(published.is_sorted_by(|a, b| a < b));
    let entries = place.all(place.stream).await;
    assert_eq!(ids(&entries), published);
    assert_eq!(entries[42].fields, body(42));
    assert_eq!(entries[100].fields, body(0));
}

pub(super) async fn keeps_fields_as_they_are(store: &Store) {
    let place = Place::new(store).await;
    let odd = fields([
        (b"z", b"last letter first"),
        (b"twice", b"1"),
        (b"a", b""),
        (b"twice", b"2"),
        (b"\xff\xfe", b"\x00\xc3\x28\r\n"),
        (b"", b"nameless"),
    ]);
    let id = store
        .publish(place.stream, std::slice::from_ref(&odd), None)
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    let entry = Entry { id, fields: odd };
    assert_eq!(place.all(place.stream).await, std::slice::from_ref(&entry));
    assert_eq!(
        place.reader("c").await.read(1, None).await.unwrap(),
        [entry]
    );
}

pub(super) async fn refuses_one_entry_and_keeps_the_others(store: &Store) {
    let place = Place::new(store).await;
    let answers = store
        .publish(place.stream, &[body(1), Fields::default(), body(2)], None)
        .await
        .unwrap();
    assert_eq!(
        answers.iter().map(Result::is_ok).collect::<Vec<_>>(),
        [true, false, true]
    );
    let kept: Vec<EntryId> = answers.into_iter().filter_map(Result::ok).collect();
    assert_eq!(ids(&place.all(place.stream).await), kept);
}

pub(super) async fn tells_each_of_many_at_once_its_own_id(store: &Store) {
    let place = Place::new(store).await;
    let publish = |number: usize| {
        let (store, stream) = (store.clone(), place.stream);
        tokio::spawn(async move {
            let entry = match number {
                150 => Fields::default(),
                number => body(number),
            };
            let answers = store.publish(stream, &[entry], None).await;
            answers.unwrap().remove(0).ok()
        })
    };
    let tasks: Vec<_> = (0..300).map(publish).collect();
    let mut told = Vec::new();
    for (number, task) in tasks.into_iter().enumerate() {
        match task.await.unwrap() {
            Some(id) => told.push((id, body(number))),
            None => assert_eq!(number, 150),
        }
    }
    told.sort_by_key(|(id, _)| *id);
    let entries = place.all(place.stream).await.into_iter();
    let there: Vec<_> = entries.map(|entry| (entry.id, entry.fields)).collect();
    assert_eq!(there, told);
}

pub(super) async fn creates_a_group_once(store: &Store) {
    let place = Place::new(store).await;
    let start = Start::After(EntryId::MIN);
    assert_eq!(
        store.ensure_group(place.stream, GROUP, start).await,
        Ok(Group::Existed)
    );
    assert_eq!(
        store.ensure_group(place.stream, "others", start).await,
        Ok(Group::Created)
    );
    let published = place.publish(2).await;
    assert_eq!(place.read("c", 10).await, published);
    // Where a group stands is not changed by asking for it again.
    assert_eq!(
        store.ensure_group(place.stream, GROUP, start).await,
        Ok(Group::Existed)
    );
    assert_eq!(place.read("c", 10).await, []);
}

pub(super) async fn starts_a_group_at_the_beginning_or_behind_an_id(store: &Store) {
    let place = Place {
        store,
        stream: fresh_name(),
    };
    let published = place.publish(3).await;
    store
        .ensure_group(place.stream, GROUP, Start::After(published[0]))
        .await
        .unwrap();
    assert_eq!(place.read("c", 10).await, published[1..]);

    let place = Place {
        store,
        stream: fresh_name(),
    };
    let published = place.publish(3).await;
    store
        .ensure_group(place.stream, GROUP, Start::After(EntryId::MIN))
        .await
        .unwrap();
    assert_eq!(place.read("c", 10).await, published);
}

pub(super) async fn starts_a_group_with_what_comes_new(store: &Store) {
    let place = Place {
        store,
        stream: fresh_name(),
    };
    place.publish(3).await;
    store
        .ensure_group(place.stream, GROUP, Start::New)
        .await
        .unwrap();
    assert_eq!(place.read("c", 10).await, []);
    let published = place.publish(2).await;
    assert_eq!(place.read("c", 10).await, published);
}

pub(super) async fn makes_the_stream_of_a_new_group(store: &Store) {
    let stream = fresh_name();
    assert_eq!(
        store.ensure_group(stream, GROUP, Start::New).await,
        Ok(Group::Created)
    );
    assert_eq!(store.last_id(stream).await, Ok(Some(EntryId::MIN)));
    assert_eq!(
        store.groups(stream).await,
        Ok(vec![(GROUP.to_owned(), EntryId::MIN)])
    );
}

pub(super) async fn replays_once(store: &Store) {
    let place = Place::new(store).await;
    let dlq = Place {
        store,
        stream: fresh_name(),
    };
    let letters = dlq.publish(2).await;
    let again = fields([(b"data", b"\xff"), (b"h-a", b"1"), (b"h-a", b"")]);
    let Replayed::Moved(id) = store
        .replay(dlq.stream, letters[0], place.stream, &again)
        .await
        .unwrap()
    else {
        panic!("not moved");
    };
    assert_eq!(
        place.all(place.stream).await,
        [Entry {
            id,
            fields: again.clone()
        }]
    );
    assert_eq!(ids(&dlq.all(dlq.stream).await), letters[1..]);

    assert_eq!(
        store
            .replay(dlq.stream, letters[0], place.stream, &again)
            .await,
        Ok(Replayed::Gone)
    );
    assert_eq!(place.read("c", 10).await, [id]);
    assert_eq!(dlq.all(dlq.stream).await.len(), 1);
}

pub(super) async fn replays_to_a_stream_that_is_not_there(store: &Store) {
    let place = Place {
        store,
        stream: fresh_name(),
    };
    let dlq = Place {
        store,
        stream: fresh_name(),
    };
    let letter = dlq.publish(1).await[0];
    let moved = store
        .replay(dlq.stream, letter, place.stream, &body(7))
        .await
        .unwrap();
    let entries = place.all(place.stream).await;
    assert_eq!(moved, Replayed::Moved(entries[0].id));
    assert_eq!(entries[0].fields, body(7));
    assert_eq!(dlq.all(dlq.stream).await, []);
}

pub(super) async fn replays_nothing_from_a_dlq_that_is_not_there(store: &Store) {
    let place = Place::new(store).await;
    let id = EntryId { ms: 1, seq: 0 };
    assert_eq!(
        store.replay(fresh_name(), id, place.stream, &body(0)).await,
        Ok(Replayed::Gone)
    );
    assert_eq!(place.all(place.stream).await, []);
}
