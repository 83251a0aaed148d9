//! The markers of idempotency keys, and the fence of each step.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{
    GROUP, HOUR, MINUTE, Place, SOON, assert_no_group, body, fields, first, fresh_name, ids,
    miscounted,
};
use crate::entry_id::EntryId;
use crate::store::commits::{Commit, Committed};
use crate::store::effect::Effect;
use crate::store::{Begun, Done, Fenced, Keyed, Rows, Start, Store, Token};

fn keyed(token: Token, key: &str) -> Keyed {
    Keyed {
        token,
        key: Arc::from(key),
    }
}

impl Place<'_> {
    async fn begin(&self, name: &str, token: Token, key: &str) -> Begun {
        let (consumer, keyed) = (self.consumer(name), keyed(token, key));
        self.store.begin(&consumer, &keyed, HOUR).await.unwrap()
    }

    async fn finish(&self, name: &str, token: Token, key: &str) -> Fenced {
        let (consumer, keyed) = (self.consumer(name), [keyed(token, key)]);
        self.store.finish(&consumer, &keyed, HOUR).await.unwrap()[0]
    }
}

pub(super) async fn marks_a_key_and_touches_the_entry(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    place.age("c", token, HOUR).await;
    assert_eq!(place.begin("c", token, "k").await, Begun::Marked);
    assert!(place.idle("c", token.id).await < MINUTE);
    assert_eq!(place.holds("c").await, [token]);
    // Its answer may have been lost.
    assert_eq!(place.begin("c", token, "k").await, Begun::Marked);
}

pub(super) async fn lets_one_entry_of_a_key_begin(store: &Store) {
    let place = Place::new(store).await;
    let (one, other) = (place.deliver("c").await, place.deliver("d").await);
    assert_eq!(place.begin("c", one, "k").await, Begun::Marked);
    place.age("d", other, HOUR).await;
    let begun = place.begin("d", other, "k").await;
    assert_eq!(begun, Begun::InProgress(one.id));
    assert!(place.idle("d", other.id).await >= HOUR, "nothing changed");
    assert_eq!(place.begin("d", other, "another").await, Begun::Marked);
}

pub(super) async fn keys_are_a_groups_own(store: &Store) {
    let (one, other) = (Place::new(store).await, Place::new(store).await);
    let (token, far) = (one.deliver("c").await, other.deliver("c").await);
    assert_eq!(one.begin("c", token, "k").await, Begun::Marked);
    assert_eq!(other.begin("c", far, "k").await, Begun::Marked);
    let start = Start::After(EntryId::MIN);
    let ensured = store.ensure_group(one.stream, "others", start).await;
    ensured.unwrap();
    let consumer = crate::store::Consumer {
        group: "others",
        ..one.consumer("c")
    };
    let reader = store.reader(&consumer).await.unwrap();
    assert_eq!(reader.read(1, None).await.unwrap()[0].id, token.id);
    let begun = store.begin(&consumer, &keyed(token, "k"), HOUR).await;
    assert_eq!(begun, Ok(Begun::Marked));
}

pub(super) async fn takes_over_the_marker_of_an_earlier_delivery(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    assert_eq!(place.begin("c", token, "k").await, Begun::Marked);
    place.take("d", super::taking::counted(token, "c")).await;
    let again = miscounted(token);
    assert_eq!(place.begin("c", token, "k").await, Begun::Other);
    assert_eq!(place.begin("d", again, "k").await, Begun::Marked);
    // The marker is the new delivery's: the old one cannot remove it.
    let old = keyed(token, "k");
    store.abandon(&place.consumer("c"), &old).await.unwrap();
    let other = place.deliver("e").await;
    let begun = place.begin("e", other, "k").await;
    assert_eq!(begun, Begun::InProgress(token.id));
    assert_eq!(place.finish("c", token, "k").await, Fenced::Other);
    assert_eq!(place.finish("d", again, "k").await, Fenced::Done);
    assert_eq!(place.begin("e", other, "k").await, Begun::Done(token.id));
}

pub(super) async fn begins_only_what_the_fence_lets_pass(store: &Store) {
    let place = Place::new(store).await;
    let (token, settled) = (place.deliver("c").await, place.deliver("c").await);
    store
        .ack(&place.consumer("c"), &[settled.id])
        .await
        .unwrap();
    assert_eq!(place.begin("d", token, "k").await, Begun::Other);
    assert_eq!(place.begin("c", miscounted(token), "k").await, Begun::Other);
    assert_eq!(place.begin("c", settled, "k").await, Begun::Gone);
    assert_eq!(place.begin("c", token, "k").await, Begun::Marked);
}

