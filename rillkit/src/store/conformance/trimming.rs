//! What goes from the old end of a stream.

use std::time::{Duration, Instant};

use super::{GROUP, HOUR, Place, SOON, body, fresh_name, ids};
use crate::entry_id::EntryId;
use crate::store::{Consumer, Spared, Start, Store, TrimStep};
use crate::trim::Trim;

/// Adds one entry and trims, then says what is left.
async fn publish_and_trim(place: &Place<'_>, trim: Trim) -> Vec<EntryId> {
    let answers = place
        .store
        .publish(place.stream, &[body(0)], Some(trim))
        .await
        .unwrap();
    let id = *answers[0].as_ref().unwrap();
    let left = ids(&place.all(place.stream).await);
    assert_eq!(left.last(), Some(&id));
    left
}

pub(super) async fn trims_to_a_length(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(500).await;
    let left = publish_and_trim(&place, Trim::MaxLen(120)).await;
    // Nodes have a hundred entries.
    assert!((120..=220).contains(&left.len()), "{}", left.len());
    assert_eq!(left[left.len() - 120], published[381]);
    let left = publish_and_trim(&place, Trim::MaxLenExact(10)).await;
    assert_eq!(left.len(), 10);
    assert_eq!(left[..8], published[492..]);
    assert_eq!(
        publish_and_trim(&place, Trim::MaxLen(u64::MAX)).await.len(),
        11
    );
}

pub(super) async fn trims_each_of_many(store: &Store) {
    let place = Place::new(store).await;
    let bodies: Vec<_> = (0..20).map(body).collect();
    let trim = Some(Trim::MaxLenExact(7));
    let answers = store.publish(place.stream, &bodies, trim).await.unwrap();
    let published: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(ids(&place.all(place.stream).await), published[13..]);
}

pub(super) async fn trims_below_an_id(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(500).await;
    let left = publish_and_trim(&place, Trim::MinId(published[0])).await;
    assert_eq!(left.len(), 501);
    let left = publish_and_trim(&place, Trim::MinId(published[250])).await;
    assert!((252..=352).contains(&left.len()), "{}", left.len());
    assert_eq!(left[left.len() - 252], published[250]);
}

pub(super) async fn trims_by_age(store: &Store) {
    let place = Place::new(store).await;
    let published = place.publish(500).await;
    let left = publish_and_trim(&place, Trim::MaxAge(HOUR)).await;
    assert_eq!(left.len(), 501);
    let left = publish_and_trim(&place, Trim::MaxAge(Duration::MAX)).await;
    assert_eq!(left.len(), 502);
    // The server's time may be known from a moment ago.
    let began = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let left = publish_and_trim(&place, Trim::MaxAge(Duration::from_millis(1))).await;
        if !left.contains(&published[0]) && !left.contains(&published[399]) {
            return;
        }
        assert!(began.elapsed() < SOON, "{} are left", left.len());
    }
}

async fn trim(place: &Place<'_>, spared: &Spared) -> TrimStep {
    let mut removed = 0;
    loop {
        let step = place.store.trim(place.stream, spared, 200).await.unwrap();
        assert!(step.removed <= 200, "{step:?}");
        removed += step.removed;
        if step.removed == 0 {
            return TrimStep { removed, ..step };
        }
    }
}

async fn left(place: &Place<'_>) -> Vec<EntryId> {
    ids(&place.all(place.stream).await)
}

pub(super) async fn trims_what_every_group_has_acked(store: &Store) {
    let place = Place::new(store).await;
    let other = Start::After(EntryId::MIN);
    store
        .ensure_group(place.stream, "others", other)
        .await
        .unwrap();
    let published = place.publish(1000).await;
    // `workers` has handled 700 but for one, `others` has read 350 and acked 300.
    place.read("c", 700).await;
    let mut done = published[..700].to_vec();
    done.remove(520);
    store.ack(&place.consumer("c"), &done).await.unwrap();
    let reads = Consumer {
        group: "others",
        ..place.consumer("d")
    };
    let reader = store.reader(&reads).await.unwrap();
    assert_eq!(reader.read(350, None).await.unwrap().len(), 350);
    store.ack(&reads, &published[..300]).await.unwrap();
    let step = trim(&place, &Spared::default()).await;
    assert_eq!((step.removed, step.left), (300, 700));
    assert_eq!(step.floor, Some(published[300]));
    assert_eq!(left(&place).await, published[300..]);
    let standings: Vec<_> = step
        .groups
        .iter()
        .map(|one| {
            (
                &*one.group,
                one.last,
                one.pending,
                one.lowest,
                one.has_unread,
            )
        })
        .collect();
    let expected = [
        ("others", published[349], 50, Some(published[300]), true),
        (GROUP, published[699], 1, Some(published[520]), true),
    ];
    assert_eq!(standings, expected);
    store.ack(&reads, &published[300..350]).await.unwrap();
    // What it has not read is safe as well.
    assert_eq!(trim(&place, &Spared::default()).await.removed, 50);
    assert_eq!(left(&place).await, published[350..]);
    assert_eq!(reader.read(1000, None).await.unwrap().len(), 650);
    store.ack(&reads, &published).await.unwrap();
    assert_eq!(trim(&place, &Spared::default()).await.removed, 170);
    assert_eq!(left(&place).await, published[520..]);
    store.ack(&place.consumer("c"), &published).await.unwrap();
    place.read("c", 1000).await;
    store.ack(&place.consumer("c"), &published).await.unwrap();
    let step = trim(&place, &Spared::default()).await;
    assert_eq!((step.removed, step.left), (480, 0));
    assert!(
        step.groups
            .iter()
            .all(|one| !one.has_unread && one.pending == 0)
    );
}

