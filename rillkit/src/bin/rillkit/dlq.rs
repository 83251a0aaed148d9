//! `rillkit dlq`: looks at dead letters, moves them back, deletes them. What changes many letters
//! only says what it would do, until `--yes`.

mod edit;

use std::collections::BTreeSet;
use std::time::Duration;

use rillkit::dlq::{Dlq, DlqStats, Filter, Letter, ReplayReport, Stopped};
use rillkit::{Broker, EntryId, FailedDelivery};
use serde_json::{Value, json};

use crate::args::{DlqCommand, Filters, Purge, Queue, Replay};
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Cell, Table};
use crate::text::{self, FAINT, HEAD, ODD};
use crate::{publish, tail, time};

pub(crate) async fn run(
    broker: &Broker,
    command: &DlqCommand,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        DlqCommand::Stats { queue, filters } => {
            let dlq = open(broker, queue).await?;
            let stats = dlq.stats().matching(filters.filter()).await?;
            show_stats(&stats, output)
        }
        DlqCommand::List {
            queue,
            filters,
            count,
            newest,
            after,
        } => {
            let dlq = open(broker, queue).await?;
            let mut list = dlq.list().matching(filters.filter()).count(*count);
            if *newest {
                list = list.newest_first();
            }
            if let Some(after) = after {
                list = list.after(*after);
            }
            let page = list.await?;
            show_list(&page.letters, page.next, output)
        }
        DlqCommand::Show { queue, id } => {
            let letter = open(broker, queue).await?.get(*id).await?;
            let letter = letter.ok_or_else(|| no_letter(queue, *id))?;
            show_letter(&letter, output)
        }
        DlqCommand::Edit { queue, id, body } => {
            edit(broker, queue, *id, body.as_deref(), output).await
        }
        DlqCommand::Replay(ask) => replay(broker, ask, output).await,
        DlqCommand::Purge(ask) => purge(broker, ask, output).await,
    }
}

/// The queue that was named, or the one that the stream's workers say they use, or the usual one.
async fn open(broker: &Broker, queue: &Queue) -> Result<Dlq, Failure> {
    let dlq = broker.dlq(&queue.stream);
    let dlq = match &queue.queue {
        Some(name) => dlq.queue(name),
        None => {
            let workers = broker.inspect(&queue.stream).workers().await;
            let workers = workers.unwrap_or_default();
            let names: BTreeSet<_> = workers.iter().map(|one| one.dlq.as_str()).collect();
            match Vec::from_iter(names).as_slice() {
                [] => dlq,
                [name] => dlq.queue(name),
                several => {
                    return Err(Failure::Usage(format!(
                        "`{}` has several dead-letter queues: say which one with `--queue`: {}",
                        text::plain(&queue.stream),
                        text::plain(&several.join(", "))
                    )));
                }
            }
        }
    };
    Ok(if queue.parked { dlq.parked() } else { dlq })
}

fn no_letter(queue: &Queue, id: EntryId) -> Failure {
    let stream = text::plain(&queue.stream);
    Failure::Failed(format!(
        "`{stream}` has no dead letter {id}; `rillkit dlq list {stream}` lists them"
    ))
}

impl Filters {
    fn filter(&self) -> Filter {
        let mut filter = Filter::new();
        for reason in &self.reason {
            filter = filter.reason(reason);
        }
        for error in &self.error {
            filter = filter.error_contains(error);
        }
        for handler in &self.handler {
            filter = filter.handler(handler);
        }
        for group in &self.group {
            filter = filter.group(group);
        }
        if let Some(age) = self.older_than {
            filter = filter.older_than(age);
        }
        if let Some(age) = self.younger_than {
            filter = filter.younger_than(age);
        }
        if let Some(id) = self.from {
            filter = filter.from(id);
        }
        if let Some(id) = self.to {
            filter = filter.to(id);
        }
        if !self.id.is_empty() {
            filter = filter.ids(self.id.iter().copied());
        }
        filter
    }
}

