//! Entries in hand: ack, touch, dead-letter, and the fence of each.

use std::time::Duration;

use super::taking::{back, counted};
use super::{
    GROUP, HOUR, MINUTE, Place, assert_no_group, body, fields, first, firsts, fresh_name, ids,
    miscounted,
};
use crate::entry_id::EntryId;
use crate::store::{Fenced, Replayed, Rows, Start, Store};

pub(super) async fn acks_what_is_pending(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(4).await;
    place.read("c", 3).await;
    store
        .ack(&place.consumer("c"), &published[..2])
        .await
        .unwrap();
    assert_eq!(place.holds("c").await, firsts(&published[2..3]));
    // Twice, and what was not handed out: nothing happens.
    store.ack(&place.consumer("c"), &published).await.unwrap();
    assert_eq!(place.holds("c").await, []);
    assert_eq!(place.read("c", 10).await, published[3..]);
}

pub(super) async fn acks_nothing_without_a_group(store: &Store) {
    let nowhere = Place {
        store,
        stream: fresh_name(),
    };
    let id = EntryId { ms: 1, seq: 0 };
    assert_eq!(store.ack(&nowhere.consumer("c"), &[id]).await, Ok(()));
    let id = nowhere.publish(1).await[0];
    assert_eq!(store.ack(&nowhere.consumer("c"), &[id]).await, Ok(()));
}

pub(super) async fn acks_only_what_the_fence_lets_pass(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(5).await;
    place.read("c", 3).await;
    place.read("d", 1).await;
    let tokens = [
        first(published[0]),
        miscounted(first(published[1])),
        first(published[2]),
        first(published[3]),
        first(published[4]),
        first(EntryId { ms: 1, seq: 1 }),
        // Settled by the first of these tokens.
        first(published[0]),
    ];
    let answers = store
        .ack_fenced(&place.consumer("c"), &tokens)
        .await
        .unwrap();
    let expected = [
        Fenced::Done,
        Fenced::Other,
        Fenced::Done,
        Fenced::Other,
        Fenced::Gone,
        Fenced::Gone,
        Fenced::Gone,
    ];
    assert_eq!(answers, expected);
    assert_eq!(place.holds("c").await, firsts(&published[1..2]));
    assert_eq!(place.holds("d").await, firsts(&published[3..4]));
}

