//! Messages that wait for their time.

use std::time::{Duration, SystemTime};

use super::{HOUR, LONG, Place, SOON, body, fields, fresh_name};
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::store::{Due, HORIZON, Later, Once, Promotion, SCRIPT_FIELDS, Store, UPCOMING};
use crate::trim::Trim;

const NOW: Due = Due::In(Duration::ZERO);

fn later(id: &str, due: Due) -> Later {
    Later {
        id: id.to_owned(),
        due,
        remembered: None,
        trim: None,
    }
}

/// One whose id is remembered.
fn known(id: &str, due: Due) -> Later {
    Later {
        remembered: Some(HOUR),
        ..later(id, due)
    }
}

impl Place<'_> {
    async fn delay(&self, number: usize, later: &Later) -> Option<Duration> {
        let fields = body(number);
        let delayed = self.store.publish_later(self.stream, &fields, later);
        delayed.await.unwrap()
    }

    async fn publish_once(&self, number: usize, id: &str) -> EntryId {
        let (fields, once) = (body(number), Once::new(id, HOUR));
        let published = self.store.publish_once(self.stream, &fields, None, &once);
        published.await.unwrap()
    }

    async fn promote(&self, ids: &[&str]) -> Promotion {
        let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
        self.store.promote(self.stream, &ids).await.unwrap()
    }

    /// The ids of a page of what waits.
    async fn waiting(&self, after: Option<(SystemTime, &str)>, count: usize) -> Vec<String> {
        let (_, page) = (self.store.delayed(self.stream, after, count).await).unwrap();
        page.into_iter().map(|waiting| waiting.id).collect()
    }

    async fn bodies(&self) -> Vec<Fields> {
        let entries = self.all(self.stream).await;
        entries.into_iter().map(|entry| entry.fields).collect()
    }
}

pub(super) async fn adds_a_delayed_message_when_it_is_due(store: &Store) {
    let place = Place::new(store).await;
    assert_eq!(store.has_delayed(place.stream).await, Ok(false));
    assert_eq!(place.promote(&["unknown"]).await, Promotion::default());
    let delay = Duration::from_millis(50);
    let left = place.delay(1, &later("a", Due::In(delay))).await.unwrap();
    assert!(left <= delay, "{left:?}");
    assert_eq!(store.has_delayed(place.stream).await, Ok(true));

    let promotion = place.promote(&["a"]).await;
    // A machine may have been busy for long.
    if promotion.added == 0 {
        assert_eq!(promotion.upcoming.len(), 1);
        assert!(promotion.upcoming[0].0 == "a" && promotion.upcoming[0].1 <= delay);
        let added = async {
            while place.promote(&["a"]).await.added == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, added).await.unwrap();
    }
    assert_eq!(place.bodies().await, [body(1)]);
    assert_eq!(store.has_delayed(place.stream).await, Ok(false));
    assert_eq!(place.promote(&["a"]).await, Promotion::default());
    assert_eq!(place.bodies().await.len(), 1);
}

pub(super) async fn keeps_a_delayed_message_as_it_is(store: &Store) {
    let place = Place::new(store).await;
    let odd = fields([
        (b"z", b"last letter first"),
        (b"twice", b"1"),
        (b"twice", b""),
        (b"\xff\xfe", b"\x00\xc3\x28\r\n"),
        (b"", b"nameless"),
    ]);
    let most: Fields = (0..SCRIPT_FIELDS)
        .map(|number| (number.to_string().into_bytes(), b"x".to_vec()))
        .collect();
    for (id, fields) in [("odd {x}", &odd), ("most", &most)] {
        let now = later(id, NOW);
        let kept = store.publish_later(place.stream, fields, &now).await;
        assert_eq!(kept, Ok(Some(Duration::ZERO)));
        let (total, page) = store.delayed(place.stream, None, 10).await.unwrap();
        assert_eq!((total, &page[0].fields), (1, fields));
        assert_eq!(place.promote(&[id]).await.added, 1);
    }
    assert_eq!(place.bodies().await, [odd, most]);
}

