//! Entries that cannot be decoded: each is dead at once, byte for byte, and costs its neighbours nothing.

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_tests::Job;

use crate::place::{Journal, Place, act, on_both_stores};

#[subscribe(stream = "jobs", group = "workers", max_retries = None, concurrency = 2)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

#[subscribe(
    stream = "first",
    group = "workers",
    dlq = "dead",
    ack_policy = ack_first
)]
async fn at_most_once(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

type Entry = Vec<(Vec<u8>, Vec<u8>)>;

fn entry(fields: &[(&[u8], &[u8])]) -> Entry {
    let field = |(name, value): &(&[u8], &[u8])| (name.to_vec(), value.to_vec());
    fields.iter().map(field).collect()
}

fn data(value: impl Into<Vec<u8>>) -> Entry {
    vec![(b"data".to_vec(), value.into())]
}

/// Each with the beginning of its error.
fn undecodable() -> Vec<(Entry, &'static str)> {
    const JSON: &str = "body is not valid JSON: ";
    const TYPE: &str = "body does not match Job: ";
    const NONE: &str = "entry has no 'data' field";
    let wide: Entry = (0..10_000)
        .map(|number| (format!("f{number}").into_bytes(), b"v".to_vec()))
        .collect();
    vec![
        (data("this is not json"), JSON),
        (entry(&[(b"other", b"1")]), NONE),
        (entry(&[(b"data ", b"{}"), (b"Data", b"{}")]), NONE),
        (data(""), JSON),
        (data(r#"{"name":"x","does":"o"#), JSON),
        (data(r#"{"name":"x","does":"ok"} x"#), JSON),
        (
            data(b"{\"name\":\"\xff\xfe\",\"does\":\"ok\"}".to_vec()),
            JSON,
        ),
        (data((0..=255).collect::<Vec<u8>>()), JSON),
        (data("[".repeat(100_000)), TYPE),
        (data(format!("{{\"deep\":{}", "[".repeat(100_000))), JSON),
        (data(vec![b'x'; 1 << 20]), JSON),
        (data(r#"{"name":1,"does":"ok"}"#), TYPE),
        (data("null"), TYPE),
        (entry(&[(b"\xff\x00\r\n", b"\x00\xff"), (b"", b"")]), NONE),
        (
            entry(&[
                (b"a", b"1"),
                (b"a", b"2"),
                (b"data", b"?"),
                (b"data", b"{}"),
                (b"a", b"3"),
            ]),
            JSON,
        ),
        (wide, NONE),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_entries_are_dead_byte_for_byte_and_good_ones_between_them_run() {
    let place = Place::redis();
    let (bad, mut ids) = (undecodable(), Vec::new());
    for (number, (fields, _)) in bad.iter().enumerate() {
        place.publish("jobs", &format!("good{number}"), "ok").await;
        let mut command = vec![b"XADD".to_vec(), b"jobs".to_vec(), b"*".to_vec()];
        for (name, value) in fields {
            command.extend([name.clone(), value.clone()]);
        }
        ids.push(place.ask(&command).text());
    }
    place
        .publish("jobs", &format!("good{}", bad.len()), "ok")
        .await;

    let running = place
        .worker(handlers![handle])
        .start()
        .await
        .expect("started");
    running.drained().await.expect("drained");
    running.stop().await;

    place.journal.assert_once_each("good", bad.len() + 1);
    assert_eq!(place.journal.all().len(), bad.len() + 1);
    let letters = place.letters("jobs-dlq").await;
    assert_eq!(letters.len(), bad.len());
    for ((fields, error), id) in bad.iter().zip(&ids) {
        let of_it = |letter: &&crate::place::Letter| letter.get("x-original-id") == *id;
        let letter = letters.iter().find(of_it).expect("a letter for each");
        assert!(
            letter.get("x-error").starts_with(error),
            "{}",
            letter.get("x-error")
        );
        assert_eq!(letter.get("x-deliveries"), "1");
        assert_eq!(letter.get("x-reason"), "decode");
        let own = letter.0.len() - 10;
        assert!(
            letter.0[..own] == fields[..],
            "{error}: the fields are not kept"
        );
        assert_eq!(letter.0[own].0, b"x-original-id");
    }
}

on_both_stores![a_body_of_another_type_is_dead_at_once];

async fn a_body_of_another_type_is_dead_at_once(place: Place) {
    let handlers = handlers![handle, at_most_once];
    let running = place.worker(handlers).start().await.expect("started");
    for stream in ["jobs", "first"] {
        place.broker.publish(stream, &17).await.expect("published");
        place
            .publish(stream, &format!("good on {stream}"), "ok")
            .await;
    }
    running.drained().await.expect("drained");
    running.stop().await;
    for (stream, dlq) in [("jobs", "jobs-dlq"), ("first", "dead")] {
        let name = format!("good on {stream}");
        assert_eq!(place.journal.deliveries(&name), [1]);
        let mut letters = place.letters(dlq).await;
        letters.retain(|letter| letter.get("x-stream") == stream);
        assert_eq!(letters.len(), 1);
        assert_eq!(letters[0].get("data"), "17");
        assert_eq!(letters[0].get("x-deliveries"), "1");
        assert!(
            letters[0]
                .get("x-error")
                .starts_with("body does not match Job: ")
        );
    }
}
