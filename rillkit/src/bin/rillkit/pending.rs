//! `rillkit pending`: what a group was handed and has not settled.

use rillkit::Broker;
use rillkit::inspect::{Inspect, PendingInfo};
use serde_json::json;

use crate::args::Pending;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Cell, Table};
use crate::{text, time};

/// Rows asked for in one step.
const PAGE: usize = 1000;

pub(crate) async fn run(
    broker: &Broker,
    ask: &Pending,
    output: &mut Output,
) -> Result<(), Failure> {
    let stream = broker.inspect(&ask.stream);
    if stream.info().await?.is_none() {
        return Err(Failure::no_stream(&ask.stream));
    }
    let groups = stream.groups().await?;
    let Some(group) = groups.iter().find(|group| group.name == ask.group) else {
        let (stream, group) = (ask.stream.escape_debug(), ask.group.escape_debug());
        return Err(Failure::Failed(format!(
            "`{stream}` has no group `{group}`; `rillkit groups {stream}` lists those that it has"
        )));
    };
    let rows = rows(&stream, ask, group.pending, output).await?;
    if output.json {
        let document = json!({ "stream": ask.stream, "group": ask.group, "pending": rows });
        return output.document(&document);
    }
    if rows.is_empty() {
        output.note("nothing is pending");
        return Ok(());
    }
    output.table(&table(&rows))?;
    if rows.len() == ask.count && (rows.len() as u64) < group.pending {
        let pending = text::count(group.pending, "message");
        output.note(&format!(
            "{pending} pending in the group; `--count` shows more"
        ));
    }
    Ok(())
}

async fn rows(
    stream: &Inspect,
    ask: &Pending,
    total: u64,
    output: &Output,
) -> Result<Vec<PendingInfo>, Failure> {
    let (mut rows, mut from, mut seen) = (Vec::new(), ask.from, 0);
    let mut progress = output.progress("looking at pending messages", Some(total));
    let consumer = ask.consumer.as_deref();
    while rows.len() < ask.count {
        let count = match ask.idle {
            Some(_) => PAGE,
            None => PAGE.min(ask.count - rows.len()),
        };
        let page = stream.pending(&ask.group, consumer, from, count).await?;
        let Some(last) = page.last() else { break };
        from = last.id.after();
        seen += page.len() as u64;
        progress.at(seen);
        let long = |row: &PendingInfo| ask.idle.is_none_or(|idle| row.idle >= idle);
        rows.extend(page.into_iter().filter(long));
    }
    rows.truncate(ask.count);
    Ok(rows)
}

fn table(rows: &[PendingInfo]) -> Table {
    let mut table = Table::new(["ID", "AGE", "IDLE", "DELIVERIES", "CONSUMER"]);
    let now = time::now();
    for row in rows {
        table.row([
            Cell::text(row.id.to_string()),
            Cell::number(time::short(time::age(row.id, now))),
            Cell::number(time::short(row.idle)),
            Cell::number(row.deliveries),
            Cell::text(&row.consumer),
        ]);
    }
    table
}