pub(super) async fn leaves_what_is_not_due(store: &Store) {
    let place = Place::new(store).await;
    let soon = HORIZON / 2;
    let left = place.delay(1, &later("soon", Due::In(soon))).await;
    assert!(left.unwrap() <= soon && left.unwrap() > soon / 2);
    let at = SystemTime::now() + HOUR;
    let left = place.delay(2, &later("late", Due::At(at))).await.unwrap();
    assert!(left <= HOUR + soon && left > HOUR - soon, "{left:?}");
    let left = place
        .delay(3, &later("never", Due::In(Duration::MAX)))
        .await;
    assert!(left.unwrap() > HOUR * 24 * 365 * 1000);
    let long_ago = Due::At(SystemTime::UNIX_EPOCH);
    assert_eq!(
        place.delay(4, &later("past", long_ago)).await,
        Some(Duration::ZERO)
    );

    let all = ["soon", "late", "never", "past"];
    let promotion = place.promote(&all).await;
    assert_eq!((promotion.added, promotion.upcoming.len()), (1, 1));
    assert_eq!(promotion.upcoming[0].0, "soon");
    assert!(promotion.upcoming[0].1 <= soon);
    assert_eq!(place.bodies().await, [body(4)]);
    assert_eq!(place.waiting(None, 10).await, ["soon", "late", "never"]);
}

pub(super) async fn names_what_is_due_next(store: &Store) {
    let place = Place::new(store).await;
    for number in 0..UPCOMING + 1 {
        let due = Due::At(SystemTime::UNIX_EPOCH + Duration::from_millis(number as u64));
        place.delay(number, &later(&format!("{number}"), due)).await;
    }
    let promotion = place.promote(&[]).await;
    let names: Vec<_> = promotion.upcoming.iter().map(|(id, _)| &**id).collect();
    let expected: Vec<_> = (0..UPCOMING).map(|number| number.to_string()).collect();
    assert_eq!(names, expected);
    let promotion = place.promote(&names).await;
    assert_eq!(promotion.added, UPCOMING as u64);
    assert_eq!(promotion.upcoming, [(UPCOMING.to_string(), Duration::ZERO)]);
    let bodies: Vec<_> = (0..UPCOMING).map(body).collect();
    assert_eq!(place.bodies().await, bodies);
}

pub(super) async fn delays_once_under_an_id(store: &Store) {
    let place = Place::new(store).await;
    place.delay(1, &known("a", NOW)).await;
    // Neither its body nor its time is replaced.
    let again = place.delay(2, &known("a", Due::In(HOUR))).await;
    assert_eq!(again, Some(Duration::ZERO));
    assert_eq!(place.promote(&["a"]).await.added, 1);
    assert_eq!(place.delay(3, &known("a", NOW)).await, None);
    let id = place.publish_once(4, "a").await;
    assert_eq!(place.promote(&["a"]).await.added, 0);
    assert_eq!(place.read("c", 10).await, [id]);
    assert_eq!(place.bodies().await, [body(1)]);

    // One that nobody remembers can come again.
    place.delay(5, &later("b", NOW)).await;
    assert_eq!(place.promote(&["b"]).await.added, 1);
    assert!(place.delay(6, &later("b", NOW)).await.is_some());
}

pub(super) async fn adds_nothing_that_was_published_meanwhile(store: &Store) {
    let place = Place::new(store).await;
    place.delay(1, &known("a", NOW)).await;
    place.publish_once(2, "a").await;
    assert_eq!(place.promote(&["a"]).await.added, 0);
    assert_eq!(store.has_delayed(place.stream).await, Ok(false));
    assert_eq!(place.bodies().await, [body(2)]);
}

pub(super) async fn cancels_what_waits(store: &Store) {
    let place = Place::new(store).await;
    let cancel = async |id| store.cancel_delayed(place.stream, id).await.unwrap();
    assert!(!cancel("a").await);
    place.delay(1, &known("a", NOW)).await;
    place.delay(2, &known("b", NOW)).await;
    assert!(cancel("a").await);
    assert!(!cancel("a").await);
    assert_eq!(place.promote(&["a", "b"]).await.added, 1);
    assert!(!cancel("b").await, "it is on the stream");
    assert!(place.delay(3, &known("a", NOW)).await.is_some());
    assert_eq!(place.promote(&["a"]).await.added, 1);
    assert_eq!(place.bodies().await, [body(2), body(3)]);
}

