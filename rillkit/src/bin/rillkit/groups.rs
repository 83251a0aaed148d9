//! `rillkit groups`: the groups of a stream, their consumers, and which of these are workers that
//! say that they run.

use std::collections::HashMap;

use rillkit::Broker;
use rillkit::inspect::{ConsumerInfo, GroupInfo, Inspect, WorkerInfo};
use serde::Serialize;
use serde_json::json;

use crate::args::Groups;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Cell, Table};
use crate::text::{FAINT, GOOD, ODD};
use crate::time;

/// A worker that has said nothing for so long does not run any more.
const SILENT_MS: u64 = 180_000;
/// Who keeps what workers hand back when they stop.
pub(crate) const HANDED_BACK: &str = "rillkit:handed-back";

#[derive(Debug, Serialize)]
struct Group {
    #[serde(flatten)]
    info: GroupInfo,
    members: Vec<Member>,
}

#[derive(Debug, Serialize)]
struct Member {
    #[serde(flatten)]
    info: ConsumerInfo,
    state: State,
    worker: Option<WorkerInfo>,
}

/// What is known about a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// It says so.
    Running,
    /// It said so, and has been silent since.
    Silent,
    /// It keeps what stopped workers handed back.
    HandedBack,
    /// It says nothing: another client, or a login that may not.
    Unknown,
}

pub(crate) async fn run(broker: &Broker, ask: &Groups, output: &mut Output) -> Result<(), Failure> {
    let stream = broker.inspect(&ask.stream);
    if stream.info().await?.is_none() {
        return Err(Failure::no_stream(&ask.stream));
    }
    let groups = groups(&stream).await?;
    if output.json {
        return output.document(&json!({ "stream": ask.stream, "groups": groups }));
    }
    if groups.is_empty() {
        output.note("the stream has no groups: no worker has been started on it");
        return Ok(());
    }
    output.table(&overview(&groups))?;
    if ask.consumers {
        output.line("")?;
        output.table(&members(&groups))?;
    }
    Ok(())
}

async fn groups(stream: &Inspect) -> Result<Vec<Group>, Failure> {
    // What a login may not look at is not known.
    let workers = stream.workers().await.unwrap_or_default();
    let workers: HashMap<_, _> = workers
        .into_iter()
        .map(|worker| ((worker.group.clone(), worker.consumer.clone()), worker))
        .collect();
    let now = time::now();
    let mut groups = Vec::new();
    for info in stream.groups().await? {
        let mut members = Vec::new();
        for consumer in stream.consumers(&info.name).await? {
            let key = (info.name.clone(), consumer.name.clone());
            let worker = workers.get(&key).cloned();
            members.push(Member {
                state: state(&consumer.name, worker.as_ref(), now),
                info: consumer,
                worker,
            });
        }
        groups.push(Group { info, members });
    }
    Ok(groups)
}

pub(crate) fn state(name: &str, worker: Option<&WorkerInfo>, now: u64) -> State {
    match worker {
        _ if name == HANDED_BACK => State::HandedBack,
        None => State::Unknown,
        Some(worker) if is_fresh(worker, now) => State::Running,
        Some(_) => State::Silent,
    }
}

/// Whether a worker has said lately that it runs, clocks being not quite the same everywhere.
pub(crate) fn is_fresh(worker: &WorkerInfo, now: u64) -> bool {
    now.abs_diff(worker.noted_at) < SILENT_MS
}

fn overview(groups: &[Group]) -> Table {
    let mut table = Table::new([
        "GROUP",
        "PENDING",
        "LAG",
        "CONSUMERS",
        "RUNNING",
        "OLDEST",
        "IDLE",
        "LAST DELIVERED",
    ]);
    for Group { info, members } in groups {
        let running = members.iter().filter(|one| one.state == State::Running);
        let now = time::now();
        table.row([
            Cell::text(&info.name),
            Cell::number(info.pending),
            Cell::known(info.lag, |lag| lag.to_string()),
            Cell::number(info.consumers),
            Cell::number(running.count()),
            Cell::known(info.oldest_pending, |id| time::short(time::age(id, now))),
            Cell::known(info.oldest_pending_idle, time::short),
            Cell::text(info.last_delivered.to_string()),
        ]);
    }
    table
}

fn members(groups: &[Group]) -> Table {
    let mut table = Table::new(["GROUP", "CONSUMER", "PENDING", "IDLE", "STATE", "HANDLER"]);
    for group in groups {
        for Member {
            info,
            state,
            worker,
        } in &group.members
        {
            let state = match state {
                State::Running => Cell::text("running").styled(GOOD),
                State::Silent => Cell::text("silent").styled(ODD),
                State::HandedBack => Cell::text("handed back").styled(FAINT),
                State::Unknown => Cell::text("unknown").styled(FAINT),
            };
            table.row([
                Cell::text(&group.info.name),
                Cell::text(&info.name),
                Cell::number(info.pending),
                Cell::number(time::short(info.idle)),
                state,
                Cell::text(worker.as_ref().map_or("", |worker| &worker.handler)),
            ]);
        }
    }
    table
}
