//! Statistics, lists, single letters: what a queue holds.

use std::time::{Duration, SystemTime};

use rillkit::dlq::{Filter, Letter, Page};
use rillkit::{
    Broker, EntryId, ErrorKind, HandlerError, Message, State, Stream, handlers, subscribe,
};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, on_both_stores};

#[subscribe(stream = "jobs", group = "workers", max_retries = 0)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(stream = "split", group = "one", dlq = "split-one")]
async fn one(_job: Job) {}

#[subscribe(stream = "split", group = "two", dlq = "split-two")]
async fn two(_job: Job) {}

on_both_stores![
    a_letter_says_what_is_known_about_its_end,
    a_missing_queue_is_an_empty_one,
    filters_choose,
    lists_go_page_by_page_in_both_directions,
    statistics_count_by_everything,
];

async fn a_letter_says_what_is_known_about_its_end(place: Place) {
    let broker = place.worker(handlers![handle]);
    let running = broker.start().await.expect("started");
    let fields = [
        ("data", r#"{"name":"a","does":"err"}"#),
        ("h-origin", "import"),
        ("x-own", "kept"),
    ];
    let published = broker
        .publish_fields("jobs", fields)
        .await
        .expect("published");
    running.drained().await.expect("drained");
    running.stop().await;

    let dlq = broker.dlq("jobs");
    let id = dlq.list().await.expect("a page").letters[0].id();
    let letter = dlq.get(id).await.expect("an answer").expect("a letter");
    assert_eq!(letter.id(), id);
    assert_eq!(letter.original_id(), Some(published));
    assert_eq!(letter.stream(), Some("jobs"));
    assert_eq!(letter.group(), Some("workers"));
    assert_eq!(letter.reason(), Some("error"));
    assert_eq!(letter.error(), Some("bad input"));
    assert_eq!(letter.deliveries(), Some(1));
    assert!(letter.handler().expect("a handler").ends_with("::handle"));
    assert_eq!(letter.consumer().map(str::is_empty), Some(false));
    let since = SystemTime::now().duration_since(letter.failed_at().expect("a time"));
    assert!(since.expect("it is past") < Duration::from_secs(60));
    assert_eq!(letter.replays(), 0);
    let attempts = letter.attempts();
    assert_eq!((attempts.len(), attempts[0].number()), (1, 1));
    assert_eq!(attempts[0].error(), "bad input");
    assert_eq!(letter.header("origin"), Some(&b"import"[..]));
    assert_eq!(letter.body::<Job>().expect("a job"), Job::new("a", "err"));
    let own: Vec<_> = letter.own_fields().collect();
    let expected = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    assert_eq!(own, expected);
    assert!(!format!("{letter:?}").contains("import"), "{letter:?}");

    let nobody = EntryId { ms: 1, seq: 1 };
    assert_eq!(dlq.get(nobody).await, Ok(None));
}

async fn a_missing_queue_is_an_empty_one(place: Place) {
    let dlq = place.dlq();
    assert_eq!(dlq.names().collect::<Vec<_>>(), ["jobs-dlq"]);
    assert_eq!((dlq.len().await, dlq.is_empty().await), (Ok(0), Ok(true)));
    let stats = dlq.stats().await.expect("statistics");
    assert_eq!((stats.count, stats.oldest, stats.newest), (0, None, None));
    assert_eq!(dlq.list().await, Ok(Page::default()));
    assert_eq!(dlq.replay().all().await.expect("replayed").moved, 0);
    assert_eq!(dlq.purge().all().await.expect("purged").deleted, 0);
}

async fn lists_go_page_by_page_in_both_directions(place: Place) {
    let mut ids = place.add_letters("job", 7, &[]).await;
    let other = [("data", "1"), ("x-stream", "another")];
    place
        .broker
        .publish_fields("jobs-dlq", other)
        .await
        .expect("added");
    ids.extend(place.add_letters("more", 2, &[]).await);
    let dlq = place.dlq();
    assert_eq!(dlq.len().await, Ok(10));

    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let list = dlq.list().count(3);
        let list = match after {
            Some(after) => list.after(after),
            None => list,
        };
        let page = list.await.expect("a page");
        pages.push(page.letters.iter().map(Letter::id).collect::<Vec<_>>());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, ids.chunks(3).map(<[_]>::to_vec).collect::<Vec<_>>());

    ids.reverse();
    let back = dlq.list().newest_first().count(4).await.expect("a page");
    assert_eq!(seen(&back), ids[..4]);
    assert_eq!(back.next, Some(ids[3]));
    let back = dlq
        .list()
        .newest_first()
        .after(ids[3])
        .await
        .expect("a page");
    assert_eq!((seen(&back), back.next), (ids[4..].to_vec(), None));
    assert_eq!(seen(&dlq.list().count(0).await.expect("a page")), []);
}