pub(super) async fn pages_through_what_waits(store: &Store) {
    let place = Place::new(store).await;
    assert_eq!(store.delayed(place.stream, None, 10).await, Ok((0, vec![])));
    let hour = SystemTime::now() + HOUR;
    // To the millisecond, as servers keep it.
    let since = hour.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let hour = SystemTime::UNIX_EPOCH + Duration::from_millis(since.as_millis() as u64);
    for (number, (id, due)) in [
        ("later", hour + HOUR),
        ("b", hour),
        ("a", hour),
        ("c", hour),
        ("sooner", hour - HOUR / 2),
    ]
    .into_iter()
    .enumerate()
    {
        place.delay(number, &later(id, Due::At(due))).await;
    }
    let (total, page) = store.delayed(place.stream, None, 2).await.unwrap();
    assert_eq!(total, 5);
    assert_eq!((&*page[1].id, page[1].due), ("a", hour));
    assert_eq!((&*page[0].id, &page[0].fields), ("sooner", &body(4)));
    assert_eq!(place.waiting(Some((hour, "a")), 2).await, ["b", "c"]);
    assert_eq!(place.waiting(Some((hour, "c")), 2).await, ["later"]);
    let last = Some((hour + HOUR, "later"));
    assert!(place.waiting(last, 2).await.is_empty());
    // The page goes on where one that waits no more was.
    assert!(store.cancel_delayed(place.stream, "b").await.unwrap());
    let rest = place.waiting(Some((hour, "b")), 10).await;
    assert!(
        rest.ends_with(&["c".to_owned(), "later".to_owned()]),
        "{rest:?}"
    );
}

pub(super) async fn trims_when_it_adds_a_delayed_message(store: &Store) {
    let place = Place::new(store).await;
    place.publish(3).await;
    let exact = Later {
        trim: Some(Trim::MaxLenExact(2)),
        ..later("exact", NOW)
    };
    place.delay(7, &exact).await;
    assert_eq!(place.bodies().await.len(), 3);
    place.promote(&["exact"]).await;
    assert_eq!(place.bodies().await, [body(2), body(7)]);
    // By the time when it is added: nothing is so old.
    let young = Later {
        trim: Some(Trim::MaxAge(HOUR)),
        ..later("young", NOW)
    };
    place.delay(8, &young).await;
    assert_eq!(place.promote(&["young"]).await.added, 1);
    assert_eq!(place.bodies().await, [body(2), body(7), body(8)]);
}

pub(super) async fn adds_once_what_many_promote(store: &Store) {
    let place = Place::new(store).await;
    let ids: Vec<_> = (0..50).map(|number| format!("{number}")).collect();
    for (number, id) in ids.iter().enumerate() {
        place.delay(number, &later(id, NOW)).await;
    }
    let many: Vec<_> = (0..20)
        .map(|_| {
            let (store, stream, ids) = (store.clone(), place.stream, ids.clone());
            tokio::spawn(async move { store.promote(stream, &ids).await.unwrap().added })
        })
        .collect();
    let mut added = 0;
    for one in many {
        added += one.await.unwrap();
    }
    assert_eq!(added, 50);
    assert_eq!(place.bodies().await.len(), 50);
}

pub(super) async fn wakes_for_delayed_messages(store: &Store) {
    let place = Place::new(store).await;
    let reader = place.reader("c").await;
    let read = tokio::spawn(reader.read(1, Some(LONG)));
    place.delay(1, &later("a", NOW)).await;
    assert_eq!(place.promote(&["a"]).await.added, 1);
    let entries = tokio::time::timeout(SOON, read).await.unwrap();
    assert_eq!(entries.unwrap().unwrap()[0].fields, body(1));
}

pub(super) async fn keeps_the_delayed_of_streams_apart(store: &Store) {
    let (one, other) = (Place::new(store).await, fresh_name());
    one.delay(1, &known("a", NOW)).await;
    assert_eq!(store.has_delayed(other).await, Ok(false));
    assert_eq!(store.cancel_delayed(other, "a").await, Ok(false));
    let other = Place {
        store,
        stream: other,
    };
    other.delay(2, &known("a", NOW)).await;
    assert_eq!(other.promote(&["a"]).await.added, 1);
    assert_eq!(one.bodies().await.len(), 0);
    assert_eq!(one.promote(&["a"]).await.added, 1);
}