fn show_stats(stats: &DlqStats, output: &mut Output) -> Result<(), Failure> {
    let groups = [
        ("REASON", "by_reason", &stats.by_reason),
        ("ERROR", "by_error", &stats.by_error),
        ("HANDLER", "by_handler", &stats.by_handler),
        ("GROUP", "by_group", &stats.by_group),
    ];
    if output.json {
        let mut document = json!({
            "count": stats.count, "others": stats.others, "oldest": stats.oldest,
            "newest": stats.newest, "other_errors": stats.other_errors, "replayed": stats.replayed,
        });
        for (_, name, counts) in groups {
            let rows = counts.iter();
            document[name] = rows
                .map(|(what, count)| json!({ "value": what, "count": count }))
                .collect();
        }
        return output.document(&document);
    }
    let now = time::now();
    let mut told = text::count(stats.count, "dead letter");
    if let (Some(oldest), Some(newest)) = (stats.oldest, stats.newest) {
        let (oldest, newest) = (time::age(oldest, now), time::age(newest, now));
        let (oldest, newest) = (time::short(oldest), time::short(newest));
        told.push_str(&format!(", the oldest {oldest} old, the newest {newest}"));
    }
    if stats.replayed > 0 {
        told.push_str(&format!(", {} replayed before", stats.replayed));
    }
    output.line(&told)?;
    if stats.others > 0 {
        let others = text::count(stats.others, "letter");
        output.line(&format!("{others} of other streams in the same queue"))?;
    }
    for (head, _, counts) in groups {
        if counts.is_empty() {
            continue;
        }
        let mut table = Table::new(["COUNT", head]);
        for (what, count) in counts {
            let what = if what.is_empty() { "(none)" } else { what };
            table.row([Cell::number(count), Cell::text(what)]);
        }
        if head == "ERROR" && stats.other_errors > 0 {
            let others = Cell::text("(others)").styled(FAINT);
            table.row([Cell::number(stats.other_errors), others]);
        }
        output.line("")?;
        output.table(&table)?;
    }
    Ok(())
}

fn show_list(
    letters: &[Letter],
    next: Option<EntryId>,
    output: &mut Output,
) -> Result<(), Failure> {
    if output.json {
        let letters: Vec<_> = letters.iter().map(document).collect();
        return output.document(&json!({ "letters": letters, "next": next }));
    }
    if letters.is_empty() {
        output.note("no dead letters");
        return Ok(());
    }
    let mut table = Table::new(["ID", "AGE", "REASON", "RUNS", "REPLAYS", "GROUP", "ERROR"]);
    let now = time::now();
    let room = output.width().map(|width| width.saturating_sub(70).max(20));
    for letter in letters {
        table.row([
            Cell::text(letter.id().to_string()),
            Cell::number(time::short(time::age(letter.id(), now))),
            Cell::text(letter.reason().unwrap_or("-")),
            Cell::known(letter.deliveries(), |count| count.to_string()),
            Cell::number(letter.replays()),
            Cell::text(letter.group().unwrap_or("-")),
            Cell::text(text::cut(&text::plain(letter.error().unwrap_or("-")), room)),
        ]);
    }
    output.table(&table)?;
    if let Some(next) = next {
        output.note(&format!("there are more: `--after {next}`"));
    }
    Ok(())
}

fn document(letter: &Letter) -> Value {
    let mut document = tail::document(letter.id(), letter.fields());
    let more = json!({
        "original_id": letter.original_id(), "stream": letter.stream(), "group": letter.group(),
        "reason": letter.reason(), "error": letter.error(), "deliveries": letter.deliveries(),
        "handler": letter.handler(), "consumer": letter.consumer(), "replays": letter.replays(),
        "attempts": letter.attempts(),
    });
    if let (Value::Object(document), Value::Object(more)) = (&mut document, more) {
        document.extend(more);
    }
    document
}

fn show_letter(letter: &Letter, output: &mut Output) -> Result<(), Failure> {
    if output.json {
        return output.document(&document(letter));
    }
    let age = time::short(time::age(letter.id(), time::now()));
    output.line(&format!("{HEAD}{}{HEAD:#}  {age} old", letter.id()))?;
    for (name, value) in letter.fields().iter() {
        // These have a place of their own.
        if name == b"data" || name == b"x-attempts" {
            continue;
        }
        let (name, value) = (text::lossy(name), text::lossy(value));
        let style = match name.as_str() {
            "x-error" => ODD,
            _ => anstyle::Style::new(),
        };
        let (name, value) = (text::plain(&name), text::plain(&value));
        output.line(&format!("{FAINT}{name}:{FAINT:#} {style}{value}{style:#}"))?;
    }
    let attempts = letter.attempts();
    if !attempts.is_empty() {
        output.line("")?;
        output.table(&attempts_table(&attempts))?;
    }
    let Some(data) = letter.data() else {
        return Ok(());
    };
    output.line("")?;
    match serde_json::from_slice::<Value>(data) {
        Ok(body) => output.document(&body),
        Err(_) => output.line(&text::plain(&text::lossy(data))),
    }
}

async fn edit(
    broker: &Broker,
    queue: &Queue,
    id: EntryId,
    body: Option<&str>,
    output: &mut Output,
) -> Result<(), Failure> {
    let dlq = open(broker, queue).await?;
    let letter = dlq.get(id).await?;
    let letter = letter.ok_or_else(|| no_letter(queue, id))?;
    let body = match body {
        Some(body) => body.to_owned(),
        None => {
            let Some(body) = edit::edited(id, &text::lossy(letter.data().unwrap_or_default()))?
            else {
                output.note("the body is as it was: nothing was changed");
                return Ok(());
            };
            body
        }
    };
    let body = publish::json_text(&body)
        .map_err(|why| Failure::Usage(format!("the new body is not JSON: {why}")))?;
    let moved = dlq.edit(id, &*body).await?;
    let moved = moved.ok_or_else(|| no_letter(queue, id))?;
    match output.json {
        true => output.document(&json!({ "moved": id, "id": moved })),
        false => output.line(&format!("{id} moved back, as {moved}")),
    }
}

