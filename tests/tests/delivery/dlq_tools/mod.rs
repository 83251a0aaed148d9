//! The tools for dead letters: `broker.dlq(..)`.

mod edits;
mod in_place;
mod looks;
mod many;
mod purges;
mod replays;

use rillkit::EntryId;
use rillkit::dlq::Dlq;
use rillkit_tests::Job;

use crate::place::Place;

impl Place {
    /// The queue of the stream `jobs`, whatever other tests' handlers call theirs.
    fn dlq(&self) -> Dlq {
        self.worker([]).dlq("jobs")
    }

    /// Adds dead letters `PREFIX0`, `PREFIX1`, .. of the stream `jobs`, with these fields.
    async fn add_letters(
        &self,
        prefix: &str,
        count: usize,
        fields: &[(&str, &str)],
    ) -> Vec<EntryId> {
        let mut ids = Vec::new();
        for number in 0..count {
            let job = Job::new(format!("{prefix}{number}"), "ok");
            let data = serde_json::to_string(&job).expect("JSON");
            let body = [("data", data.as_str()), ("x-stream", "jobs")];
            let letter = body.iter().chain(fields).copied();
            let added = self.broker.publish_fields("jobs-dlq", letter).await;
            ids.push(added.expect("added"));
        }
        ids
    }
}
