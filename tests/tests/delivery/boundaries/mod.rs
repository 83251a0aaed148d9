//! Every command that moves a message, broken at its boundaries: its answer is lost after the server has carried
//! it out, its connection is cut before it arrives, and its worker is killed before and after it. Whatever is
//! broken, nothing is lost, and nothing runs more often than the tables say.

mod publishers;
mod workers;

use rillkit_servers::{Proxy, wait_until};
use rillkit_tests::Job;

use crate::place::Place;

macro_rules! script {
    ($name:literal) => {
        Some(include_str!(concat!(
            "../../../../rillkit/src/store/redis/scripts/",
            $name,
            ".lua"
        )))
    };
}
use script;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Boundary {
    ReplyLost,
    RequestLost,
    KilledBefore,
    KilledAfter,
}

impl Boundary {
    const ALL: [Self; 4] = [
        Self::ReplyLost,
        Self::RequestLost,
        Self::KilledBefore,
        Self::KilledAfter,
    ];

    fn kills(self) -> bool {
        matches!(self, Self::KilledBefore | Self::KilledAfter)
    }

    fn set(self, proxy: &Proxy, word: &str) {
        match self {
            Self::ReplyLost => proxy.lose_reply_of(word),
            Self::RequestLost => proxy.lose_request_of(word),
            Self::KilledBefore => proxy.hold_request_of(word),
            Self::KilledAfter => proxy.hold_reply_of(word),
        }
    }

    #[track_caller]
    fn wait_for(self, proxy: &Proxy) {
        wait_until(&format!("it breaks at {self:?}"), || {
            proxy.lost_replies() + proxy.lost_requests() == 1
        });
    }
}

/// The word by which the step's command is known on the wire.
fn word(place: &Place, command: &str, script: Option<&str>) -> String {
    match script {
        Some(script) => place.ask(&["SCRIPT", "LOAD", script]).text(),
        None => command.into(),
    }
}

/// Adds a job; its id.
fn add(place: &Place, stream: &str, does: &str) -> String {
    let body = serde_json::to_string(&Job::new("job", does)).expect("JSON");
    place.ask(&["XADD", stream, "*", "data", &body]).text()
}

/// Whether nothing of the stream is unread or pending.
fn is_settled(place: &Place, stream: &str) -> bool {
    let group = &place.ask(&["XINFO", "GROUPS", stream])[0];
    let read = group
        .list()
        .chunks(2)
        .find_map(|field| (field[0].text() == "last-delivered-id").then(|| field[1].text()));
    let last = place.ask(&["XREVRANGE", stream, "+", "-", "COUNT", "1"])[0][0].text();
    read == Some(last) && place.pending(stream, "workers").is_empty()
}
