//! Entries that change hands: take, give, and the fence of each.

use std::sync::Arc;
use std::time::Duration;

use super::{GROUP, HOUR, MINUTE, Place, body, fields, first, firsts, miscounted};
use crate::store::{Charge, Fenced, Return, Store, Take, Taken, Token};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A take that asks only for owner and count.
pub(super) fn counted(token: Token, owner: &str) -> Take {
    Take {
        token,
        owner: Arc::from(owner),
        min_idle: Duration::ZERO,
        charge: Charge::Counted,
    }
}

fn kept(token: Token, owner: &str) -> Take {
    Take {
        charge: Charge::Kept,
        ..counted(token, owner)
    }
}

/// A return that changes nothing but owner and idle time.
pub(super) fn back(token: Token, idle: Duration) -> Return {
    Return {
        token,
        deliveries: token.deliveries,
        idle,
    }
}

pub(super) async fn takes_and_counts(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    place.age("c", token, HOUR).await;
    assert_eq!(
        place.take("d", counted(token, "c")).await,
        Taken::Entry(body(0))
    );
    assert_eq!(place.holds("c").await, []);
    assert_eq!(place.holds("d").await, [miscounted(token)]);
    assert!(place.idle("d", token.id).await < MINUTE);
    // The former owner's delivery is over.
    assert_eq!(
        store.ack_fenced(&place.consumer("c"), &[token]).await,
        Ok(vec![Fenced::Other])
    );
}

pub(super) async fn takes_and_keeps_the_count(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    place.age("c", token, HOUR).await;
    assert_eq!(
        place.take("d", kept(token, "c")).await,
        Taken::Entry(body(0))
    );
    assert_eq!(place.holds("c").await, []);
    assert_eq!(place.holds("d").await, [token]);
    assert!(place.idle("d", token.id).await < MINUTE);
}

pub(super) async fn takes_its_own(store: &Store) {
    let place = Place::new(store).await;
    let odd = fields([(b"\xff", b""), (b"a", b"1"), (b"a", b"\x00")]);
    let id = store
        .publish(place.stream, std::slice::from_ref(&odd), None)
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    place.read("c", 1).await;
    assert_eq!(
        place.take("c", counted(first(id), "c")).await,
        Taken::Entry(odd.clone())
    );
    assert_eq!(
        place
            .take("c", kept(Token { id, deliveries: 2 }, "c"))
            .await,
        Taken::Entry(odd.clone())
    );
    assert_eq!(
        place
            .take("c", counted(Token { id, deliveries: 2 }, "c"))
            .await,
        Taken::Entry(odd)
    );
    assert_eq!(place.holds("c").await, [Token { id, deliveries: 3 }]);
}

pub(super) async fn takes_only_from_the_owner_named(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    assert_eq!(place.take("d", counted(token, "d")).await, Taken::Other);
    assert_eq!(place.take("d", kept(token, "nobody")).await, Taken::Other);
    assert_eq!(place.holds("c").await, [token]);
}

pub(super) async fn takes_only_at_the_count_named(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    assert_eq!(
        place.take("d", counted(miscounted(token), "c")).await,
        Taken::Other
    );
    assert_eq!(
        place.take("d", counted(token, "c")).await,
        Taken::Entry(body(0))
    );
    assert_eq!(place.take("c", counted(token, "d")).await, Taken::Other);
    assert_eq!(place.holds("d").await, [miscounted(token)]);
}

