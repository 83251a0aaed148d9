//! Acks with effects: all or nothing, and what becomes of an effect that fails.

use std::time::Duration;

use super::{Place, Store, assert_no_group, body, fields, first, fresh_name, ids, miscounted};
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::store::commits::{Commit, Committed, Failed};
use crate::store::effect::{Command, Effect, Part};
use crate::store::{Acked, Consumer, Fault, Rows, Token};
use crate::trim::Trim;

fn incr(key: &str, by: i64) -> Effect {
    let key = key.to_owned();
    Effect::IncrBy { key, by }
}

fn set(key: &str, value: &str) -> Effect {
    Effect::Set {
        key: key.to_owned(),
        value: value.into(),
        lasts: None,
    }
}

fn rpush(key: &str, value: &str) -> Effect {
    Effect::RPush {
        key: key.to_owned(),
        value: value.into(),
    }
}

/// A key of its own, in the slot of every stream here.
fn fresh_key() -> &'static str {
    fresh_name()
}

impl Place<'_> {
    async fn commit(&self, name: &str, token: Token, effects: &[Effect]) -> Committed {
        let committed = self.commit_or_bury(name, token, effects, fresh_name());
        committed.await.unwrap()
    }

    async fn commit_or_bury(
        &self,
        name: &str,
        token: Token,
        effects: &[Effect],
        dlq: &str,
    ) -> Result<Committed, Fault> {
        let letter = fields([(b"data", b"7"), (b"x-error", b""), (b"x-attempts", b"[]")]);
        let commit = Commit {
            effects,
            done: None,
            dlq,
            letter: &letter,
            rows: Rows::Moved,
        };
        self.store.commit(&self.consumer(name), token, commit).await
    }

    async fn looks(&self, key: &str) -> Vec<String> {
        let pieces = self.store.look(key).await.unwrap();
        let text = |piece: &Vec<u8>| String::from_utf8(piece.clone()).unwrap();
        pieces.iter().map(text).collect()
    }
}

pub(super) async fn commits_once(store: &Store) {
    let place = Place::new(store).await;
    let (token, total) = (place.deliver("c").await, fresh_key());
    let effects = [incr(total, 2), incr(total, 3)];
    assert_eq!(place.commit("c", token, &effects).await, Committed::Done);
    assert_eq!(place.holds("c").await, []);
    assert_eq!(place.commit("c", token, &effects).await, Committed::Gone);
    assert_eq!(place.looks(total).await, ["5"]);
}

pub(super) async fn commits_only_what_the_fence_lets_pass(store: &Store) {
    let place = Place::new(store).await;
    let (token, total) = (place.deliver("c").await, fresh_key());
    let unread = first(place.publish(1).await[0]);
    let effects = [incr(total, 1)];
    assert_eq!(place.commit("d", token, &effects).await, Committed::Other);
    let other = place.commit("c", miscounted(token), &effects).await;
    assert_eq!(other, Committed::Other);
    assert_eq!(place.commit("c", unread, &effects).await, Committed::Gone);
    assert_eq!(place.looks(total).await, [""; 0]);
    assert_eq!(place.holds("c").await, [token]);
}

pub(super) async fn commits_nothing_without_a_group(store: &Store) {
    let stream = fresh_name();
    let nowhere = Place { store, stream };
    let total = fresh_key();
    let token = first(EntryId { ms: 1, seq: 0 });
    let effects = [incr(total, 1)];
    let committed = nowhere.commit_or_bury("c", token, &effects, fresh_name());
    assert_no_group(committed.await);
    assert_eq!(nowhere.looks(total).await, [""; 0]);
}

pub(super) async fn commits_an_ack_alone(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    assert_eq!(place.commit("c", token, &[]).await, Committed::Done);
    assert_eq!(place.holds("c").await, []);
}

pub(super) async fn deletes_what_a_commit_acks(store: &Store) {
    let place = Place::new(store).await;
    let (total, text, letter) = (fresh_key(), fresh_key(), body(0));
    let me = Consumer {
        acked: Acked::Goes,
        ..place.consumer("c")
    };
    for effects in [
        vec![set(text, "words"), incr(total, 1)],
        vec![incr(total, 1), incr(text, 1)],
    ] {
        let token = place.deliver("c").await;
        let commit = Commit {
            effects: &effects,
            done: None,
            dlq: fresh_name(),
            letter: &letter,
            rows: Rows::Left,
        };
        let committed = store.commit(&me, token, commit).await.unwrap();
        assert!(
            matches!(committed, Committed::Done | Committed::Buried(_)),
            "{committed:?}"
        );
        assert_eq!(place.holds("c").await, []);
        assert_eq!(place.all(place.stream).await, []);
    }
    assert_eq!(place.looks(total).await, ["2"]);
}

