//! `rillkit trim`: removes what every group has handled, and says what holds the rest back.

use rillkit::{Broker, HoldReason, Trimmed};
use serde_json::json;

use crate::args::Trim;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Cell, Table};

pub(crate) async fn run(broker: &Broker, ask: &Trim, output: &mut Output) -> Result<(), Failure> {
    if broker.inspect(&ask.stream).info().await?.is_none() {
        return Err(Failure::no_stream(&ask.stream));
    }
    let mut trim = broker.trim(&ask.stream).ignoring(&ask.ignore);
    if let Some(count) = ask.keep {
        trim = trim.keep(count);
    }
    if let Some(age) = ask.older_than {
        trim = trim.older_than(age);
    }
    if ask.even_without_groups {
        trim = trim.even_without_groups();
    }
    if !ask.yes {
        trim = trim.dry_run();
    }
    let trimmed = trim.await?;
    if output.json {
        return output.document(&document(&trimmed, ask));
    }
    let entries = if trimmed.removed == 1 {
        "entry"
    } else {
        "entries"
    };
    let would = if ask.yes { "" } else { "would be " };
    output.line(&format!(
        "{} {entries} {would}removed, {} {would}left",
        trimmed.removed, trimmed.left
    ))?;
    if !trimmed.holds.is_empty() {
        output.line("")?;
        output.table(&table(&trimmed))?;
    }
    if trimmed.groups == 0 && !ask.even_without_groups && trimmed.left > 0 {
        output.note("the stream has no groups: `--even-without-groups` trims it all the same");
    }
    if !ask.yes && trimmed.removed > 0 {
        output.note("nothing was changed; add `--yes` to do it");
    }
    Ok(())
}

fn word(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::Pending => "pending",
        HoldReason::Unread => "unread",
    }
}

fn document(trimmed: &Trimmed, ask: &Trim) -> serde_json::Value {
    let holds = trimmed.holds.iter().map(|hold| {
        json!({ "group": hold.group, "reason": word(hold.reason), "from": hold.from, "count": hold.count })
    });
    json!({
        "stream": ask.stream, "dry_run": !ask.yes, "removed": trimmed.removed, "left": trimmed.left,
        "groups": trimmed.groups, "holds": holds.collect::<Vec<_>>(),
    })
}

/// What holds the rest back.
fn table(trimmed: &Trimmed) -> Table {
    let mut table = Table::new(["HELD BACK BY", "FROM", "COUNT", "WHY"]);
    for hold in &trimmed.holds {
        table.row([
            Cell::text(&hold.group),
            Cell::text(hold.from.to_string()),
            Cell::known(hold.count, |count| count.to_string()),
            Cell::text(word(hold.reason)),
        ]);
    }
    table
}