pub(super) async fn takes_only_what_is_idle(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    let take = Take {
        min_idle: HOUR,
        ..counted(token, "c")
    };
    assert_eq!(place.take("d", take.clone()).await, Taken::Other);
    assert_eq!(place.holds("c").await, [token]);
    place.age("c", token, HOUR).await;
    assert_eq!(place.take("d", take).await, Taken::Entry(body(0)));

    let mut waits = 0;
    let soon = Take {
        min_idle: Duration::from_millis(30),
        ..counted(miscounted(token), "d")
    };
    while place.take("c", soon.clone()).await == Taken::Other {
        waits += 1;
        assert!(waits < 1000, "never idle");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(
        place.holds("c").await,
        [Token {
            id: token.id,
            deliveries: 3
        }]
    );
}

pub(super) async fn takes_nothing_that_is_settled(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    store.ack(&place.consumer("c"), &[token.id]).await.unwrap();
    assert_eq!(place.take("d", counted(token, "c")).await, Taken::Gone);
    let unread = place.publish(1).await[0];
    assert_eq!(
        place.take("d", counted(first(unread), "c")).await,
        Taken::Gone
    );
    assert_eq!(place.holds("d").await, []);
    assert_eq!(place.read("c", 10).await, [unread]);
}

pub(super) async fn finds_a_trimmed_entry_lost(store: &Store) {
    let place = Place::new(store).await;
    for take in [counted, kept] {
        let token = place.deliver("c").await;
        place.trim(token.id).await;
        assert_eq!(place.holds("c").await, [token]);
        assert_eq!(place.take("d", take(token, "d")).await, Taken::Other);
        assert_eq!(place.holds("c").await, [token]);
        assert_eq!(place.take("d", take(token, "c")).await, Taken::Lost);
        assert_eq!(store.summary(place.stream, GROUP).await.unwrap().pending, 0);
        assert_eq!(place.take("d", take(token, "c")).await, Taken::Gone);
    }
}

pub(super) async fn answers_each_take_for_itself(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(6).await;
    place.read("c", 4).await;
    place.read("d", 1).await;
    place.trim(published[2]).await;
    store
        .ack(&place.consumer("c"), &published[3..4])
        .await
        .unwrap();
    let takes = [
        counted(first(published[5]), "c"),
        kept(first(published[1]), "c"),
        counted(first(published[2]), "c"),
        counted(first(published[3]), "c"),
        counted(first(published[4]), "c"),
        counted(first(published[0]), "c"),
        // Taken by the one before, under another count.
        counted(first(published[0]), "c"),
    ];
    let taken = store.take(&place.consumer("e"), &takes).await.unwrap();
    let expected = [
        Taken::Gone,
        Taken::Entry(body(1)),
        Taken::Lost,
        Taken::Gone,
        Taken::Other,
        Taken::Entry(body(0)),
        Taken::Other,
    ];
    assert_eq!(taken, expected);
    assert_eq!(
        place.holds("e").await,
        [
            Token {
                id: published[0],
                deliveries: 2
            },
            first(published[1])
        ]
    );
    assert_eq!(place.holds("c").await, []);
}

pub(super) async fn gives_with_count_and_idle_time(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    let back = Return {
        token,
        deliveries: 5,
        idle: HOUR,
    };
    assert_eq!(
        store.give(&place.consumer("c"), "stranger", &[back]).await,
        Ok(vec![Fenced::Done])
    );
    assert_eq!(place.holds("c").await, []);
    let given = Token {
        deliveries: 5,
        ..token
    };
    assert_eq!(place.holds("stranger").await, [given]);
    let idle = place.idle("stranger", token.id).await;
    assert!(idle >= HOUR && idle < HOUR + MINUTE, "{idle:?}");
    assert_eq!(
        place
            .take(
                "c",
                Take {
                    min_idle: HOUR,
                    ..counted(given, "stranger")
                }
            )
            .await,
        Taken::Entry(body(0))
    );
    assert_eq!(
        place.holds("c").await,
        [Token {
            deliveries: 6,
            ..token
        }]
    );
}

pub(super) async fn gives_to_itself(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    let given = store
        .give(
            &place.consumer("c"),
            "c",
            &[Return {
                token,
                deliveries: 2,
                idle: Duration::ZERO,
            }],
        )
        .await;
    assert_eq!(given, Ok(vec![Fenced::Done]));
    assert_eq!(place.holds("c").await, [miscounted(token)]);
    assert!(place.idle("c", token.id).await < MINUTE);
}

pub(super) async fn gives_with_an_idle_time_of_many_days(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    for days in [1, 40] {
        place.age("c", token, days * DAY).await;
        let idle = place.idle("c", token.id).await;
        assert!(idle >= days * DAY && idle < days * DAY + MINUTE, "{idle:?}");
    }
}

pub(super) async fn gives_back_uncharged(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    let back = Return {
        token,
        deliveries: 0,
        idle: DAY,
    };
    assert_eq!(
        store.give(&place.consumer("c"), "returns", &[back]).await,
        Ok(vec![Fenced::Done])
    );
    let returned = Token {
        deliveries: 0,
        ..token
    };
    assert_eq!(place.holds("returns").await, [returned]);
    assert_eq!(
        place.take("d", counted(returned, "returns")).await,
        Taken::Entry(body(0))
    );
    assert_eq!(place.holds("d").await, [token]);
}

pub(super) async fn gives_only_what_the_fence_lets_pass(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(4).await;
    place.read("c", 2).await;
    place.read("d", 1).await;
    let returns = [
        back(first(published[3]), HOUR),
        back(first(published[2]), HOUR),
        back(miscounted(first(published[1])), HOUR),
        back(first(published[0]), HOUR),
        back(first(published[0]), HOUR),
    ];
    let answers = store
        .give(&place.consumer("c"), "e", &returns)
        .await
        .unwrap();
    assert_eq!(
        answers,
        [
            Fenced::Gone,
            Fenced::Other,
            Fenced::Other,
            Fenced::Done,
            Fenced::Other
        ]
    );
    assert_eq!(place.holds("c").await, firsts(&published[1..2]));
    assert_eq!(place.holds("d").await, firsts(&published[2..3]));
    assert_eq!(place.holds("e").await, firsts(&published[..1]));
    assert!(place.idle("c", published[1]).await < MINUTE);
}

/// Servers from 7.0 on drop a trimmed entry from the pending list when it is claimed. Whoever holds
/// it after a gift, the loss is found and not passed over in silence.
pub(super) async fn tells_the_truth_about_a_gift_of_a_trimmed_entry(store: &Store) {
    let place = Place::new(store).await;
    let token = place.deliver("c").await;
    place.trim(token.id).await;
    let returns = [back(token, HOUR)];
    let answer = store
        .give(&place.consumer("c"), "d", &returns)
        .await
        .unwrap();
    let held = [place.holds("c").await, place.holds("d").await];
    let owner = match (&answer[..], held.each_ref().map(Vec::len)) {
        ([Fenced::Gone], [0, 0]) => return,
        ([Fenced::Done], [1, 0]) => "c",
        ([Fenced::Done], [0, 1]) => "d",
        _ => panic!("answered {answer:?}, and held by c and d is {held:?}"),
    };
    assert_eq!(place.take("e", counted(token, owner)).await, Taken::Lost);
}
