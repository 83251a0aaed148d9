//! Letters that go back as something else, and letters that others wrote.

use rillkit::dlq::Filter;
use rillkit::{
    Broker, EntryId, ErrorKind, HandlerError, Message, State, Stream, handlers, subscribe,
};
use rillkit_servers::{Cluster, Server};
use rillkit_tests::Job;

use crate::place::{Journal, Place, on_both_stores};

const SHARED: Stream<Job> = Stream::new("edited");

#[subscribe(stream = SHARED, group = "failing", max_retries = 0)]
async fn failing(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    let _ends = journal.begin(&format!("failing {} {}", job.name, header(&msg)), &msg);
    job.run(&msg).await
}

#[subscribe(stream = SHARED, group = "fine", max_retries = 0)]
async fn fine(job: Job, msg: Message, journal: State<Journal>) {
    let _ends = journal.begin(&format!("fine {} {}", job.name, header(&msg)), &msg);
}

fn header(msg: &Message) -> String {
    String::from_utf8_lossy(msg.header("origin").unwrap_or_default()).into_owned()
}

on_both_stores![
    a_letter_goes_back_with_another_body,
    a_letter_goes_back_with_other_fields,
    letters_of_other_programs_become_ours,
];

async fn a_letter_goes_back_with_another_body(place: Place) {
    let broker = place.worker(handlers![failing, fine]);
    let running = broker.start().await.expect("started");
    let job = Job::new("job", "err");
    broker
        .publish(SHARED, &job)
        .header("origin", "here")
        .await
        .expect("published");
    running.drained().await.expect("drained");
    let dlq = broker.dlq(SHARED);
    let id = dlq.list().await.expect("a page").letters[0].id();

    let new = dlq
        .edit(id, &Job::new("mended", "ok"))
        .await
        .expect("edited");
    assert!(new.expect("there") > id);
    assert_eq!(dlq.edit(id, &Job::new("again", "ok")).await, Ok(None));
    running.drained().await.expect("drained");
    running.stop().await;
    assert_eq!(place.journal.deliveries("failing job here"), [1]);
    assert_eq!(place.journal.deliveries("failing mended here"), [1]);
    // It failed in the other group.
    assert_eq!(place.journal.runs("fine mended here").len(), 0);
    assert_eq!(dlq.len().await, Ok(0));
}

async fn a_letter_goes_back_with_other_fields(place: Place) {
    let fields = [("data", "1"), ("x-stream", "edited"), ("rk-replays", "1")];
    let add = || place.broker.publish_fields("edited-dlq", fields);
    let (one, two) = (add().await.expect("added"), add().await.expect("added"));
    let other = [("data", "1"), ("x-stream", "another")];
    let other = place
        .broker
        .publish_fields("edited-dlq", other)
        .await
        .expect("added");
    let dlq = place.worker([]).largest_message(100).dlq("edited");

    let moved = dlq
        .edit_fields(one, [("data", "[2]"), ("h-origin", "there")])
        .await;
    let moved = moved.expect("edited").expect("there");
    // The stream's own entries can be looked at as if they were letters.
    let entry = place
        .worker([])
        .dlq("nothing")
        .queue("edited")
        .get(moved)
        .await;
    let entry = entry.expect("an answer").expect("an entry");
    let fields: Vec<_> = entry.fields().iter().collect();
    let expected: [(&[u8], &[u8]); 3] = [
        (b"data", b"[2]"),
        (b"h-origin", b"there"),
        (b"rk-replays", b"2"),
    ];
    assert_eq!(fields, expected);

    let nothing: [(&str, &str); 0] = [];
    let refused = dlq.edit_fields(two, nothing).await.expect_err("no fields");
    assert_eq!(refused.kind(), ErrorKind::Input);
    let refused = dlq
        .edit(two, &"x".repeat(100))
        .await
        .expect_err("too large");
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    assert_eq!(dlq.edit(other, &1).await, Ok(None));
    assert_eq!(dlq.edit(EntryId { ms: 1, seq: 0 }, &1).await, Ok(None));
    assert_eq!(dlq.len().await, Ok(2));
}

async fn letters_of_other_programs_become_ours(place: Place) {
    let theirs = |id: &'static str, stream: &'static str| {
        let fields = [
            ("original_id", id),
            ("original_stream", stream),
            ("error", "bad input"),
            ("attempts", "3"),
            ("colour", "red"),
            ("data", "1"),
        ];
        place.broker.publish_fields("jobs:dlq", fields)
    };
    theirs("17-1", "jobs").await.expect("added");
    theirs("17-2", "another").await.expect("added");
    let none = place.broker.publish_fields("jobs:dlq", [("data", "1")]);
    none.await.expect("added");
    for number in 0..120 {
        let id: &'static str = format!("18-{number}").leak();
        theirs(id, "jobs").await.expect("added");
    }
    let (dlq, foreign) = (place.dlq(), place.dlq().queue("jobs:dlq"));

    let would_be = dlq.import("jobs:dlq").dry_run().await.expect("a report");
    assert_eq!((would_be.imported, would_be.skipped), (121, 2));
    assert_eq!((dlq.len().await, foreign.len().await), (Ok(0), Ok(123)));
    let some = dlq.import("jobs:dlq").count(1).await.expect("imported");
    assert_eq!(some.imported, 1);
    let report = dlq.import("jobs:dlq").await.expect("imported");
    assert_eq!((report.imported, report.skipped), (120, 2));
    assert_eq!((dlq.len().await, foreign.len().await), (Ok(121), Ok(2)));

    let letter = &dlq.list().await.expect("a page").letters[0];
    assert_eq!(letter.original_id(), Some(EntryId { ms: 17, seq: 1 }));
    assert_eq!(
        (letter.stream(), letter.error()),
        (Some("jobs"), Some("bad input"))
    );
    assert_eq!((letter.deliveries(), letter.group()), (Some(3), None));
    let own: Vec<_> = letter.own_fields().collect();
    let expected: [(&[u8], &[u8]); 2] = [(b"colour", b"red"), (b"data", b"1")];
    assert_eq!(own, expected);
    let bad = dlq
        .replay()
        .matching(Filter::new().error_contains("bad"))
        .await;
    assert_eq!(bad.expect("replayed").moved, 121);

    for wrong in ["jobs", "jobs-dlq", ""] {
        let refused = dlq.import(wrong).await.expect_err(wrong);
        assert_eq!(refused.error().kind(), ErrorKind::Input, "{refused}");
    }
}