pub(super) async fn marks_as_done_and_acks(store: &Store) {
    let place = Place::new(store).await;
    let (one, other, rest) = (
        place.deliver("c").await,
        place.deliver("c").await,
        place.deliver("d").await,
    );
    assert_eq!(place.begin("c", one, "k").await, Begun::Marked);
    let all = [
        keyed(one, "k"),
        keyed(rest, "r"),
        keyed(miscounted(other), "o"),
        keyed(one, "k"),
    ];
    let done = store.finish(&place.consumer("c"), &all, HOUR).await;
    let expected = vec![Fenced::Done, Fenced::Other, Fenced::Other, Fenced::Gone];
    assert_eq!(done, Ok(expected));
    assert_eq!(place.holds("c").await, [other]);
    // What did not pass is not marked.
    assert_eq!(place.begin("c", other, "k").await, Begun::Done(one.id));
    assert_eq!(place.begin("c", other, "o").await, Begun::Marked);
    assert_eq!(place.begin("d", rest, "r").await, Begun::Marked);
}

pub(super) async fn marks_as_done_what_is_committed(store: &Store) {
    let place = Place::new(store).await;
    let (one, other) = (place.deliver("c").await, place.deliver("d").await);
    let (me, total, list, dlq) = (
        place.consumer("c"),
        fresh_name().to_owned(),
        fresh_name().to_owned(),
        fresh_name(),
    );
    let incr = |key: &String| Effect::IncrBy {
        key: key.clone(),
        by: 1,
    };
    let push = Effect::RPush {
        key: list.clone(),
        value: b"a".to_vec(),
    };
    let done = Done {
        key: Arc::from("k"),
        lifetime: HOUR,
    };
    let letter = fields([(b"data", b"7"), (b"x-error", b"")]);
    let commit = |effects| Commit {
        effects,
        done: Some(&done),
        dlq,
        letter: &letter,
        rows: Rows::Left,
    };
    assert_eq!(place.begin("c", one, "k").await, Begun::Marked);
    // What is refused leaves the key as it is.
    let refused = [push.clone(), incr(&list)];
    let committed = store.commit(&me, one, commit(&refused)).await.unwrap();
    assert!(
        matches!(committed, Committed::Refused(_) | Committed::Buried(_)),
        "{committed:?}"
    );
    let one = match committed {
        Committed::Refused(_) => one,
        _ => place.deliver("c").await,
    };
    let begun = place.begin("d", other, "k").await;
    assert!(matches!(begun, Begun::InProgress(_)), "{begun:?}");
    let committed = store.commit(&me, miscounted(one), commit(&[])).await;
    assert_eq!(committed, Ok(Committed::Other));
    let effects = [incr(&total)];
    let committed = store.commit(&me, one, commit(&effects)).await;
    assert_eq!(committed, Ok(Committed::Done));
    assert_eq!(store.look(&total).await, Ok(vec![b"1".to_vec()]));
    assert_eq!(place.begin("d", other, "k").await, Begun::Done(one.id));
}

pub(super) async fn deletes_what_it_marks_as_done(store: &Store) {
    let place = Place::new(store).await;
    let (one, other, rest) = (
        place.deliver("c").await,
        place.deliver("c").await,
        place.deliver("c").await,
    );
    let deleter = place.deleter("c");
    let mine = [keyed(one, "k"), keyed(miscounted(other), "o")];
    let done = store.finish(&deleter, &mine, HOUR).await;
    assert_eq!(done, Ok(vec![Fenced::Done, Fenced::Other]));
    let left = [other.id, rest.id];
    assert_eq!(ids(&place.all(place.stream).await), left);
    let (done, letter) = (
        Done {
            key: Arc::from("r"),
            lifetime: HOUR,
        },
        body(0),
    );
    let commit = Commit {
        effects: &[],
        done: Some(&done),
        dlq: fresh_name(),
        letter: &letter,
        rows: Rows::Left,
    };
    let committed = store.commit(&deleter, rest, commit).await;
    assert_eq!(committed, Ok(Committed::Done));
    assert_eq!(ids(&place.all(place.stream).await), [other.id]);
    assert_eq!(place.begin("c", other, "r").await, Begun::Done(rest.id));
}