pub(super) async fn does_every_effect(store: &Store) {
    let place = Place::new(store).await;
    let [text, hash, set_of, sorted, list, stream] = [(); 6].map(|()| fresh_key());
    let (short, long) = (Duration::from_millis(20), Duration::from_secs(1000));
    let key = str::to_owned;
    let member = |name: &str| name.as_bytes().to_vec();
    let effects = [
        set(text, "5"),
        incr(text, -7),
        Effect::HSet {
            key: key(hash),
            field: member("b"),
            value: member("x"),
        },
        Effect::HIncrBy {
            key: key(hash),
            field: member("a"),
            by: 4,
        },
        Effect::SAdd {
            key: key(set_of),
            member: member("two"),
        },
        Effect::SAdd {
            key: key(set_of),
            member: member("one"),
        },
        Effect::SAdd {
            key: key(set_of),
            member: member("gone"),
        },
        Effect::SRem {
            key: key(set_of),
            member: member("gone"),
        },
        Effect::ZAdd {
            key: key(sorted),
            member: member("high"),
            score: 2.5,
        },
        Effect::ZAdd {
            key: key(sorted),
            member: member("low"),
            score: -1.0,
        },
        rpush(list, "first"),
        rpush(list, "second"),
        Effect::Expire {
            key: key(list),
            after: long,
        },
        Effect::Publish {
            stream: key(stream),
            fields: body(3),
            trim: None,
        },
    ];
    let token = place.deliver("c").await;
    assert_eq!(place.commit("c", token, &effects).await, Committed::Done);
    assert_eq!(place.looks(text).await, ["-2"]);
    assert_eq!(place.looks(hash).await, ["a", "4", "b", "x"]);
    assert_eq!(place.looks(set_of).await, ["one", "two"]);
    assert_eq!(place.looks(sorted).await, ["low", "-1", "high", "2.5"]);
    assert_eq!(place.looks(list).await, ["first", "second"]);
    let published = place.all(stream).await;
    assert_eq!(published.len(), 1);
    assert_eq!(published[0].fields, body(3));

    let effects = [
        Effect::Del { key: key(hash) },
        Effect::SRem {
            key: key(set_of),
            member: member("one"),
        },
        Effect::SRem {
            key: key(set_of),
            member: member("two"),
        },
        Effect::Set {
            key: key(text),
            value: member("brief"),
            lasts: Some(short),
        },
        Effect::Expire {
            key: key(sorted),
            after: Duration::ZERO,
        },
    ];
    let token = place.deliver("c").await;
    assert_eq!(place.commit("c", token, &effects).await, Committed::Done);
    for gone in [hash, set_of, sorted] {
        assert_eq!(place.looks(gone).await, [""; 0]);
    }
    while !place.looks(text).await.is_empty() {
        tokio::time::sleep(short).await;
    }
}

pub(super) async fn wakes_for_what_a_commit_publishes(store: &Store) {
    let (place, other) = (Place::new(store).await, Place::new(store).await);
    let reader = other.reader("c").await;
    let token = place.deliver("c").await;
    let publish = Effect::Publish {
        stream: other.stream.to_owned(),
        fields: body(1),
        trim: None,
    };
    let (read, committed) = tokio::join!(
        reader.read(1, Some(super::LONG)),
        place.commit("c", token, std::slice::from_ref(&publish)),
    );
    assert_eq!(committed, Committed::Done);
    assert_eq!(read.unwrap()[0].fields, body(1));
}

pub(super) async fn trims_with_what_a_commit_publishes(store: &Store) {
    let (place, other) = (Place::new(store).await, Place::new(store).await);
    let before = other.publish(3).await;
    let publish = |trim| Effect::Publish {
        stream: other.stream.to_owned(),
        fields: body(3),
        trim: Some(trim),
    };
    let (exact, old) = (Trim::MaxLenExact(2), Trim::MaxAge(super::HOUR));
    let token = place.deliver("c").await;
    let effects = [publish(exact), publish(old)];
    assert_eq!(place.commit("c", token, &effects).await, Committed::Done);
    let left = ids(&other.all(other.stream).await);
    assert_eq!((left.len(), left[0]), (3, before[2]));
}

