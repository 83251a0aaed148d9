//! Replays of chosen letters: what is moved, what is put aside, what is left, and when it stops.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rillkit::dlq::{Filter, Letter, Stopped};
use rillkit::{EntryId, ErrorKind, HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::{Proxy, Server};
use rillkit_tests::Job;
use tokio::time::Instant;

use crate::place::{Journal, Place, act, on_both_stores, until};
use crate::process::Process;

#[subscribe(stream = "jobs", group = "workers", max_retries = 0, concurrency = 8)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

on_both_stores![
    a_replay_goes_on_when_only_a_few_fail_again,
    a_replay_keeps_its_rate,
    a_replay_moves_what_is_meant,
    a_replay_stops_when_its_messages_fail_again,
    a_replay_stops_when_nothing_ends,
    letters_that_were_replayed_too_often_are_put_aside,
];

async fn a_replay_moves_what_is_meant(place: Place) {
    let slow = place
        .add_letters("slow", 3, &[("x-reason", "timeout")])
        .await;
    let bad = place
        .add_letters("bad", 120, &[("x-reason", "error")])
        .await;
    let dlq = place.dlq();
    let errors = Filter::new().reason("error");

    let would_be = dlq
        .replay()
        .matching(errors.clone())
        .dry_run()
        .await
        .expect("a report");
    assert_eq!((would_be.moved, would_be.last), (120, Some(bad[119])));
    assert_eq!(dlq.len().await, Ok(123));
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&told);
    let replay = dlq.replay().matching(errors.clone()).count(2);
    let listens = move |report: &rillkit::dlq::ReplayReport| {
        listener
            .lock()
            .expect("a lock")
            .push((report.moved, report.last));
    };
    let some = replay.on_progress(listens).await.expect("replayed");
    assert_eq!((some.moved, some.skipped, some.stopped), (2, 0, None));
    assert_eq!(
        *told.lock().expect("a lock"),
        [(1, Some(bad[0])), (2, Some(bad[1]))]
    );
    let last = some.last.expect("the last");
    assert_eq!(last, bad[1]);
    let behind = dlq
        .replay()
        .matching(errors)
        .after(bad[9])
        .await
        .expect("replayed");
    assert_eq!(behind.moved, 110);
    // Without a filter up to a hundred, and single ones by their ids.
    let ids = [slow[1], bad[0], EntryId { ms: 1, seq: 0 }];
    assert_eq!(dlq.replay().ids(ids).await.expect("replayed").moved, 1);
    let left: Vec<_> = dlq
        .list()
        .await
        .expect("a page")
        .letters
        .iter()
        .map(Letter::id)
        .collect();
    assert_eq!(left, [&[slow[0], slow[2]], &bad[2..10]].concat());
    assert_eq!(dlq.replay().await.expect("replayed").moved, 10);
    assert_eq!(dlq.len().await, Ok(0));

    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    running.drained().await.expect("drained");
    running.stop().await;
    place.journal.assert_once_each("bad", 120);
    place.journal.assert_once_each("slow", 0);
    assert_eq!(place.journal.all().len(), 123);
}

async fn a_replay_keeps_its_rate(place: Place) {
    place.add_letters("job", 21, &[]).await;
    let began = Instant::now();
    let report = place.dlq().replay().rate(50.0).await.expect("replayed");
    assert_eq!(report.moved, 21);
    // The first goes at once.
    assert!(
        began.elapsed() >= Duration::from_millis(400),
        "{:?}",
        began.elapsed()
    );
    let refused = place.dlq().replay().rate(0.0).await.expect_err("no rate");
    assert_eq!(refused.error().kind(), ErrorKind::Input);
}

