//! Letters that are deleted, and those that are not.

use rillkit::ErrorKind;
use rillkit::dlq::Filter;

use crate::place::{Place, on_both_stores};

on_both_stores![
    a_purge_deletes_what_is_meant_and_nothing_else,
    a_purge_of_everything_has_to_be_said,
];

async fn a_purge_deletes_what_is_meant_and_nothing_else(place: Place) {
    let slow = place
        .add_letters("slow", 150, &[("x-reason", "timeout")])
        .await;
    let bad = place.add_letters("bad", 2, &[("x-reason", "error")]).await;
    let other = [
        ("data", "1"),
        ("x-stream", "another"),
        ("x-reason", "timeout"),
    ];
    place
        .broker
        .publish_fields("jobs-dlq", other)
        .await
        .expect("added");
    let dlq = place.dlq();
    let timeouts = Filter::new().reason("timeout");

    let would_be = dlq
        .purge()
        .matching(timeouts.clone())
        .dry_run()
        .await
        .expect("a report");
    assert_eq!((would_be.deleted, would_be.last), (150, Some(slow[149])));
    assert_eq!(dlq.len().await, Ok(153));
    let some = dlq
        .purge()
        .matching(timeouts.clone())
        .count(120)
        .await
        .expect("purged");
    assert_eq!((some.deleted, some.last), (120, Some(slow[119])));
    let rest = dlq.purge().matching(timeouts).await.expect("purged");
    assert_eq!(rest.deleted, 30);
    assert_eq!(
        dlq.purge()
            .ids([slow[0], bad[0]])
            .await
            .expect("purged")
            .deleted,
        1
    );
    assert_eq!(dlq.list().await.expect("a page").letters[0].id(), bad[1]);
    assert_eq!(dlq.len().await, Ok(2));
    assert_eq!(dlq.purge().all().await.expect("purged").deleted, 1);
    // The other stream's letter.
    assert_eq!(dlq.len().await, Ok(1));
}

async fn a_purge_of_everything_has_to_be_said(place: Place) {
    place.add_letters("job", 1, &[]).await;
    let dlq = place.dlq();
    let refused = dlq.purge().await.expect_err("nothing is said");
    assert_eq!(refused.error().kind(), ErrorKind::Input);
    assert!(refused.to_string().contains("`.all()`"), "{refused}");
    assert_eq!(dlq.len().await, Ok(1));
}
