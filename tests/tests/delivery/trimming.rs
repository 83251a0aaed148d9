//! What a publish trims.

use std::time::Duration;

use rillkit::{EntryId, ErrorKind, Stream};

use crate::place::Place;

const LAST_FIVE: Stream<str> = Stream::new("jobs").maxlen_exact(5);
const RECENT: Stream<str> = Stream::new("jobs").max_age(Duration::from_secs(3600));

#[tokio::test]
async fn a_constant_trims_with_whatever_publishes_to_it() {
    let place = Place::redis();
    let broker = &place.broker;
    for _ in 0..7 {
        broker
            .publish(LAST_FIVE, "a body")
            .await
            .expect("published");
    }
    assert_eq!(place.length("jobs"), 5);
    let ids = broker
        .publish_all(LAST_FIVE, ["a body"; 8])
        .await
        .expect("published");
    let kept = place.ask(&["XRANGE", "jobs", "-", "+"]).list();
    let kept: Vec<_> = kept.iter().map(|entry| entry[0].text()).collect();
    let newest: Vec<_> = ids[3..].iter().map(EntryId::to_string).collect();
    assert_eq!(kept, newest);
    let fields = [("data", "\"a body\"")];
    broker
        .publish_fields(LAST_FIVE, fields)
        .await
        .expect("published");
    assert_eq!(place.length("jobs"), 5);
}

#[tokio::test]
async fn a_publish_goes_over_its_constant() {
    let place = Place::redis();
    let broker = &place.broker;
    let mut last = broker.publish("jobs", "a body").await.expect("published");
    for _ in 0..9 {
        last = broker.publish("jobs", "a body").await.expect("published");
    }
    // Approximate: no whole node can go.
    for publish in [
        broker.publish(LAST_FIVE, "a body").maxlen(2),
        broker.publish(LAST_FIVE, "a body").minid(last),
        broker.publish(RECENT, "a body"),
        broker
            .publish("jobs", "a body")
            .maxlen_exact(1)
            .max_age(Duration::from_secs(60)),
    ] {
        publish.await.expect("published");
    }
    assert_eq!(place.length("jobs"), 14);
    let exactly = broker
        .publish(RECENT, "a body")
        .header("a", "b")
        .maxlen_exact(3);
    exactly.await.expect("published");
    assert_eq!(place.length("jobs"), 3);
}

#[tokio::test]
async fn a_length_of_nothing_is_refused() {
    let place = Place::redis();
    let publish = place.broker.publish("jobs", "a body").maxlen(0);
    let error = publish.await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().contains("write 1 or more"), "{error}");
    assert_eq!(place.length("jobs"), 0);
}