async fn letters_that_were_replayed_too_often_are_put_aside(place: Place) {
    place.add_letters("new", 1, &[]).await;
    place.add_letters("once", 1, &[("rk-replays", "1")]).await;
    let error = [
        ("rk-replays", "2"),
        ("x-error", "still bad"),
        ("x-group", "workers"),
    ];
    let often = place.add_letters("often", 2, &error).await;
    let dlq = place.dlq();
    let before = dlq
        .get(often[0])
        .await
        .expect("an answer")
        .expect("a letter");

    let would_be = dlq
        .replay()
        .at_most_replays(2)
        .dry_run()
        .await
        .expect("a report");
    assert_eq!((would_be.moved, would_be.parked), (2, 2));
    assert_eq!((dlq.len().await, dlq.parked().len().await), (Ok(4), Ok(0)));
    let report = dlq.replay().at_most_replays(2).await.expect("replayed");
    assert_eq!((report.moved, report.parked, report.skipped), (2, 2, 0));
    assert_eq!((dlq.len().await, dlq.parked().len().await), (Ok(0), Ok(2)));
    let aside = &dlq.parked().list().await.expect("a page").letters[0];
    assert_eq!(aside.fields(), before.fields());

    let refused = dlq
        .parked()
        .replay()
        .at_most_replays(9)
        .await
        .expect_err("aside already");
    assert_eq!(refused.error().kind(), ErrorKind::Input);
    assert_eq!(dlq.parked().replay().await.expect("replayed").moved, 2);
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    running.drained().await.expect("drained");
    running.stop().await;
    for name in ["new0", "once0", "often0", "often1"] {
        assert_eq!(place.journal.deliveries(name), [1], "{name}");
    }
}

async fn a_replay_stops_when_its_messages_fail_again(place: Place) {
    let broker = place.worker(handlers![handle]);
    let running = broker.start().await.expect("started");
    place.publish_many("jobs", "job", 400, "err").await;
    running.drained().await.expect("drained");
    let dlq = broker.dlq("jobs");
    assert_eq!(dlq.len().await, Ok(400));

    let replay = dlq.replay().all().stop_when_failing(0.2);
    let report = replay.await.expect("replayed");
    assert_eq!(report.stopped, Some(Stopped::Failing));
    assert!((10..=200).contains(&report.moved), "{report:?}");
    assert!(
        report.failed_again >= 10 && report.failed_again == report.ended,
        "{report:?}"
    );
    running.drained().await.expect("drained");
    assert_eq!(dlq.len().await, Ok(400));
    let again = dlq.stats().await.expect("statistics").replayed;
    assert_eq!(again, report.moved);
    running.stop().await;
}

/// One in eleven fails again, as it did before.
async fn a_replay_goes_on_when_only_a_few_fail_again(place: Place) {
    let good = [("x-group", "workers")];
    place.add_letters("good", 300, &good).await;
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    place.publish_many("jobs", "bad", 30, "err").await;
    running.drained().await.expect("drained");
    let dlq = place.dlq();
    let replay = dlq.replay().all().stop_when_failing(0.2);
    let report = replay.await.expect("replayed");
    assert_eq!((report.moved, report.stopped), (330, None));
    running.drained().await.expect("drained");
    assert_eq!(dlq.len().await, Ok(30));
    running.stop().await;

    let replay = dlq.replay().stop_when_failing(20.0);
    let refused = replay.await.expect_err("no share");
    assert_eq!(refused.error().kind(), ErrorKind::Input);
}

async fn a_replay_stops_when_nothing_ends(place: Place) {
    place
        .add_letters("job", 150, &[("x-group", "workers")])
        .await;
    let dlq = place.dlq();
    let replay = dlq.replay().all().stop_when_failing(0.2);
    let report = replay
        .patience(Duration::from_millis(300))
        .await
        .expect("replayed");
    assert_eq!(report.stopped, Some(Stopped::NothingEnds));
    assert_eq!((report.moved, report.ended), (100, 0));
    assert_eq!(dlq.len().await, Ok(50));
}

