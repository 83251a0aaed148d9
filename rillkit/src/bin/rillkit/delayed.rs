//! `rillkit delayed`: messages that wait for their time.

use std::time::SystemTime;

use rillkit::{Broker, DelayedMessage};
use serde_json::{Value, json};

use crate::args::DelayedCommand;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Cell, Table};
use crate::{tail, text, time};

/// Messages asked for in one step.
const PAGE: usize = 500;

pub(crate) async fn run(
    broker: &Broker,
    command: &DelayedCommand,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        DelayedCommand::List { stream, count } => list(broker, stream, *count, output).await,
        DelayedCommand::Cancel {
            stream,
            ids,
            all: true,
            yes,
        } if ids.is_empty() => cancel_all(broker, stream, *yes, output).await,
        DelayedCommand::Cancel { stream, ids, .. } => cancel(broker, stream, ids, output).await,
    }
}

async fn list(
    broker: &Broker,
    stream: &str,
    count: usize,
    output: &mut Output,
) -> Result<(), Failure> {
    let page = broker.delayed(stream).count(count).await?;
    if output.json {
        let messages: Vec<_> = page.messages.iter().map(document).collect();
        let document = json!({ "stream": stream, "total": page.total, "messages": messages });
        return output.document(&document);
    }
    if page.messages.is_empty() {
        output.note("nothing waits");
        return Ok(());
    }
    let mut table = Table::new(["ID", "DUE IN", "BODY"]);
    let room = output.width().map(|width| width.saturating_sub(50).max(20));
    for message in &page.messages {
        let body = message.fields.get("data").map(text::lossy);
        table.row([
            Cell::text(message.id.as_str()),
            Cell::number(due_in(message)),
            Cell::text(text::cut(&text::plain(&body.unwrap_or_default()), room)),
        ]);
    }
    output.table(&table)?;
    if (page.messages.len() as u64) < page.total {
        let total = text::count(page.total, "message");
        output.note(&format!("{total} in all; `--count` shows more"));
    }
    Ok(())
}

fn due_in(message: &DelayedMessage) -> String {
    match message.due.duration_since(SystemTime::now()) {
        Ok(wait) => time::short(wait),
        Err(_) => "now".to_owned(),
    }
}

fn document(message: &DelayedMessage) -> Value {
    let due = message.due.duration_since(SystemTime::UNIX_EPOCH);
    let due = due.map_or(0, |due| u64::try_from(due.as_millis()).unwrap_or(u64::MAX));
    let (body, fields) = tail::body_and_fields(&message.fields);
    json!({ "id": message.id.as_str(), "due_ms": due, "body": body, "fields": fields })
}

async fn cancel(
    broker: &Broker,
    stream: &str,
    ids: &[String],
    output: &mut Output,
) -> Result<(), Failure> {
    let (mut cancelled, mut missing) = (Vec::new(), Vec::new());
    for id in ids {
        match broker.cancel_delayed(stream, id).await? {
            true => cancelled.push(id.as_str()),
            false => missing.push(id.as_str()),
        }
    }
    tell(cancelled.len() as u64, true, output)?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "nothing waits under {}: it is added to its stream already, or was cancelled before",
        text::plain(&missing.join(", "))
    )))
}

async fn cancel_all(
    broker: &Broker,
    stream: &str,
    yes: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let total = broker.delayed(stream).count(1).await?.total;
    if !yes {
        tell(total, false, output)?;
        if total > 0 {
            output.note("nothing was changed; add `--yes` to do it");
        }
        return Ok(());
    }
    let mut progress = output.progress("cancelling", Some(total));
    let mut cancelled = 0;
    // No more than there were: others may add some for ever.
    while cancelled < total {
        let page = broker.delayed(stream).count(PAGE).await?;
        let before = cancelled;
        for message in &page.messages {
            let done = broker.cancel_delayed(stream, &message.id).await?;
            cancelled += u64::from(done);
            progress.at(cancelled);
        }
        if cancelled == before {
            break;
        }
    }
    drop(progress);
    tell(cancelled, true, output)
}

fn tell(count: u64, done: bool, output: &mut Output) -> Result<(), Failure> {
    if output.json {
        return output.document(&json!({ "dry_run": !done, "cancelled": count }));
    }
    let would = if done { "" } else { "would be " };
    output.line(&format!(
        "{} {would}cancelled",
        text::count(count, "message")
    ))
}