pub(super) async fn keeps_markers_with_their_entries(store: &Store) {
    let place = Place::new(store).await;
    let (one, done, other) = (
        place.deliver("c").await,
        place.deliver("c").await,
        place.deliver("d").await,
    );
    let second = Duration::from_secs(1);
    let me = place.consumer("c");
    let begun = store.begin(&me, &keyed(one, "k"), second).await;
    assert_eq!(begun, Ok(Begun::Marked));
    assert_eq!(place.finish("c", done, "d").await, Fenced::Done);
    place.age("c", one, HOUR).await;
    let mine = [
        keyed(one, "k"),
        keyed(miscounted(one), "k"),
        keyed(done, "d"),
    ];
    let kept = store.keep(&me, &mine, HOUR).await;
    assert_eq!(kept, Ok(vec![Fenced::Done, Fenced::Other, Fenced::Gone]));
    assert!(place.idle("c", one.id).await < MINUTE);
    tokio::time::sleep(second).await;
    let begun = place.begin("d", other, "k").await;
    assert_eq!(begun, Begun::InProgress(one.id));
    // Not one that is another entry's by now, or done.
    assert_eq!(place.begin("d", other, "x").await, Begun::Marked);
    for key in ["x", "d"] {
        let kept = store.keep(&me, &[keyed(one, key)], HOUR).await;
        assert_eq!(kept, Ok(vec![Fenced::Done]));
    }
    assert_eq!(
        place.begin("c", one, "x").await,
        Begun::InProgress(other.id)
    );
    assert_eq!(place.begin("c", one, "d").await, Begun::Done(done.id));
    // One that has gone comes back while its entry is in hand.
    let kept = store.keep(&me, &[keyed(one, "new")], HOUR).await;
    assert_eq!(kept, Ok(vec![Fenced::Done]));
    let begun = place.begin("d", other, "new").await;
    assert_eq!(begun, Begun::InProgress(one.id));
}

pub(super) async fn markers_go_by_themselves(store: &Store) {
    let place = Place::new(store).await;
    let (one, other) = (place.deliver("c").await, place.deliver("d").await);
    let short = Duration::from_millis(30);
    let me = place.consumer("c");
    let begun = store.begin(&me, &keyed(one, "k"), short).await;
    assert_eq!(begun, Ok(Begun::Marked));
    let began = Instant::now();
    while place.begin("d", other, "k").await != Begun::Marked {
        assert!(began.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let done = store.finish(&me, &[keyed(one, "done")], short).await;
    assert_eq!(done, Ok(vec![Fenced::Done]));
    while place.begin("d", other, "done").await != Begun::Marked {
        assert!(began.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(super) async fn abandons_its_own_marker_and_no_other(store: &Store) {
    let place = Place::new(store).await;
    let (one, other) = (place.deliver("c").await, place.deliver("d").await);
    assert_eq!(place.begin("c", one, "k").await, Begun::Marked);
    let (me, you) = (place.consumer("c"), place.consumer("d"));
    store.abandon(&you, &keyed(other, "k")).await.unwrap();
    store.abandon(&you, &keyed(one, "k")).await.unwrap();
    let begun = place.begin("d", other, "k").await;
    assert_eq!(begun, Begun::InProgress(one.id));
    store.abandon(&me, &keyed(one, "k")).await.unwrap();
    assert_eq!(place.begin("d", other, "k").await, Begun::Marked);
    assert_eq!(place.finish("d", other, "k").await, Fenced::Done);
    store.abandon(&you, &keyed(other, "k")).await.unwrap();
    assert_eq!(place.begin("c", one, "k").await, Begun::Done(other.id));
}

pub(super) async fn takes_any_text_for_a_key(store: &Store) {
    let place = Place::new(store).await;
    let long = "x".repeat(100_000);
    let longer = format!("{long}x");
    let (one, other) = (place.deliver("c").await, place.deliver("d").await);
    for key in [" ", "{}", "a b", "\r\n\0é", "run 1-1", &long] {
        assert_eq!(place.begin("c", one, key).await, Begun::Marked, "{key:?}");
        let begun = place.begin("d", other, key).await;
        assert_eq!(begun, Begun::InProgress(one.id), "{key:?}");
    }
    assert_eq!(place.begin("d", other, &longer).await, Begun::Marked);
}

/// What was trimmed is not pending any more once it is claimed, and then others would run it.
pub(super) async fn begins_what_was_trimmed(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    place.trim(token.id).await;
    assert_eq!(place.begin("c", token, "k").await, Begun::Marked);
    let me = place.consumer("c");
    let kept = store.keep(&me, &[keyed(token, "k")], HOUR).await;
    assert_eq!(kept, Ok(vec![Fenced::Done]));
    assert_eq!(place.finish("c", token, "k").await, Fenced::Done);
    assert_eq!(place.holds("c").await, []);
}

pub(super) async fn marks_nothing_without_a_group(store: &Store) {
    let nowhere = Place {
        store,
        stream: fresh_name(),
    };
    let me = nowhere.consumer("c");
    let one = keyed(first(EntryId { ms: 1, seq: 0 }), "k");
    assert_no_group(store.begin(&me, &one, HOUR).await);
    assert_no_group(store.keep(&me, std::slice::from_ref(&one), HOUR).await);
    assert_no_group(store.finish(&me, &[one], HOUR).await);
    let start = Start::After(EntryId::MIN);
    nowhere.publish(1).await;
    store
        .ensure_group(nowhere.stream, GROUP, start)
        .await
        .unwrap();
    let id = nowhere.read("c", 1).await[0];
    assert_eq!(nowhere.begin("c", first(id), "k").await, Begun::Marked);
}