/// The whole of this has been handled by the group.
async fn handled(store: &Store, count: usize) -> (Place<'_>, Vec<EntryId>) {
    let place = Place::new(store).await;
    let published = place.publish(count).await;
    place.read("c", count).await;
    store.ack(&place.consumer("c"), &published).await.unwrap();
    (place, published)
}

pub(super) async fn keeps_what_is_to_be_kept(store: &Store) {
    let (place, published) = handled(store, 450).await;
    for keep in [450, 449, 333, 300, 7] {
        let spared = Spared {
            newest: keep as u64,
            ..Spared::default()
        };
        trim(&place, &spared).await;
        assert_eq!(left(&place).await, published[450 - keep..]);
    }
    let spared = Spared {
        younger_than: Some(HOUR),
        ..Spared::default()
    };
    assert_eq!(trim(&place, &spared).await.removed, 0);
    let spared = Spared {
        younger_than: Some(Duration::MAX),
        ..Spared::default()
    };
    assert_eq!(trim(&place, &spared).await.removed, 0);
    let spared = Spared {
        younger_than: Some(Duration::ZERO),
        ..Spared::default()
    };
    // Some may have been added this very millisecond.
    let mut removed = 0;
    while removed < 7 {
        removed += trim(&place, &spared).await.removed;
    }
    assert_eq!(left(&place).await, []);
}

pub(super) async fn only_looks_when_nothing_may_be_removed(store: &Store) {
    let (place, published) = handled(store, 30).await;
    let look = store
        .trim(place.stream, &Spared::default(), 0)
        .await
        .unwrap();
    assert_eq!((look.removed, look.left), (0, 30));
    assert_eq!(look.floor, Some(published[29].after()));
    assert_eq!(left(&place).await, published);
    let count = async |from, to, most| store.count(place.stream, from, to, most).await.unwrap();
    assert_eq!(
        count(EntryId::MIN, published[9], 100).await,
        (10, Some(published[9]))
    );
    assert_eq!(
        count(published[5], EntryId::MAX, 4).await,
        (4, Some(published[8]))
    );
    assert_eq!(
        count(published[29].after(), EntryId::MAX, 4).await,
        (0, None)
    );
}

pub(super) async fn trims_nothing_without_a_group_that_counts(store: &Store) {
    let nowhere = Place {
        store,
        stream: fresh_name(),
    };
    assert_eq!(
        trim(&nowhere, &Spared::default()).await,
        TrimStep::default()
    );
    let published = nowhere.publish(50).await;
    let step = trim(&nowhere, &Spared::default()).await;
    assert_eq!((step.removed, step.left, step.floor), (0, 50, None));
    let told = Spared {
        unless_grouped: true,
        newest: 20,
        ignored_groups: vec!["dead".to_owned()],
        ..Spared::default()
    };
    // A group that does not count, and then one that does.
    let start = Start::After(EntryId::MIN);
    store
        .ensure_group(nowhere.stream, "dead", start)
        .await
        .unwrap();
    assert_eq!(trim(&nowhere, &told).await.removed, 30);
    assert_eq!(left(&nowhere).await, published[30..]);
    let start = Start::After(published[34]);
    store
        .ensure_group(nowhere.stream, GROUP, start)
        .await
        .unwrap();
    let told = Spared { newest: 0, ..told };
    assert_eq!(trim(&nowhere, &told).await.removed, 5);
    assert_eq!(trim(&nowhere, &Spared::default()).await.groups.len(), 2);
}

pub(super) async fn trims_behind_a_group_that_began_with_new_entries(store: &Store) {
    let place = Place {
        store,
        stream: fresh_name(),
    };
    place.publish(120).await;
    store
        .ensure_group(place.stream, GROUP, Start::New)
        .await
        .unwrap();
    let published = place.publish(3).await;
    assert_eq!(trim(&place, &Spared::default()).await.removed, 120);
    assert_eq!(left(&place).await, published);
}
