//! What is kept about failed deliveries: a hash beside the stream for each group. A row is named by
//! the entry's id and a number that is used in turn, so that it is written without a look.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, Value, cmd};

use super::{RedisStore, reply, slot};
use crate::fields::Fields;
use crate::history::{slot, slots_before, spliced};
use crate::store::{Consumer, Fault, Row, Token};

static TIDY: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/tidy_history.lua")));

/// How long a history outlives its last row: for groups that are gone.
const OUTLIVES: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Rows that one look goes through, about: a script holds up everybody else while it runs.
const PAGE: usize = 100;
/// Messages in one command.
const CHUNK: usize = 200;

/// The hash of a group.
pub(super) fn key(consumer: &Consumer) -> String {
    slot::beside(consumer.stream, &format!("attempts:{}", consumer.group))
}

/// The rows of the deliveries before this one.
pub(super) fn names_before(token: Token) -> Vec<String> {
    slots_before(token.deliveries)
        .map(|slot| name(token, slot))
        .collect()
}

fn name(token: Token, slot: u64) -> String {
    format!("{}:{slot}", token.id)
}

impl RedisStore {
    pub(in crate::store) async fn keep_history(
        &self,
        consumer: &Consumer,
        rows: &[Row],
    ) -> Result<(), Fault> {
        let key = key(consumer);
        for rows in rows.chunks(CHUNK) {
            let mut set = cmd("HSET");
            set.arg(&key);
            for Row { token, text } in rows {
                set.arg(name(*token, slot(token.deliveries))).arg(text);
            }
            self.links.run(consumer.stream, &set).await?;
        }
        let mut expire = cmd("EXPIRE");
        expire.arg(&key).arg(OUTLIVES.as_secs());
        self.links.run(consumer.stream, &expire).await.map(drop)
    }

    pub(in crate::store) async fn forget_history(
        &self,
        consumer: &Consumer,
        tokens: &[Token],
    ) -> Result<(), Fault> {
        let key = key(consumer);
        for tokens in tokens.chunks(CHUNK) {
            let names: Vec<_> = tokens
                .iter()
                .flat_map(|token| names_before(*token))
                .collect();
            if !names.is_empty() {
                let mut delete = cmd("HDEL");
                delete.arg(&key).arg(names);
                self.links.run(consumer.stream, &delete).await?;
            }
        }
        Ok(())
    }

    pub(in crate::store) async fn tidy_history(
        &self,
        consumer: &Consumer,
        from: u64,
    ) -> Result<u64, Fault> {
        let answer = self
            .links
            .run_script(consumer.stream, &TIDY, |script| {
                script.key(consumer.stream).key(key(consumer));
                script.arg(consumer.group).arg(from).arg(PAGE);
            })
            .await?;
        reply::number(&answer)
    }

    /// The letter with what is known about earlier deliveries in its last field.
    pub(super) async fn told_in(
        &self,
        letter: &Fields,
        consumer: &Consumer,
        token: Token,
    ) -> Fields {
        let names = names_before(token);
        let mut get = cmd("HMGET");
        get.arg(key(consumer)).arg(&names);
        let kept = match self.links.run(consumer.stream, &get).await {
            Ok(Value::Array(kept)) if !names.is_empty() => kept,
            // What cannot be read is not told.
            _ => Vec::new(),
        };
        let rows = kept.iter().filter_map(|row| match row {
            Value::BulkString(row) => Some(row.as_slice()),
            _ => None,
        });
        letter.with_last(|list| spliced(rows, list))
    }
}