fn attempts_table(attempts: &[FailedDelivery]) -> Table {
    let mut table = Table::new(["RUN", "TOOK", "REASON", "CONSUMER", "ERROR"]);
    for attempt in attempts {
        let took = attempt.ended_ms().saturating_sub(attempt.began_ms());
        table.row([
            Cell::number(attempt.number()),
            Cell::number(time::short(Duration::from_millis(took))),
            Cell::text(attempt.reason()),
            Cell::text(attempt.consumer()),
            Cell::text(attempt.error()),
        ]);
    }
    table
}

async fn replay(broker: &Broker, ask: &Replay, output: &mut Output) -> Result<(), Failure> {
    let dlq = open(broker, &ask.queue).await?;
    let mut replay = dlq.replay().matching(ask.filters.filter());
    replay = replay.count(ask.count.unwrap_or(usize::MAX));
    if let Some(rate) = ask.rate {
        replay = replay.rate(rate);
    }
    if let Some(replays) = ask.at_most_replays {
        replay = replay.at_most_replays(replays);
    }
    if let Some(share) = ask.stop_when_failing {
        replay = replay.stop_when_failing(share);
    }
    if ask.to_every_group {
        replay = replay.to_every_group();
    }
    if !ask.yes {
        replay = replay.dry_run();
    }
    let total = dlq.len().await?.min(ask.count.unwrap_or(usize::MAX) as u64);
    let mut progress = output.progress("replaying", Some(total));
    let replay = replay.on_progress(move |report| progress.at(report.moved + report.parked));
    let report = match replay.await {
        Ok(report) => report,
        Err(unfinished) => return Err(unfinished.error().clone().into()),
    };
    tell_replay(&report, ask, output)?;
    match report.stopped {
        None => Ok(()),
        Some(Stopped::NothingEnds) => Err(Failure::Failed(
            "stopped: none of the replayed messages has ended for a long time; is a worker running?"
                .to_owned(),
        )),
        Some(_) => Err(Failure::Failed(format!(
            "stopped: {} of {} replayed messages failed again; mend the fault, then replay the rest",
            report.failed_again, report.ended
        ))),
    }
}

fn tell_replay(report: &ReplayReport, ask: &Replay, output: &mut Output) -> Result<(), Failure> {
    if output.json {
        return output.document(&json!({
            "dry_run": !ask.yes, "moved": report.moved, "parked": report.parked,
            "skipped": report.skipped, "last": report.last, "ended": report.ended,
            "failed_again": report.failed_again, "stopped": report.stopped.is_some(),
        }));
    }
    let mut told = said(ask.yes, report.moved, "moved");
    if report.parked > 0 {
        told.push_str(&format!(", {} put aside", report.parked));
    }
    if report.skipped > 0 {
        told.push_str(&format!(", {} left as they are", report.skipped));
    }
    output.line(&told)?;
    hint(ask.yes, report.moved + report.parked, output);
    Ok(())
}

async fn purge(broker: &Broker, ask: &Purge, output: &mut Output) -> Result<(), Failure> {
    let dlq = open(broker, &ask.queue).await?;
    let filter = ask.filters.filter();
    if filter.is_empty() && !ask.all {
        return Err(Failure::Usage(
            "without a filter every letter would be deleted: give one, or say `--all`".to_owned(),
        ));
    }
    let mut purge = dlq.purge().matching(filter);
    if ask.all {
        purge = purge.all();
    }
    if let Some(count) = ask.count {
        purge = purge.count(count);
    }
    if !ask.yes {
        purge = purge.dry_run();
    }
    let total = dlq.len().await?;
    let mut progress = output.progress("deleting", Some(total));
    let purge = purge.on_progress(move |report| progress.at(report.deleted));
    let report = match purge.await {
        Ok(report) => report,
        Err(unfinished) => return Err(unfinished.error().clone().into()),
    };
    if output.json {
        let document =
            json!({ "dry_run": !ask.yes, "deleted": report.deleted, "last": report.last });
        return output.document(&document);
    }
    output.line(&said(ask.yes, report.deleted, "deleted"))?;
    hint(ask.yes, report.deleted, output);
    Ok(())
}

fn said(done: bool, count: u64, what: &str) -> String {
    let letters = text::count(count, "dead letter");
    match done {
        true => format!("{letters} {what}"),
        false => format!("{letters} would be {what}"),
    }
}

fn hint(done: bool, count: u64, output: &Output) {
    if !done && count > 0 {
        output.note("nothing was changed; add `--yes` to do it");
    }
}