async fn filters_choose(place: Place) {
    let slow = [
        ("x-reason", "timeout"),
        ("x-error", "ran past 30 s"),
        ("x-group", "a"),
    ];
    let slow = place.add_letters("slow", 3, &slow).await;
    let bad = [
        ("x-reason", "error"),
        ("x-error", "bad input"),
        ("x-group", "b"),
    ];
    let bad = place.add_letters("bad", 120, &bad).await;
    let handled = [("x-reason", "error"), ("x-handler", "app::jobs::run_job")];
    let handled = place.add_letters("handled", 2, &handled).await;
    let dlq = place.dlq();
    let list = async |filter| {
        seen(
            &dlq.list()
                .count(1000)
                .matching(filter)
                .await
                .expect("a page"),
        )
    };
    let f = Filter::new;

    assert_eq!(list(f().reason("timeout")).await, slow);
    assert_eq!(list(f().error_contains("input")).await, bad);
    assert_eq!(list(f().handler("run_job")).await, handled);
    assert_eq!(
        list(f().group("a").group("b")).await,
        [&slow[..], &bad].concat()
    );
    assert_eq!(
        list(f().reason("error").group("b").to(bad[1])).await,
        bad[..2]
    );
    assert_eq!(list(f().from(slow[2]).to(bad[0])).await, [slow[2], bad[0]]);
    let three = [handled[1], slow[0], EntryId { ms: 1, seq: 0 }];
    assert_eq!(list(f().ids(three)).await, [slow[0], handled[1]]);
    assert_eq!(list(f().ids(three).from(slow[1])).await, [handled[1]]);
    assert_eq!(list(f().older_than(Duration::from_secs(3600))).await, []);
    assert_eq!(
        list(f().younger_than(Duration::from_secs(3600)))
            .await
            .len(),
        125
    );

    // A page ends behind what the filter means, and the next one begins there.
    let page = dlq
        .list()
        .matching(f().reason("error"))
        .count(120)
        .await
        .expect("a page");
    assert_eq!((seen(&page), page.next), (bad.clone(), Some(bad[119])));
    let rest = dlq
        .list()
        .matching(f().reason("error"))
        .after(bad[119])
        .await
        .expect("a page");
    assert_eq!((seen(&rest), rest.next), (handled, None));
    let newest = dlq
        .list()
        .newest_first()
        .matching(f().reason("timeout"))
        .count(2)
        .await;
    assert_eq!(seen(&newest.expect("a page")), [slow[2], slow[1]]);
}

async fn statistics_count_by_everything(place: Place) {
    let locked = |number| {
        let error = format!("order {number} is locked");
        place.broker.publish_fields(
            "jobs-dlq",
            [
                ("data", "1"),
                ("x-error", &error),
                ("x-reason", "error"),
                ("x-handler", "app::ship"),
                ("x-group", "a"),
                ("rk-replays", "1"),
            ],
        )
    };
    let oldest = locked(17).await.expect("added");
    locked(18).await.expect("added");
    place
        .add_letters("late", 1, &[("x-reason", "timeout"), ("x-error", "late")])
        .await;
    let newest = place.add_letters("old", 1, &[]).await[0];
    let other = [("data", "1"), ("x-stream", "another")];
    place
        .broker
        .publish_fields("jobs-dlq", other)
        .await
        .expect("added");

    let dlq = place.dlq();
    let stats = dlq.stats().top(1).await.expect("statistics");
    let counts = |counts: &[(&str, u64)]| -> Vec<_> {
        let counts = counts.iter();
        counts
            .map(|(text, count)| ((*text).to_owned(), *count))
            .collect()
    };
    assert_eq!((stats.count, stats.others, stats.replayed), (4, 1, 2));
    assert_eq!((stats.oldest, stats.newest), (Some(oldest), Some(newest)));
    assert_eq!(
        stats.by_reason,
        counts(&[("error", 2), ("", 1), ("timeout", 1)])
    );
    assert_eq!(stats.by_error, counts(&[("order # is locked", 2)]));
    assert_eq!(stats.other_errors, 2);
    assert_eq!(stats.by_handler, counts(&[("", 2), ("app::ship", 2)]));
    assert_eq!(stats.by_group, counts(&[("", 2), ("a", 2)]));
    let late = dlq.stats().matching(Filter::new().reason("timeout")).await;
    assert_eq!(late.expect("statistics").count, 1);
}

/// Which queue is meant is never guessed.
#[tokio::test]
async fn of_several_queues_one_has_to_be_chosen() {
    let broker = Broker::memory().with_handlers(handlers![one, two]);
    let dlq = broker.dlq("split");
    assert_eq!(dlq.names().collect::<Vec<_>>(), ["split-one", "split-two"]);
    let error = dlq.len().await.expect_err("two queues");
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(
        error.to_string().contains("`split-one`, `split-two`"),
        "{error}"
    );
    assert!(dlq.replay().await.is_err() && dlq.purge().all().await.is_err());
    assert_eq!(dlq.queue("split-two").len().await, Ok(0));

    const NAMED: Stream<Job> = Stream::new("named").dlq("dead");
    assert_eq!(broker.dlq(NAMED).names().collect::<Vec<_>>(), ["dead"]);
    let parked = broker.dlq(NAMED).parked();
    assert_eq!(parked.names().collect::<Vec<_>>(), ["dead-parked"]);
    for wrong in ["", "a\nb", "split"] {
        let error = dlq.queue(wrong).len().await.expect_err(wrong);
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    }
}

fn seen(page: &Page) -> Vec<EntryId> {
    page.letters.iter().map(Letter::id).collect()
}
