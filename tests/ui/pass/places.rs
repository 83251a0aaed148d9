//! Handlers can be anywhere a function can be, and share names as functions can.

#![deny(warnings)]

use rillkit::{Message, handlers, subscribe};

mod mail {
    #[rillkit::subscribe(stream = "mails", group = "workers")]
    pub async fn run(_mail: String) {}
}

mod jobs {
    pub mod deep {
        #[rillkit::subscribe(stream = "jobs", group = "workers")]
        pub(in crate::jobs) async fn run(_job: String) {}
    }

    pub fn listed() -> [&'static rillkit::Subscription; 1] {
        rillkit::handlers![deep::run]
    }
}

#[subscribe(stream = "raw", group = "workers")]
async fn r#match(_message: Message) {}

macro_rules! handler {
    ($(#[$attribute:meta])* $vis:vis $name:ident, $stream:expr, $group:literal, $retries:expr, $policy:ident, $ty:ty, $body:block) => {
        $(#[$attribute])*
        #[subscribe(stream = $stream, group = $group, max_retries = $retries, ack_policy = $policy)]
        $vis async fn $name(_body: $ty) $body
    };
    ($name:ident) => {
        #[subscribe(stream = "short", group = "workers", crate = $crate::again)]
        async fn $name(_body: u64, _message: Message) {}
    };
}

mod again {
    pub use rillkit::*;
}

handler!(
    /// Made by a macro.
    pub(crate) made, "made", "workers", 5, ack_always, Vec<String>, { drop(String::new()) }
);
handler!(short);

fn main() {
    #[subscribe(stream = "nested", group = "workers")]
    async fn nested(_job: Job) {}

    #[derive(serde::Deserialize)]
    struct Job {
        _name: String,
    }

    let all = handlers![mail::run, r#match, made, short, nested];
    assert_eq!(all.map(|handler| handler.name()), ["run", "match", "made", "short", "nested"]);
    assert_eq!(all.map(|handler| handler.stream()), ["mails", "raw", "made", "short", "nested"]);
    assert!(all[0].path().ends_with("::mail::run"));
    let [deep] = jobs::listed();
    assert!(deep.path().ends_with("::jobs::deep::run"));
}
