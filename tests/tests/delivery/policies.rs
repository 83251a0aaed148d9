//! Every policy with every way in which a run can end.

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, on_both_stores, until};

/// A handler of each policy, with a long and a short time limit; two runs at most.
#[rustfmt::skip]
macro_rules! handler {
    ($name:ident, $stream:literal, $policy:ident, $timeout:literal) => {
        #[subscribe(
            stream = $stream,
            group = "workers",
            dlq = "dead",
            max_retries = 1,
            claim_idle_ms = 200,
            concurrency = 4,
            timeout_ms = $timeout,
            ack_policy = $policy
        )]
        async fn $name(
            job: Job,
            msg: Message,
            journal: State<Journal>,
        ) -> Result<(), HandlerError> {
            act(job, msg, journal).await
        }
    };
}
handler!(nack_on_error, "nack_on_error", nack_on_error, 5000);
handler!(ack_always, "ack_always", ack_always, 5000);
handler!(ack_first, "ack_first", ack_first, 5000);
handler!(manual, "manual", manual, 5000);
handler!(limited, "limited", nack_on_error, 150);
handler!(limited_always, "limited_always", ack_always, 150);
handler!(limited_first, "limited_first", ack_first, 150);
handler!(limited_manual, "limited_manual", manual, 150);

/// How often a job runs, and why it is dead in the end, if it is.
type Cell = (u64, Option<&'static str>);

const ACKED: Cell = (1, None);
const REJECTED: Cell = (1, Some("rejected"));
const FAILED: Cell = (2, Some("error"));
const EXHAUSTED: Cell = (2, Some("exhausted"));

const POLICIES: [&str; 4] = ["nack_on_error", "ack_always", "ack_first", "manual"];
const CELLS: [(&str, [Cell; 4]); 14] = [
    ("ok", [ACKED, ACKED, ACKED, EXHAUSTED]),
    ("err", [FAILED, ACKED, ACKED, EXHAUSTED]),
    ("panic", [(2, Some("panic")), ACKED, ACKED, EXHAUSTED]),
    ("ack", [ACKED, ACKED, ACKED, ACKED]),
    ("nack", [FAILED, FAILED, ACKED, FAILED]),
    ("reject", [REJECTED, REJECTED, ACKED, REJECTED]),
    ("reject_err", [REJECTED, REJECTED, ACKED, REJECTED]),
    ("ack_now", [ACKED, ACKED, ACKED, ACKED]),
    ("ack+err", [ACKED, ACKED, ACKED, ACKED]),
    ("ack+panic", [ACKED, ACKED, ACKED, ACKED]),
    ("ack_now+panic", [ACKED, ACKED, ACKED, ACKED]),
    ("ack_now+nack", [ACKED, ACKED, ACKED, ACKED]),
    ("ack+nack", [FAILED, FAILED, ACKED, FAILED]),
    ("nack+reject+ack", [REJECTED, REJECTED, ACKED, REJECTED]),
];

on_both_stores![every_cell_of_the_table, a_timeout_is_a_failure];

async fn every_cell_of_the_table(place: Place) {
    let handlers = handlers![nack_on_error, ack_always, ack_first, manual];
    let running = place.worker(handlers).start().await.expect("started");
    for stream in POLICIES {
        for (does, _) in CELLS {
            place
                .publish(stream, &format!("{stream} {does}"), does)
                .await;
        }
    }
    running.drained().await.expect("drained");
    let letters = place.letters("dead").await;
    for (column, stream) in POLICIES.into_iter().enumerate() {
        for (does, cells) in CELLS {
            let (name, (runs, reason)) = (format!("{stream} {does}"), cells[column]);
            let expected: Vec<_> = (1..=runs).collect();
            assert_eq!(place.journal.deliveries(&name), expected, "{name}");
            let of_it: Vec<_> = letters
                .iter()
                .filter(|letter| letter.job() == name)
                .collect();
            assert_eq!(of_it.len(), usize::from(reason.is_some()), "{name}");
            if let Some(reason) = reason {
                assert_eq!(of_it[0].get("x-reason"), reason, "{name}");
                assert_eq!(of_it[0].get("x-deliveries"), runs.to_string(), "{name}");
                assert_eq!(of_it[0].get("x-stream"), stream, "{name}");
                let error = match (reason, does) {
                    ("exhausted", _) => "retries exhausted",
                    ("rejected", _) => "no use",
                    ("panic", _) => "oh no",
                    (_, "err") => "bad input",
                    _ => "nack",
                };
                assert!(of_it[0].get("x-error").contains(error), "{name}");
            }
        }
    }
    running.stop().await;
}

async fn a_timeout_is_a_failure(place: Place) {
    let handlers = handlers![limited, limited_always, limited_first, limited_manual];
    let running = place.worker(handlers).start().await.expect("started");
    for stream in [
        "limited",
        "limited_always",
        "limited_first",
        "limited_manual",
    ] {
        place.publish(stream, stream, "hang").await;
        place
            .publish(stream, &format!("after {stream}"), "ack")
            .await;
    }
    running.drained().await.expect("drained");
    for (stream, runs) in [
        ("limited", vec![1, 2]),
        ("limited_always", vec![1]),
        ("limited_first", vec![1]),
        ("limited_manual", vec![1, 2]),
    ] {
        assert_eq!(place.journal.deliveries(stream), runs, "{stream}");
        let after = format!("after {stream}");
        assert_eq!(place.journal.deliveries(&after), [1]);
    }
    let mut letters = place.letters("dead").await;
    letters.sort_by_key(|letter| letter.job());
    let of = |name| {
        letters
            .iter()
            .map(|letter| letter.get(name))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("x-stream"), ["limited", "limited_manual"]);
    assert_eq!(of("x-reason"), ["timeout", "exhausted"]);
    assert_eq!(of("x-deliveries"), ["2", "2"]);
    running.stop().await;
}

/// What the server says while a message waits, and once it has left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pending_list_shows_what_each_policy_does() {
    let place = Place::redis();
    let handlers = handlers![nack_on_error, ack_first, manual];
    let running = place.worker(handlers).start().await.expect("started");
    let pending = |stream| place.pending(stream, "workers");

    let id = place
        .publish("nack_on_error", "job", "sleep:400,sleep:400")
        .await;
    until("it runs", || !place.journal.runs("job").is_empty()).await;
    assert_eq!(pending("nack_on_error").len(), 1);
    assert_eq!(pending("nack_on_error")[0].0, id);
    assert_eq!(pending("nack_on_error")[0].2, 1);
    until("it is acked", || pending("nack_on_error").is_empty()).await;

    place.publish("ack_first", "first", "sleep:400").await;
    until("it runs", || !place.journal.runs("first").is_empty()).await;
    assert!(place.journal.runs("first")[0].end.is_none());
    assert!(pending("ack_first").is_empty());

    place.publish("manual", "manual", "ok,ack").await;
    until("it has run", || place.journal.ended() >= 2).await;
    assert_eq!(pending("manual").len(), 1);
    until("it is acked", || pending("manual").is_empty()).await;
    assert_eq!(place.journal.deliveries("manual"), [1, 2]);
    assert_eq!(place.length("dead"), 0);
    running.stop().await;
}
