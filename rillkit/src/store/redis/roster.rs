//! What workers say about themselves: a hash beside the stream, with a row for each.

use std::time::Duration;

use redis::{Pipeline, cmd};

use super::{RedisStore, reply, slot};
use crate::store::{Consumer, Fault};

/// How long the hash stays when nobody writes to it any more.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

impl RedisStore {
    pub(in crate::store) async fn note_worker(
        &self,
        consumer: &Consumer,
        row: &str,
    ) -> Result<(), Fault> {
        let key = key(consumer.stream);
        let mut note = Pipeline::with_capacity(2);
        note.cmd("HSET").arg(&key).arg(field(consumer)).arg(row);
        note.cmd("EXPIRE").arg(&key).arg(KEPT.as_secs());
        let note = note.ignore_errors();
        let answers = self.links.run_all(&key, note).await?;
        answers
            .into_iter()
            .find_map(Result::err)
            .map_or(Ok(()), Err)
    }

    pub(in crate::store) async fn forget_worker(&self, consumer: &Consumer) -> Result<(), Fault> {
        let key = key(consumer.stream);
        let forget = cmd("HDEL").arg(&key).arg(field(consumer)).clone();
        self.links.run(&key, &forget).await.map(drop)
    }

    pub(in crate::store) async fn workers(&self, stream: &str) -> Result<Vec<Vec<u8>>, Fault> {
        let key = key(stream);
        let rows = self.links.run(&key, cmd("HVALS").arg(&key)).await?;
        reply::array(rows)?.into_iter().map(reply::bytes).collect()
    }
}

fn key(stream: &str) -> String {
    slot::beside(stream, "workers")
}

/// No name holds a control character.
fn field(consumer: &Consumer) -> String {
    format!("{}\n{}", consumer.group, consumer.name)
}
