//! Dead letters: the way to the DLQ, back, and out.

use std::sync::LazyLock;

use redis::{Script, Value, cmd};

use super::acking::Acking;
use super::{RedisStore, fenced, history, reply, xadd};
use crate::entry_id::EntryId;
use crate::fields::Fields;
use crate::store::{Consumer, Fault, Fenced, Replayed, Rows, SCRIPT_FIELDS, Token};

static DEAD_LETTER: LazyLock<Acking> =
    LazyLock::new(|| Acking::new(include_str!("scripts/dead_letter.lua")));
static REPLAY: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/replay.lua")));

impl RedisStore {
    pub(in crate::store) async fn dead_letter(
        &self,
        consumer: &Consumer,
        token: Token,
        dlq: &str,
        letter: &Fields,
        rows: Rows,
    ) -> Result<Fenced, Fault> {
        if letter.len() > SCRIPT_FIELDS {
            return self
                .dead_letter_in_steps(consumer, token, dlq, letter, rows)
                .await;
        }
        self.together(consumer.stream, dlq)?;
        let names = match rows {
            Rows::Moved => history::names_before(token),
            Rows::Left => Vec::new(),
        };
        let answer = self
            .links
            .run_script(
                consumer.stream,
                DEAD_LETTER.when(consumer.acked),
                |script| {
                    script
                        .key(consumer.stream)
                        .key(dlq)
                        .arg(consumer.group)
                        .arg(&*consumer.name);
                    script.arg(token.id.to_string()).arg(token.deliveries);
                    script.arg(names.len());
                    if !names.is_empty() {
                        script.key(history::key(consumer)).arg(&names);
                    }
                    for (name, value) in letter.iter() {
                        script.arg(name).arg(value);
                    }
                },
            )
            .await?;
        fenced(&answer)
    }

    /// For a letter with more fields than Lua can pass on. A crash between the steps leaves the
    /// entry pending, so that the letter is added again: doubled, not lost.
    async fn dead_letter_in_steps(
        &self,
        consumer: &Consumer,
        token: Token,
        dlq: &str,
        letter: &Fields,
        rows: Rows,
    ) -> Result<Fenced, Fault> {
        match self.touch(consumer, &[token]).await?.first() {
            Some(Fenced::Done) => {}
            Some(other) => return Ok(*other),
            None => return Err(reply::odd("a script")),
        }
        let letter = match rows {
            Rows::Moved => &self.told_in(letter, consumer, token).await,
            Rows::Left => letter,
        };
        self.links.run(dlq, &xadd(dlq, letter)).await?;
        self.ack_fenced(consumer, &[token]).await?;
        if rows == Rows::Moved {
            // It is only history.
            let _ = self.forget_history(consumer, &[token]).await;
        }
        Ok(Fenced::Done)
    }

    pub(in crate::store) async fn replay(
        &self,
        dlq: &str,
        id: EntryId,
        stream: &str,
        fields: &Fields,
    ) -> Result<Replayed, Fault> {
        if fields.len() > SCRIPT_FIELDS {
            return self.replay_in_steps(dlq, id, stream, fields).await;
        }
        self.together(stream, dlq)?;
        let answer = self
            .links
            .run_script(dlq, &REPLAY, |script| {
                script.key(dlq).key(stream).arg(id.to_string());
                for (name, value) in fields.iter() {
                    script.arg(name).arg(value);
                }
            })
            .await?;
        match answer {
            Value::Nil => Ok(Replayed::Gone),
            id => reply::id(&id).map(Replayed::Moved),
        }
    }

    pub(in crate::store) async fn delete(
        &self,
        stream: &str,
        ids: &[EntryId],
    ) -> Result<u64, Fault> {
        if ids.is_empty() {
            return Ok(0);
        }
        let mut delete = cmd("XDEL");
        delete.arg(stream);
        for id in ids {
            delete.arg(id.to_string());
        }
        reply::number(&self.links.run(stream, &delete).await?)
    }

    /// For a letter with more fields than Lua can pass on: a crash between the steps leaves it in
    /// the DLQ as well, doubled and not lost.
    async fn replay_in_steps(
        &self,
        dlq: &str,
        id: EntryId,
        stream: &str,
        fields: &Fields,
    ) -> Result<Replayed, Fault> {
        if self.range(dlq, id, id, 1).await?.is_empty() {
            return Ok(Replayed::Gone);
        }
        let moved = reply::id(&self.links.run(stream, &xadd(stream, fields)).await?)?;
        self.links
            .run(dlq, cmd("XDEL").arg(dlq).arg(id.to_string()))
            .await?;
        Ok(Replayed::Moved(moved))
    }
}
