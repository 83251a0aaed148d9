//! `rillkit tail`: the newest entries of a stream, and those that are added to it. It reads for no
//! group, so that nobody notices.

use std::time::Duration;

use rillkit::inspect::{EntryInfo, Inspect};
use rillkit::{Broker, EntryId, Error, ErrorKind, Fields};
use serde_json::{Map, Value, json};

use crate::args::Tail;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::{self, FAINT, ODD};
use crate::time;

/// How often new entries are asked for.
const EVERY: Duration = Duration::from_millis(250);
/// How often a server that has gone is asked for.
const AGAIN: Duration = Duration::from_secs(1);
/// Entries read in one step.
const PAGE: usize = 500;

pub(crate) async fn run(broker: &Broker, ask: &Tail, output: &mut Output) -> Result<(), Failure> {
    let name = match ask.dlq.as_deref() {
        None => ask.stream.clone(),
        Some("") => format!("{}-dlq", ask.stream),
        Some(dlq) => dlq.to_owned(),
    };
    let stream = broker.inspect(&name);
    let mut from = first(&stream, ask, output).await?;
    loop {
        let entries = stream.entries(from, PAGE).await;
        let wait = match entries {
            Ok(entries) => {
                for entry in &entries {
                    show(entry, ask, output)?;
                    from = entry.id.after();
                }
                if entries.len() == PAGE {
                    continue;
                }
                EVERY
            }
            Err(error) if is_passing(&error) && !ask.no_follow => {
                output.note(&format!("{error}; trying again"));
                AGAIN
            }
            Err(error) => return Err(error.into()),
        };
        if ask.no_follow {
            return Ok(());
        }
        tokio::time::sleep(wait).await;
    }
}

/// Shows what is there already; where what is added begins.
async fn first(stream: &Inspect, ask: &Tail, output: &mut Output) -> Result<EntryId, Failure> {
    if let Some(after) = ask.after {
        return Ok(if after == EntryId::MIN {
            after
        } else {
            after.after()
        });
    }
    // In this order: what is added in between is shown later, and not left out.
    let info = stream.info().await?;
    let begin = info.map_or(EntryId::MIN, |info| info.last_id);
    if begin == EntryId::MIN {
        output.note(&format!(
            "`{}` is not there yet, or empty",
            text::plain(stream.stream())
        ));
    }
    for entry in stream.newest(ask.last).await? {
        if entry.id <= begin {
            show(&entry, ask, output)?;
        }
    }
    Ok(begin.after())
}

fn is_passing(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotSent | ErrorKind::Unknown | ErrorKind::Refused
    )
}

fn show(entry: &EntryInfo, ask: &Tail, output: &mut Output) -> Result<(), Failure> {
    if output.json {
        return output.document_line(&document(entry.id, &entry.fields));
    }
    let id = entry.id.to_string();
    let age = time::short(time::age(entry.id, time::now()));
    let line = line(entry);
    let width = output.width().filter(|_| !ask.full);
    let room = width.map(|width| width.saturating_sub(id.len() + age.len() + 4));
    let style = match entry.fields.get("x-error") {
        Some(_) => ODD,
        None => anstyle::Style::new(),
    };
    let line = text::cut(&line, room);
    output.line(&format!(
        "{FAINT}{id}  {age}{FAINT:#}  {style}{line}{style:#}"
    ))
}

/// The body, then every other field as `name=value`; of a dead letter, what went wrong comes first.
fn line(entry: &EntryInfo) -> String {
    let mut parts = Vec::new();
    if let Some(error) = entry.fields.get("x-error") {
        parts.push(format!("[{}]", text::lossy(error)));
    }
    if let Some(data) = entry.fields.get("data") {
        parts.push(text::lossy(data));
    }
    for (name, value) in entry.fields.iter() {
        if name != b"data" && name != b"x-error" {
            parts.push(format!("{}={}", text::lossy(name), text::lossy(value)));
        }
    }
    text::plain(&parts.join(" "))
}

/// For programs: the fields, and the body decoded where it is JSON. Of several fields of one name
/// it has the first, and bytes that are not UTF-8 are replaced.
pub(crate) fn body_and_fields(fields: &Fields) -> (Option<Value>, Map<String, Value>) {
    let mut map = Map::new();
    for (name, value) in fields.iter() {
        map.entry(text::lossy(name))
            .or_insert_with(|| Value::String(text::lossy(value)));
    }
    let data = fields.get("data");
    (data.and_then(|data| serde_json::from_slice(data).ok()), map)
}

pub(crate) fn document(id: EntryId, fields: &Fields) -> Value {
    let (body, fields) = body_and_fields(fields);
    json!({ "id": id, "body": body, "fields": fields })
}
