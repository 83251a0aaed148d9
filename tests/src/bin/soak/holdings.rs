//! What the server holds when everything is over, asked of the server itself.

use std::collections::BTreeMap;

use rillkit_servers::{Client, Reply, Server};
use serde_json::Value;

use crate::ledger::Key;
use crate::plan::{GROUP, PLANS};

/// All entries, dead letters, and what is still to do.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    /// The ids of each message; there should be one.
    pub(crate) entries: BTreeMap<Key, Vec<String>>,
    /// By the original id.
    pub(crate) letters: BTreeMap<(String, String), Vec<Letter>>,
    /// Entries that are pending or unread, by stream.
    pub(crate) left: BTreeMap<String, usize>,
}

#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) reason: String,
    pub(crate) deliveries: u64,
    /// When it was written, in microseconds.
    pub(crate) at: u64,
}

impl Holdings {
    /// Whether everything is read and nothing is pending.
    pub(crate) fn are_done(server: &Server) -> bool {
        let mut client = server.connect();
        PLANS.iter().all(|plan| left(&mut client, plan.stream) == 0)
    }

    pub(crate) fn of(server: &Server) -> Self {
        let mut client = server.connect();
        let mut holdings = Self::default();
        for stream in PLANS.map(|plan| plan.stream) {
            for entry in ask(&mut client, &["XRANGE", stream, "-", "+"]).list() {
                let key = (stream.to_owned(), number(&entry));
                let ids = holdings.entries.entry(key).or_default();
                ids.push(entry[0].text());
            }
            let dlq = format!("{stream}-dlq");
            for entry in ask(&mut client, &["XRANGE", &dlq, "-", "+"]).list() {
                let letter = Letter {
                    reason: field(&entry, "x-reason"),
                    deliveries: field(&entry, "x-deliveries").parse().expect("a count"),
                    at: milliseconds(&entry[0].text()) * 1000,
                };
                let original = (stream.to_owned(), field(&entry, "x-original-id"));
                holdings.letters.entry(original).or_default().push(letter);
            }
            let left = left(&mut client, stream);
            holdings.left.insert(stream.into(), left);
        }
        holdings
    }
}

/// When the server made this id.
pub(crate) fn milliseconds(id: &str) -> u64 {
    let (time, _) = id.split_once('-').expect("an id");
    time.parse().expect("a time")
}

/// How many clients are connected beside the one that asks.
pub(crate) fn connections(server: &Server) -> usize {
    let clients = server.command(&["CLIENT", "LIST"]).text();
    clients.lines().count() - 1
}

/// Entries that are pending or not read yet.
fn left(client: &mut Client, stream: &str) -> usize {
    let groups = ask(client, &["XINFO", "GROUPS", stream]);
    let Reply::List(groups) = groups else {
        return 1;
    };
    let Some(group) = groups.first() else {
        return 1;
    };
    let read = field_of(&group.list(), "last-delivered-id").text();
    let unread = ask(client, &["XRANGE", stream, &format!("({read}"), "+"]);
    let pending = ask(client, &["XPENDING", stream, GROUP])[0].int();
    unread.list().len() + usize::try_from(pending).expect("a count")
}

fn number(entry: &Reply) -> u64 {
    let data = field(entry, "data");
    match serde_json::from_str(&data).expect("JSON") {
        Value::String(text) => text.parse().ok(),
        body => body["number"].as_u64(),
    }
    .expect("a number")
}

fn field(entry: &Reply, name: &str) -> String {
    field_of(&entry[1].list(), name).text()
}

fn field_of(flat: &[Reply], name: &str) -> Reply {
    let field = flat.chunks(2).find(|field| field[0].text() == name);
    field.expect("a field of this name")[1].clone()
}

fn ask(client: &mut Client, command: &[&str]) -> Reply {
    client.command(command).expect("an answer")
}
