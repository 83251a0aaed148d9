//! `rillkit stats`: streams at a glance.

use rillkit::Broker;
use rillkit::inspect::StreamInfo;
use serde::Serialize;
use serde_json::json;

use crate::args::Stats;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Cell, Table};
use crate::text::ODD;
use crate::time;

/// A stream with what its groups and its dead-letter queue add to it.
#[derive(Debug, Serialize)]
struct Row {
    stream: String,
    #[serde(flatten)]
    info: StreamInfo,
    oldest_age_ms: Option<u64>,
    newest_age_ms: Option<u64>,
    /// In all groups together.
    pending: u64,
    /// Of the group that is farthest behind.
    lag: Option<u64>,
    dead_letters: u64,
}

pub(crate) async fn run(broker: &Broker, ask: &Stats, output: &mut Output) -> Result<(), Failure> {
    let names = match ask.streams.as_slice() {
        [] => broker.streams().await?,
        named => named.to_vec(),
    };
    let mut rows = Vec::with_capacity(names.len());
    let mut progress = output.progress("looking at streams", Some(names.len() as u64));
    for name in &names {
        match row(broker, name).await? {
            Some(row) => rows.push(row),
            // Among all of them, one may go while we look.
            None if ask.streams.is_empty() => {}
            None => return Err(Failure::no_stream(name)),
        }
        progress.at(rows.len() as u64);
    }
    drop(progress);
    if output.json {
        let server = broker.server_info().await;
        return output.document(&json!({ "server": server, "streams": rows }));
    }
    if rows.is_empty() {
        output.note("there are no streams");
        return Ok(());
    }
    output.table(&table(&rows))
}

async fn row(broker: &Broker, name: &str) -> Result<Option<Row>, Failure> {
    let stream = broker.inspect(name);
    let Some(info) = stream.info().await? else {
        return Ok(None);
    };
    let groups = stream.groups().await?;
    // Workers know where their dead letters go; without any it is the usual place.
    let mut dlqs: Vec<_> = stream.workers().await.unwrap_or_default();
    dlqs.dedup_by(|a, b| a.dlq == b.dlq);
    let mut dlqs: Vec<_> = dlqs.into_iter().map(|worker| worker.dlq).collect();
    dlqs.push(format!("{name}-dlq"));
    dlqs.sort();
    dlqs.dedup();
    let mut dead_letters = 0;
    for dlq in &dlqs {
        let dlq = broker.inspect(dlq).info().await.ok().flatten();
        dead_letters += dlq.map_or(0, |dlq| dlq.length);
    }
    let now = time::now();
    let age = |id| u64::try_from(time::age(id, now).as_millis()).unwrap_or(u64::MAX);
    let lags: Option<Vec<_>> = groups.iter().map(|group| group.lag).collect();
    Ok(Some(Row {
        stream: name.to_owned(),
        oldest_age_ms: info.first.map(age),
        newest_age_ms: info.last.map(age),
        pending: groups.iter().map(|group| group.pending).sum(),
        lag: lags.and_then(|lags| lags.into_iter().max()),
        dead_letters,
        info,
    }))
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new([
        "STREAM", "LENGTH", "OLDEST", "NEWEST", "GROUPS", "PENDING", "LAG", "DEAD",
    ]);
    let age =
        |ms: Option<u64>| Cell::known(ms, |ms| time::short(std::time::Duration::from_millis(ms)));
    for row in rows {
        let dead = Cell::number(row.dead_letters);
        table.row([
            Cell::text(&row.stream),
            Cell::number(row.info.length),
            age(row.oldest_age_ms),
            age(row.newest_age_ms),
            Cell::number(row.info.groups),
            Cell::number(row.pending),
            Cell::known(row.lag, |lag| lag.to_string()),
            if row.dead_letters > 0 {
                dead.styled(ODD)
            } else {
                dead
            },
        ]);
    }
    table
}