/// A move goes in one step or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_names_have_to_share_a_slot() {
    let cluster = Cluster::start(3);
    let broker = Broker::connect(&cluster.url())
        .expect("a good URL")
        .with_handlers([]);
    let apart = broker.dlq("jobs");
    for queue in ["jobs-dlq", "{another}-dlq"] {
        let letter = [("data", "1"), ("original_id", "1-1")];
        broker.publish_fields(queue, letter).await.expect("added");
    }
    let id = apart.list().await.expect("a page").letters[0].id();
    let replayed = apart
        .replay()
        .await
        .map_err(|refused| refused.error().clone());
    let imported = apart
        .import("{another}-dlq")
        .await
        .map_err(|refused| refused.error().clone());
    for refused in [
        replayed.map(|_| ()),
        imported.map(|_| ()),
        apart.edit(id, &1).await.map(|_| ()),
    ] {
        let refused = refused.expect_err("in different slots");
        assert_eq!(refused.kind(), ErrorKind::Config);
        assert!(refused.to_string().contains("different slots"), "{refused}");
    }
    assert_eq!(apart.stats().await.expect("statistics").count, 1);
    assert_eq!(apart.purge().all().await.expect("purged").deleted, 1);

    let together = broker.dlq("{jobs}");
    for number in 0..20 {
        let letter = [
            ("data", "1".to_owned()),
            ("rk-replays", (number % 2).to_string()),
        ];
        broker
            .publish_fields("{jobs}-dlq", letter)
            .await
            .expect("added");
    }
    let report = together
        .replay()
        .at_most_replays(1)
        .stop_when_failing(0.5)
        .await;
    let report = report.expect("replayed");
    assert_eq!((report.moved, report.parked), (10, 10));
    assert_eq!(together.parked().len().await, Ok(10));
    let month = std::time::Duration::from_secs(30 * 24 * 3600);
    let young = Filter::new().younger_than(month);
    let young = together
        .parked()
        .list()
        .newest_first()
        .matching(young)
        .await;
    assert_eq!(young.expect("a page").letters.len(), 10);
}

/// What a login needs for the tools is what `SECURITY.md` says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_permissions_that_are_listed_are_enough() {
    let server = Server::start();
    let place = Place::on(&server);
    place.add_letters("job", 3, &[("rk-replays", "1")]).await;
    place.add_letters("good", 3, &[]).await;
    place.ask(&["XGROUP", "CREATE", "jobs", "workers", "0", "MKSTREAM"]);
    let login = |rules: &str| {
        let user = format!(
            "ACL SETUSER tools reset on >secret ~jobs ~jobs-dlq ~jobs-dlq-parked ~jobs:dlq -@all {rules}"
        );
        place.ask(&user.split(' ').collect::<Vec<_>>());
        let url = format!("redis://tools:secret@127.0.0.1:{}", server.port());
        place.worker_at(&url, []).dlq("jobs")
    };
    let looks = login("+xrange +xrevrange +xlen +time");
    looks.stats().await.expect("statistics");
    let age = Filter::new().younger_than(std::time::Duration::from_secs(3600));
    looks
        .list()
        .newest_first()
        .matching(age)
        .await
        .expect("a page");
    let id = looks.list().await.expect("a page").letters[5].id();
    assert_eq!(looks.len().await, Ok(6));
    looks.replay().await.expect_err("it may only look");
    looks.purge().all().await.expect_err("it may only look");

    let moves = "+xrange +xadd +xdel +evalsha +script|load +xinfo|groups +xinfo|stream +xpending";
    let moves = login(moves);
    moves.edit(id, &1).await.expect("edited").expect("there");
    let replay = moves.replay().at_most_replays(1).stop_when_failing(0.5);
    let report = replay.await.expect("replayed");
    assert_eq!((report.moved, report.parked), (2, 3));
    moves.import("jobs:dlq").await.expect("imported");
    let fine = |_| async { Ok::<(), String>(()) };
    let done = moves
        .parked()
        .reprocess(fine)
        .count(1)
        .await
        .expect("reprocessed")
        .done;
    assert_eq!(done, 1);
    assert_eq!(
        moves.parked().purge().all().await.expect("purged").deleted,
        2
    );
}
