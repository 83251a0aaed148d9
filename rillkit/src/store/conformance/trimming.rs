//! What goes from the old end of a stream.

use std::time::{Duration, Instant};

use super::{HOUR, Place, SOON, body, ids};
use crate::entry_id::EntryId;
use crate::store::Store;
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
