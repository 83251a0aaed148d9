//! Letters that a function works off where they are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rillkit::dlq::{Filter, Letter};
use rillkit_tests::Job;

use crate::place::{Place, on_both_stores};

on_both_stores![
    a_function_that_is_dropped_leaves_its_letter,
    a_panic_is_one_letters_own,
    as_many_letters_at_once_as_allowed,
    what_is_done_is_deleted_and_the_rest_is_as_it_was,
    what_somebody_else_took_is_gone,
];

async fn what_is_done_is_deleted_and_the_rest_is_as_it_was(place: Place) {
    let error = [
        ("x-error", "bad input"),
        ("x-group", "workers"),
        ("rk-replays", "2"),
    ];
    let ids = place.add_letters("job", 120, &error).await;
    place
        .add_letters("other", 1, &[("x-reason", "decode")])
        .await;
    let dlq = place.dlq();
    let before = dlq.list().count(200).await.expect("a page").letters;
    let told = Arc::new(Mutex::new(Vec::new()));
    let (listener, seen) = (Arc::clone(&told), Arc::new(Mutex::new(Vec::new())));
    let runs = Arc::clone(&seen);
    let odd_ones_fail = move |letter: Letter| {
        let runs = Arc::clone(&runs);
        async move {
            let job: Job = letter.body().map_err(|error| error.to_string())?;
            runs.lock().expect("a lock").push(letter.id());
            let number: u64 = job.name[3..].parse().expect("a number");
            if number.is_multiple_of(2) {
                Ok(())
            } else {
                Err(format!("{number} is odd"))
            }
        }
    };
    let group = Filter::new().group("workers");
    let reprocess = dlq.reprocess(odd_ones_fail).matching(group.clone());
    let report = reprocess
        .on_progress(move |report| {
            listener
                .lock()
                .expect("a lock")
                .push(report.done + report.failed)
        })
        .await
        .expect("reprocessed");
    assert_eq!((report.done, report.failed, report.gone), (60, 60, 0));
    assert_eq!(report.last, Some(ids[119]));
    assert_eq!(report.errors.len(), 60);
    assert_eq!(report.errors[1], (ids[3], "3 is odd".to_owned()));
    // One after the other, oldest first.
    assert_eq!(*seen.lock().expect("a lock"), ids);
    assert_eq!(*told.lock().expect("a lock"), (1..=120).collect::<Vec<_>>());
    let left = dlq.list().count(200).await.expect("a page").letters;
    let is_left = |letter: &Letter| {
        ids.iter()
            .position(|id| *id == letter.id())
            .is_none_or(|place| place % 2 == 1)
    };
    let expected: Vec<_> = before.into_iter().filter(is_left).collect();
    assert_eq!(left, expected);

    let fine = |_letter: Letter| async { Ok::<(), String>(()) };
    let behind = dlq
        .reprocess(fine)
        .matching(group)
        .after(ids[100])
        .count(3)
        .await;
    let behind = behind.expect("reprocessed");
    assert_eq!((behind.done, behind.last), (3, Some(ids[105])));
    assert_eq!(dlq.len().await, Ok(58));
}

async fn a_panic_is_one_letters_own(place: Place) {
    let ids = place.add_letters("job", 4, &[]).await;
    let panics = [ids[1], ids[2]];
    let function = move |letter: Letter| {
        // Before there is a future, and in it.
        assert_ne!(letter.id(), panics[0], "oh no");
        async move {
            if letter.id() == panics[1] {
                panic!("oh dear");
            }
            Ok::<(), String>(())
        }
    };
    let report = place.dlq().reprocess(function).await.expect("reprocessed");
    assert_eq!((report.done, report.failed), (2, 2));
    assert!(report.errors[0].1.starts_with("panicked: ") && report.errors[0].1.contains("oh no"));
    assert_eq!(report.errors[1], (ids[2], "panicked: oh dear".to_owned()));
    assert_eq!(place.dlq().len().await, Ok(2));
}

async fn as_many_letters_at_once_as_allowed(place: Place) {
    place.add_letters("job", 12, &[]).await;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let peak = Arc::clone(&most);
    let function = move |_letter: Letter| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(50)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok::<(), String>(())
        }
    };
    let report = place
        .dlq()
        .reprocess(function)
        .concurrency(3)
        .await
        .expect("reprocessed");
    assert_eq!(report.done, 12);
    assert_eq!(peak.load(Ordering::SeqCst), 3);
    assert_eq!(place.dlq().len().await, Ok(0));
}

async fn what_somebody_else_took_is_gone(place: Place) {
    let ids = place.add_letters("job", 1, &[]).await;
    let other = place.dlq();
    let purges = move |letter: Letter| {
        let other = other.clone();
        async move { other.purge().ids([letter.id()]).await.map(|_| ()) }
    };
    let report = place.dlq().reprocess(purges).await.expect("reprocessed");
    assert_eq!(
        (report.done, report.gone, report.last),
        (0, 1, Some(ids[0]))
    );
}

async fn a_function_that_is_dropped_leaves_its_letter(place: Place) {
    place.add_letters("job", 3, &[]).await;
    let (began, begins) = tokio::sync::mpsc::unbounded_channel();
    let function = move |_letter: Letter| {
        let began = began.clone();
        async move {
            began.send(()).expect("somebody waits");
            std::future::pending::<Result<(), String>>().await
        }
    };
    let mut begins = begins;
    tokio::select! {
        _ = async { place.dlq().reprocess(function).await } => panic!("it never ends"),
        _ = begins.recv() => {}
    }
    assert_eq!(place.dlq().len().await, Ok(3));
}