pub(super) async fn refuses_a_key_of_another_type_before_the_first_effect(store: &Store) {
    let place = Place::new(store).await;
    let (total, list) = (fresh_key(), fresh_key());
    let token = place.deliver("c").await;
    assert_eq!(
        place.commit("c", token, &[rpush(list, "a")]).await,
        Committed::Done
    );

    let token = place.deliver("c").await;
    let refused = place
        .commit("c", token, &[incr(total, 1), incr(list, 1)])
        .await;
    let Committed::Refused(Failed { place: 1, error }) = refused else {
        panic!("{refused:?}");
    };
    assert!(error.starts_with("WRONGTYPE "), "{error}");
    let refused = place.commit("c", token, &[incr(place.stream, 1)]).await;
    assert!(
        matches!(refused, Committed::Refused(Failed { place: 0, .. })),
        "{refused:?}"
    );
    assert_eq!(place.looks(total).await, [""; 0]);
    assert_eq!(place.holds("c").await, [token]);
    // What an effect before it makes of the key is what counts.
    let effects = [set(list, "1"), incr(list, 1)];
    assert_eq!(place.commit("c", token, &effects).await, Committed::Done);
    assert_eq!(place.looks(list).await, ["2"]);
}

pub(super) async fn refuses_a_first_effect_that_fails(store: &Store) {
    let place = Place::new(store).await;
    let (text, dlq) = (fresh_key(), fresh_name());
    let token = place.deliver("c").await;
    let effects = [
        set(text, "words"),
        Effect::Del {
            key: fresh_key().to_owned(),
        },
    ];
    assert_eq!(place.commit("c", token, &effects).await, Committed::Done);
    let token = place.deliver("c").await;
    let effects = [incr(text, 1), set(text, "never")];
    let refused = place
        .commit_or_bury("c", token, &effects, dlq)
        .await
        .unwrap();
    let Committed::Refused(Failed { place: 0, error }) = refused else {
        panic!("{refused:?}");
    };
    assert!(error.contains("not an integer"), "{error}");
    assert_eq!(place.looks(text).await, ["words"]);
    assert_eq!(place.holds("c").await, [token]);
    assert_eq!(place.all(dlq).await, []);
}

pub(super) async fn buries_where_a_later_effect_fails(store: &Store) {
    let place = Place::new(store).await;
    let (total, text, never, dlq) = (fresh_key(), fresh_key(), fresh_key(), fresh_name());
    let token = place.deliver("c").await;
    place.keep([(token, "{1}")]).await;
    let token = place.deliver_again(token).await;
    let effects = [
        incr(total, 1),
        set(text, "words"),
        incr(text, 1),
        set(never, "1"),
    ];
    let buried = place
        .commit_or_bury("c", token, &effects, dlq)
        .await
        .unwrap();
    let Committed::Buried(Failed { place: 2, error }) = buried else {
        panic!("{buried:?}");
    };
    assert_eq!(place.looks(total).await, ["1"]);
    assert_eq!(place.looks(text).await, ["words"]);
    assert_eq!(place.looks(never).await, [""; 0]);
    assert_eq!(place.holds("c").await, []);
    let told =
        format!("command 3 of 4, `INCRBY`, failed: {error}; the commands before it were applied");
    let letters = place.all(dlq).await;
    let letter: Vec<&Fields> = letters.iter().map(|letter| &letter.fields).collect();
    let expected = fields([
        (b"data", b"7"),
        (b"x-error", told.as_bytes()),
        (b"x-attempts", b"[{1}]"),
    ]);
    assert_eq!(letter, [&expected]);
    let gone = place.commit_or_bury("c", token, &effects, dlq).await;
    assert_eq!(gone, Ok(Committed::Gone));
}

pub(super) async fn refuses_a_command_that_it_cannot_run(store: &Store) {
    let place = Place::new(store).await;
    let total = fresh_key();
    let token = place.deliver("c").await;
    for name in ["NOSUCHCOMMAND", "SUBSCRIBE", "SELECT", ""] {
        let other = Effect::Other(Command {
            name: name.to_owned(),
            parts: vec![Part::Key(total.to_owned())],
        });
        let refused = place.commit("c", token, &[other, incr(total, 1)]).await;
        assert!(
            matches!(refused, Committed::Refused(Failed { place: 0, .. })),
            "{refused:?}"
        );
    }
    assert_eq!(place.looks(total).await, [""; 0]);
    assert_eq!(place.holds("c").await, [token]);
}