pub(super) async fn touches_the_idle_time_and_not_the_count(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    place.age("c", token, HOUR).await;
    assert!(place.idle("c", token.id).await >= HOUR);
    assert_eq!(
        store.touch(&place.consumer("c"), &[token]).await,
        Ok(vec![Fenced::Done])
    );
    assert!(place.idle("c", token.id).await < MINUTE);
    assert_eq!(place.holds("c").await, [token]);
    // And it goes on from there.
    while place.idle("c", token.id).await < Duration::from_millis(5) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(super) async fn touches_only_what_the_fence_lets_pass(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    place.age("c", token, HOUR).await;
    let settled = place.deliver("d").await;
    store
        .ack(&place.consumer("d"), &[settled.id])
        .await
        .unwrap();

    let answers = store
        .touch(&place.consumer("d"), &[token, settled])
        .await
        .unwrap();
    assert_eq!(answers, [Fenced::Other, Fenced::Gone]);
    let answers = store
        .touch(&place.consumer("c"), &[miscounted(token)])
        .await
        .unwrap();
    assert_eq!(answers, [Fenced::Other]);
    assert_eq!(place.holds("c").await, [token]);
    assert!(place.idle("c", token.id).await >= HOUR);
}

/// Servers from 7.0 on drop a trimmed entry from the pending list when it is claimed. Whether a
/// touch keeps it is the store's affair, but not that it says one thing and does another.
pub(super) async fn tells_the_truth_about_a_touch_of_a_trimmed_entry(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    place.trim(token.id).await;
    let answer = store.touch(&place.consumer("c"), &[token]).await.unwrap();
    let held = place.holds("c").await;
    assert!(
        matches!(
            (&answer[..], &held[..]),
            ([Fenced::Done], [_]) | ([Fenced::Gone], [])
        ),
        "{answer:?} {held:?}"
    );
}

pub(super) async fn dead_letters_once(store: &Store) {
    let place = Place::new(store).await;
    let dlq = Place {
        store,
        stream: fresh_name(),
    };
    let token = place.deliver("c").await;
    let letter = fields([
        (b"data", b"\xff\x00"),
        (b"n", b"1"),
        (b"n", b""),
        (b"x-error", b"bad input"),
    ]);
    let me = place.consumer("c");
    assert_eq!(
        store
            .dead_letter(&me, token, dlq.stream, &letter, Rows::Left)
            .await,
        Ok(Fenced::Done)
    );
    assert_eq!(place.holds("c").await, []);
    assert_eq!(
        store
            .dead_letter(&me, token, dlq.stream, &letter, Rows::Left)
            .await,
        Ok(Fenced::Gone)
    );
    let letters = dlq.all(dlq.stream).await;
    assert_eq!(
        letters
            .iter()
            .map(|entry| &entry.fields)
            .collect::<Vec<_>>(),
        [&letter]
    );
    // The entry stays on its stream, as an acked one does.
    assert_eq!(ids(&place.all(place.stream).await), [token.id]);
}

pub(super) async fn dead_letters_only_what_the_fence_lets_pass(store: &Store) {
    let place = Place::new(store).await;
    let dlq = fresh_name();
    let token = place.deliver("c").await;
    let unread = place.publish(1).await[0];
    let (me, other) = (place.consumer("c"), place.consumer("d"));
    assert_eq!(
        store
            .dead_letter(&other, token, dlq, &body(0), Rows::Left)
            .await,
        Ok(Fenced::Other)
    );
    assert_eq!(
        store
            .dead_letter(&me, miscounted(token), dlq, &body(0), Rows::Left)
            .await,
        Ok(Fenced::Other)
    );
    assert_eq!(
        store
            .dead_letter(&me, first(unread), dlq, &body(0), Rows::Left)
            .await,
        Ok(Fenced::Gone)
    );
    assert_eq!(place.all(dlq).await, []);
    assert_eq!(place.holds("c").await, [token]);
}

pub(super) async fn dead_letters_what_was_trimmed(store: &Store) {
    let place = Place::new(store).await;
    let dlq = fresh_name();
    let token = place.deliver("c").await;
    place.trim(token.id).await;
    assert_eq!(
        store
            .dead_letter(&place.consumer("c"), token, dlq, &body(9), Rows::Left)
            .await,
        Ok(Fenced::Done)
    );
    assert_eq!(place.holds("c").await, []);
    let letters = place.all(dlq).await;
    assert_eq!((letters.len(), &letters[0].fields), (1, &body(9)));
    // And from there it comes back.
    let moved = store
        .replay(dlq, letters[0].id, place.stream, &body(9))
        .await
        .unwrap();
    assert_eq!(moved, Replayed::Moved(place.read("c", 10).await[0]));
}

pub(super) async fn answers_nothing_for_nothing(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    let me = place.consumer("c");
    assert_eq!(store.ack(&me, &[]).await, Ok(()));
    assert_eq!(store.ack_fenced(&me, &[]).await, Ok(vec![]));
    assert_eq!(store.touch(&me, &[]).await, Ok(vec![]));
    assert_eq!(store.take(&me, &[]).await, Ok(vec![]));
    assert_eq!(store.give(&me, "d", &[]).await, Ok(vec![]));
    assert_eq!(store.publish(place.stream, &[], None).await, Ok(vec![]));
    assert_eq!(place.holds("c").await, [token]);
}

pub(super) async fn settles_nothing_without_a_group(store: &Store) {
    let nowhere = Place {
        store,
        stream: fresh_name(),
    };
    let dlq = fresh_name();
    let me = nowhere.consumer("c");
    let mut token = first(EntryId { ms: 1, seq: 0 });
    // First without the stream, then with it.
    for _ in 0..2 {
        assert_no_group(store.ack_fenced(&me, &[token]).await);
        assert_no_group(store.touch(&me, &[token]).await);
        assert_no_group(store.take(&me, &[counted(token, "d")]).await);
        assert_no_group(store.give(&me, "d", &[back(token, HOUR)]).await);
        assert_no_group(
            store
                .dead_letter(&me, token, dlq, &body(0), Rows::Left)
                .await,
        );
        token = first(nowhere.publish(1).await[0]);
    }
    assert_eq!(nowhere.all(dlq).await, []);
    store
        .ensure_group(nowhere.stream, GROUP, Start::After(EntryId::MIN))
        .await
        .unwrap();
    assert_eq!(nowhere.read("c", 10).await.len(), 2);
}

pub(super) async fn deletes_what_it_acks(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(450).await;
    place.read("c", 440).await;
    let deleter = place.deleter("c");
    store.ack(&deleter, &published[..420]).await.unwrap();
    assert_eq!(place.holds("c").await, firsts(&published[420..440]));
    assert_eq!(ids(&place.all(place.stream).await), published[420..]);
    // Twice, and from a consumer that keeps: nothing more goes.
    store.ack(&deleter, &published[..420]).await.unwrap();
    store
        .ack(&place.consumer("c"), &published[420..430])
        .await
        .unwrap();
    assert_eq!(ids(&place.all(place.stream).await), published[420..]);
    assert_eq!(place.read("c", 100).await, published[440..]);
}

pub(super) async fn deletes_only_what_the_fence_lets_pass(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(4).await;
    place.read("c", 2).await;
    place.read("d", 1).await;
    let tokens = [
        first(published[0]),
        miscounted(first(published[1])),
        first(published[2]),
        first(published[3]),
        first(published[0]),
    ];
    let answers = store
        .ack_fenced(&place.deleter("c"), &tokens)
        .await
        .unwrap();
    let expected = [
        Fenced::Done,
        Fenced::Other,
        Fenced::Other,
        Fenced::Gone,
        Fenced::Gone,
    ];
    assert_eq!(answers, expected);
    assert_eq!(ids(&place.all(place.stream).await), published[1..]);
    assert_eq!(place.holds("c").await, firsts(&published[1..2]));
}

pub(super) async fn deletes_what_it_dead_letters(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(2).await;
    place.read("c", 2).await;
    let (deleter, dlq) = (place.deleter("c"), fresh_name());
    let bury = async |token| {
        store
            .dead_letter(&deleter, token, dlq, &body(0), Rows::Left)
            .await
            .unwrap()
    };
    assert_eq!(bury(first(published[0])).await, Fenced::Done);
    assert_eq!(bury(first(published[0])).await, Fenced::Gone);
    assert_eq!(bury(miscounted(first(published[1]))).await, Fenced::Other);
    assert_eq!(ids(&place.all(place.stream).await), published[1..]);
    assert_eq!(place.all(dlq).await.len(), 1);
    assert_eq!(place.holds("c").await, firsts(&published[1..]));
}
