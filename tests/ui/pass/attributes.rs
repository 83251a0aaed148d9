//! The function keeps its attributes, its visibility and its name, and can be called.

#![forbid(unsafe_code)]
#![deny(warnings, missing_docs)]

use std::fmt::Display;

use rillkit::{Message, State, handlers, subscribe};

#[subscribe(stream = "a", group = "workers")]
#[tracing::instrument(skip_all, err)]
async fn instrumented_below(job: String) -> Result<(), std::num::ParseIntError> {
    job.parse::<u64>().map(drop)
}

#[tracing::instrument(skip_all, err)]
#[subscribe(stream = "b", group = "workers")]
async fn instrumented_above(job: String) -> Result<(), std::num::ParseIntError> {
    job.parse::<u64>().map(drop)
}

/// Is documented.
#[subscribe(stream = "c", group = "workers")]
#[must_use = "it has to run"]
#[allow(clippy::unused_async)]
pub(crate) async fn must_be_used(_job: String) {}

#[subscribe(stream = "d", group = "workers")]
#[deprecated = "old"]
async fn old(_job: String) {}

#[subscribe(stream = "e", group = "workers")]
#[cfg(any())]
async fn left_out(_job: NoSuchType) {}

#[cfg(any())]
#[subscribe(stream = "f", group = "workers")]
async fn left_out_above(_job: NoSuchType) {}

#[subscribe(stream = "g", group = "workers")]
#[cfg_attr(all(), cfg(any()), tracing::instrument)]
async fn left_out_by_cfg_attr(_job: NoSuchType) {}

#[subscribe(stream = "h", group = "workers")]
#[cfg_attr(all(), tracing::instrument(skip_all), cfg(all()))]
async fn put_in_by_cfg_attr(#[allow(unused_mut)] mut _job: String) {}

#[derive(serde::Deserialize)]
struct Job {
    name: String,
}

#[subscribe(stream = "i", group = "workers")]
async fn patterns(Job { name }: Job, _: Message, mut state: State<u64>) -> Result<(), anyhow::Error> {
    state = state.clone();
    anyhow::ensure!(name.len() as u64 == *state, "{}", shown(name));
    Ok(())
}

fn shown(value: impl Display) -> String {
    value.to_string()
}

fn main() {
    let all = handlers![
        instrumented_below,
        instrumented_above,
        must_be_used,
        old,
        put_in_by_cfg_attr,
        patterns,
    ];
    assert_eq!(all.map(|handler| handler.stream()), ["a", "b", "c", "d", "h", "i"]);

    let message = Message::detached("i", "workers", 1, [("data", "{}")]);
    let run = patterns(Job { name: "abc".to_owned() }, message, State::new(3));
    assert!(ready(run).is_ok());
    assert!(ready(instrumented_below("x".to_owned())).is_err());
    assert!(ready(instrumented_above("x".to_owned())).is_err());
}

/// What a future that waits for nothing gives.
fn ready<F: Future>(future: F) -> F::Output {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).as_mut().poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("it waits"),
    }
}
