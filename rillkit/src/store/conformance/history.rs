//! What is kept about failed deliveries, and where it goes.

use super::taking::counted;
use super::{Place, body, fields, first, fresh_name};
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::store::{Fenced, Row, Rows, Store, Taken, Token};

/// A letter that tells of its last delivery.
fn letter(last: &str) -> Fields {
    fields([(b"data", b"0"), (b"x-attempts", last.as_bytes())])
}

impl Place<'_> {
    pub(super) async fn keep(&self, failed: impl IntoIterator<Item = (Token, &'static str)>) {
        let rows = failed.into_iter().map(|(token, text)| Row {
            token,
            text: text.to_owned(),
        });
        let rows: Vec<_> = rows.collect();
        let kept = self.store.keep_history(&self.consumer("c"), &rows).await;
        assert_eq!(kept, Ok(()));
    }

    /// Delivers again to the same consumer.
    pub(super) async fn deliver_again(&self, token: Token) -> Token {
        let taken = self.take("c", counted(token, "c")).await;
        assert!(matches!(taken, Taken::Entry(_)), "{taken:?}");
        Token {
            deliveries: token.deliveries + 1,
            ..token
        }
    }

    /// Dead-letters, and what the letter's last field then says.
    async fn told(&self, token: Token, last: &str, rows: Rows) -> String {
        let (me, dlq) = (self.consumer("c"), fresh_name());
        let moved = self
            .store
            .dead_letter(&me, token, dlq, &letter(last), rows)
            .await;
        assert_eq!(moved, Ok(Fenced::Done));
        let letters = self.all(dlq).await;
        assert_eq!(letters.len(), 1);
        assert_eq!(letters[0].fields.get("data"), Some(&b"0"[..]));
        letters[0].fields.text("x-attempts").unwrap().to_owned()
    }

    /// What a letter would tell now, without one: of deliveries before this one.
    async fn kept(&self, token: Token) -> String {
        let (me, id) = (self.consumer("c"), token.id);
        let back = super::Return {
            token: self.holds("c").await[0],
            deliveries: token.deliveries,
            idle: std::time::Duration::ZERO,
        };
        assert_eq!(back.token.id, id);
        self.store.give(&me, "c", &[back]).await.unwrap();
        self.told(token, "[]", Rows::Moved).await
    }
}

fn at(token: Token, deliveries: u64) -> Token {
    Token {
        deliveries,
        ..token
    }
}

pub(super) async fn tells_a_letter_what_was_kept(store: &Store) {
    let place = Place::new(store).await;
    let one = place.deliver("c").await;
    let other = place.deliver("c").await;
    place.keep([(one, "{1}"), (other, "{a}")]).await;
    let two = place.deliver_again(one).await;
    place.keep([(two, "{2}")]).await;
    let three = place.deliver_again(two).await;
    assert_eq!(
        place.told(three, "[{3}]", Rows::Moved).await,
        "[{1},{2},{3}]"
    );
    let other = place.deliver_again(other).await;
    assert_eq!(place.told(other, "[]", Rows::Moved).await, "[{a}]");
}

pub(super) async fn keeps_what_a_letter_leaves(store: &Store) {
    let place = Place::new(store).await;
    let one = place.deliver("c").await;
    place.keep([(one, "{1}")]).await;
    let two = place.deliver_again(one).await;
    assert_eq!(place.told(two, "[{2}]", Rows::Left).await, "[{2}]");
}

pub(super) async fn tells_nothing_where_nothing_was_kept(store: &Store) {
    let place = Place::new(store).await;
    let one = place.deliver("c").await;
    let two = place.deliver_again(one).await;
    assert_eq!(place.told(two, "[{2}]", Rows::Moved).await, "[{2}]");
    let first = place.deliver("c").await;
    assert_eq!(place.told(first, "[]", Rows::Moved).await, "[]");
}