/// Whatever of the tools only looks changes nothing on the server, not even the stream's last id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looks_and_dry_runs_change_nothing() {
    let place = Place::redis();
    place
        .add_letters("job", 150, &[("rk-replays", "3"), ("x-group", "workers")])
        .await;
    place.ask(&["XGROUP", "CREATE", "jobs", "workers", "0", "MKSTREAM"]);
    let keys = || {
        let mut keys = place
            .ask(&["KEYS", "*"])
            .list()
            .iter()
            .map(|key| key.text())
            .collect::<Vec<_>>();
        keys.sort();
        let dump = |key: &String| (key.clone(), place.ask(&["DUMP", key]).bytes());
        keys.iter().map(dump).collect::<Vec<_>>()
    };
    let before = keys();
    let dlq = place.dlq();
    assert_eq!(
        dlq.replay().all().dry_run().await.expect("a report").moved,
        150
    );
    let capped = dlq
        .replay()
        .all()
        .at_most_replays(1)
        .stop_when_failing(0.1)
        .rate(1.0);
    assert_eq!(capped.dry_run().await.expect("a report").parked, 150);
    assert_eq!(
        dlq.purge().all().dry_run().await.expect("a report").deleted,
        150
    );
    dlq.stats().await.expect("statistics");
    dlq.list().await.expect("a page");
    assert_eq!(keys(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_that_breaks_off_says_how_far_it_was() {
    let server = Server::start();
    let (place, proxy) = (Place::on(&server), Proxy::to(server.port()));
    let ids = place.add_letters("job", 250, &[]).await;
    let broker = place.worker_at(&proxy.url(), []);
    let proxy = Arc::new(proxy);
    let breaks = Arc::clone(&proxy);
    let replay = broker.dlq("jobs").replay().all();
    let broken = replay.on_progress(move |report| {
        if report.moved == 120 {
            breaks.lose_reply_of("EVALSHA");
        }
    });
    let broken = broken.await.expect_err("a reply is lost");
    assert_eq!(broken.error().kind(), ErrorKind::Unknown);
    assert_eq!(broken.report().moved, 120);
    assert_eq!(broken.report().last, Some(ids[119]));
    assert!(
        broken.to_string().contains("after 120 were moved"),
        "{broken}"
    );
    // The one whose reply was lost was moved as well.
    assert_eq!((place.length("jobs"), place.length("jobs-dlq")), (121, 129));

    // Two at once, by the same way and another.
    let one = broker.dlq("jobs").replay().all();
    let two = place.dlq().replay().all();
    let (one, two) = tokio::join!(async { one.await }, async { two.await });
    let (one, two) = (one.expect("replayed"), two.expect("replayed"));
    assert_eq!(one.moved + two.moved, 129);
    assert_eq!((place.length("jobs"), place.length("jobs-dlq")), (250, 0));
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    running.drained().await.expect("drained");
    running.stop().await;
    place.journal.assert_once_each("job", 250);
}

/// Dropped in the middle, as a program is that ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_that_is_dropped_loses_and_doubles_nothing() {
    let place = Place::redis();
    place.add_letters("job", 300, &[]).await;
    for _ in 0..5 {
        let (enough, reached) = tokio::sync::oneshot::channel();
        let mut enough = Some(enough);
        let replay = place.dlq().replay().all().on_progress(move |report| {
            if report.moved == 31 {
                enough
                    .take()
                    .expect("once")
                    .send(())
                    .expect("somebody waits");
            }
        });
        tokio::select! {
            _ = async { replay.await } => panic!("not dropped"),
            _ = reached => {}
        }
    }
    let rest = place.dlq().replay().all().await.expect("replayed").moved;
    assert!((100..=145).contains(&rest), "{rest}");
    assert_eq!((place.length("jobs"), place.length("jobs-dlq")), (300, 0));
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    running.drained().await.expect("drained");
    running.stop().await;
    place.journal.assert_once_each("job", 300);
}

/// Killed again and again, in the middle of a move or between two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_whose_process_is_killed_loses_and_doubles_nothing() {
    let place = Place::redis();
    place.add_letters("job", 600, &[]).await;
    for _ in 0..4 {
        let before = place.length("jobs");
        let mut process = Process::with(&place, "jobs", &[("ACT", "replay_slowly")]);
        until("some are moved", || place.length("jobs") > before + 20).await;
        process.kill();
        // The server may have its last command still before it.
        until("all are in one of the two", || {
            place.length("jobs") + place.length("jobs-dlq") == 600
        })
        .await;
        assert!(place.length("jobs-dlq") > 0);
    }
    place.dlq().replay().all().await.expect("replayed");
    assert_eq!((place.length("jobs"), place.length("jobs-dlq")), (600, 0));
    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    running.drained().await.expect("drained");
    running.stop().await;
    place.journal.assert_once_each("job", 600);
}
