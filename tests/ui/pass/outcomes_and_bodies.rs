//! What a handler may take and return.

use std::borrow::Cow;
use std::collections::HashMap;

use rillkit::{HandlerError, Message, ResultExt, State, Stream, subscribe};

#[derive(Debug, thiserror::Error)]
#[error("bad input")]
struct JobError;

type Entry = Message;
type Outcome = Result<(), JobError>;

const JOBS: Stream<String> = Stream::new("jobs");
const ENTRIES: Stream<Message> = Stream::new("entries");

mod chat {
    /// A body that is called as the undecoded one is.
    #[derive(serde::Deserialize)]
    pub struct Message {
        _text: String,
    }

    pub const MESSAGES: rillkit::Stream<Message> = rillkit::Stream::new("messages");

    #[rillkit::subscribe(stream = MESSAGES, group = "workers")]
    pub async fn own_message(_message: Message) {}
}

#[subscribe(stream = JOBS, group = "alias")]
async fn alias(_entry: Entry) -> Outcome {
    Err(JobError)
}

#[subscribe(stream = ENTRIES, group = "entries")]
async fn entries(_entry: Message) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Ok(())
}

#[subscribe(stream = "copies", group = "workers")]
async fn copy(_job: Cow<'static, str>) {}

#[subscribe(stream = "maps", group = "workers")]
async fn map(mut job: HashMap<String, Option<Vec<(u8, [i64; 2])>>>, _: Message, _: State<&'static str>) -> Result<(), HandlerError> {
    job.remove("a").flatten().ok_or("no a").or_reject()?;
    Ok(())
}

#[subscribe(stream = "functions", group = "workers")]
async fn function(_: serde_json::Value, _f: State<fn(&str) -> usize>, _b: State<Box<dyn Fn(&str) + Send + Sync>>) -> Result<(), &'static str> {
    Err("text")
}

#[subscribe(stream = "opaque", group = "workers")]
async fn opaque(_: ()) -> Result<(), impl std::error::Error + Send + Sync + 'static> {
    Err(JobError)
}

fn main() {
    let _ = rillkit::handlers![chat::own_message, alias, entries, map, function, opaque];
}