pub(super) async fn keeps_the_first_and_the_newest(store: &Store) {
    let place = Place::new(store).await;
    let one = place.deliver("c").await;
    let texts: Vec<&'static str> = (1..=30).map(|n: u64| &*n.to_string().leak()).collect();
    for (deliveries, text) in (1..).zip(texts) {
        place.keep([(at(one, deliveries), text)]).await;
    }
    assert_eq!(place.kept(at(one, 31)).await, "[1,23,24,25,26,27,28,29,30]");
}

pub(super) async fn forgets_with_the_ack(store: &Store) {
    let place = Place::new(store).await;
    let one = place.deliver("c").await;
    let (two, three) = (at(one, 2), at(one, 3));
    place.keep([(one, "{1}"), (two, "{2}")]).await;
    let me = place.consumer("c");
    assert_eq!(store.forget_history(&me, &[three]).await, Ok(()));
    // Twice, and of nothing.
    assert_eq!(store.forget_history(&me, &[three, one]).await, Ok(()));
    assert_eq!(store.forget_history(&me, &[]).await, Ok(()));
    assert_eq!(place.kept(three).await, "[]");
}

pub(super) async fn keeps_each_groups_history_apart(store: &Store) {
    let place = Place::new(store).await;
    let one = place.deliver("c").await;
    let mut elsewhere = place.consumer("c");
    elsewhere.group = "others";
    store
        .ensure_group(place.stream, "others", super::Start::After(EntryId::MIN))
        .await
        .unwrap();
    let row = Row {
        token: one,
        text: "{x}".to_owned(),
    };
    assert_eq!(store.keep_history(&elsewhere, &[row]).await, Ok(()));
    place.keep([(one, "{1}")]).await;
    assert_eq!(
        store.forget_history(&elsewhere, &[at(one, 2)]).await,
        Ok(())
    );
    assert_eq!(place.kept(at(one, 2)).await, "[{1}]");
}

pub(super) async fn tidies_up_what_is_not_pending(store: &Store) {
    let place = Place::new(store).await;
    let me = place.consumer("c");
    let pending = place.deliver("c").await;
    let gone = place.publish(1).await[0];
    place.keep([(pending, "{1}"), (first(gone), "{x}")]).await;
    // More than one look goes through.
    let many = place.publish(300).await;
    place
        .keep(many.iter().map(|id| (first(*id), "{many}")))
        .await;
    let mut from = 0;
    let mut looks = 0;
    loop {
        from = store.tidy_history(&me, from).await.unwrap();
        looks += 1;
        if from == 0 {
            break;
        }
        assert!(looks < 100, "it comes to an end");
    }
    assert_eq!(place.kept(at(pending, 2)).await, "[{1}]");
    // Those were never handed out; now they are, and nothing is known of them.
    assert_eq!(place.read("c", 1).await, [gone]);
    assert_eq!(place.kept(at(first(gone), 2)).await, "[]");
    let nowhere = Place {
        store,
        stream: fresh_name(),
    };
    // Nothing kept, no group: an error or nothing, and nothing is made.
    let _ = store.tidy_history(&nowhere.consumer("c"), 0).await;
    assert_eq!(store.last_id(nowhere.stream).await, Ok(None));
}

/// More fields than a script can pass on go in steps, and take the history along all the same.
pub(super) async fn tells_a_letter_of_many_fields_too(store: &Store) {
    let place = Place::new(store).await;
    let one = place.deliver("c").await;
    place.keep([(one, "{1}")]).await;
    let two = place.deliver_again(one).await;
    let mut letter = body(0);
    for _ in 0..4000 {
        letter.push("n", "");
    }
    letter.push("x-attempts", "[{2}]");
    let (me, dlq) = (place.consumer("c"), fresh_name());
    let moved = store.dead_letter(&me, two, dlq, &letter, Rows::Moved).await;
    assert_eq!(moved, Ok(Fenced::Done));
    let letters = place.all(dlq).await;
    assert_eq!(letters[0].fields.len(), 4002);
    assert_eq!(letters[0].fields.text("x-attempts"), Some("[{1},{2}]"));
}
