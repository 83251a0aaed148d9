//! Changes of the pending list: acks, touches, take-overs and hand-backs.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Script, ScriptInvocation, Value};

use super::acking::Acking;
use super::{RedisStore, fenced, ms, reply};
use crate::entry_id::EntryId;
use crate::store::{Acked, Charge, Consumer, Fault, Fenced, Return, Take, Taken, Token};

static ACK: LazyLock<Acking> = LazyLock::new(|| Acking::new(include_str!("scripts/ack.lua")));
static ACK_ALL: LazyLock<Acking> =
    LazyLock::new(|| Acking::new(include_str!("scripts/ack_all.lua")));
static TOUCH: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/touch.lua")));
static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/take.lua")));
static GIVE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/give.lua")));
static REMOVE_CONSUMER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/remove_consumer.lua")));

/// Tokens in one script call: a script holds up everybody else on the server while it runs.
pub(super) const CHUNK: usize = 200;

impl RedisStore {
    pub(in crate::store) async fn ack(
        &self,
        consumer: &Consumer,
        ids: &[EntryId],
    ) -> Result<(), Fault> {
        if ids.is_empty() {
            return Ok(());
        }
        if consumer.acked == Acked::Goes {
            return self.ack_and_delete(consumer, ids).await;
        }
        let mut ack = Cmd::with_capacity(ids.len() + 3, ids.len() * 18 + 64);
        ack.arg("XACK").arg(consumer.stream).arg(consumer.group);
        for id in ids {
            id_arg(&mut ack, *id);
        }
        self.links.run(consumer.stream, &ack).await.map(drop)
    }

    async fn ack_and_delete(&self, consumer: &Consumer, ids: &[EntryId]) -> Result<(), Fault> {
        for chunk in ids.chunks(CHUNK) {
            let fill = |script: &mut ScriptInvocation<'_>| {
                script.key(consumer.stream).arg(consumer.group);
                for id in chunk {
                    script.arg(id.to_string());
                }
            };
            let script = ACK_ALL.when(Acked::Goes);
            let answer = self.links.run_script(consumer.stream, script, fill);
            answer.await?;
        }
        Ok(())
    }

    pub(in crate::store) async fn ack_fenced(
        &self,
        consumer: &Consumer,
        tokens: &[Token],
    ) -> Result<Vec<Fenced>, Fault> {
        self.for_tokens(ACK.when(consumer.acked), consumer, tokens)
            .await
    }

    pub(in crate::store) async fn touch(
        &self,
        consumer: &Consumer,
        tokens: &[Token],
    ) -> Result<Vec<Fenced>, Fault> {
        self.for_tokens(&TOUCH, consumer, tokens).await
    }

    pub(in crate::store) async fn take(
        &self,
        consumer: &Consumer,
        takes: &[Take],
    ) -> Result<Vec<Taken>, Fault> {
        let mut taken = Vec::with_capacity(takes.len());
        for chunk in takes.chunks(CHUNK) {
            let answer = self
                .script(&TAKE, consumer, |script| {
                    for Take {
                        token,
                        owner,
                        min_idle,
                        charge,
                    } in chunk
                    {
                        let count = token.deliveries + u64::from(*charge == Charge::Counted);
                        script
                            .arg(token.id.to_string())
                            .arg(&**owner)
                            .arg(token.deliveries);
                        script.arg(ms(*min_idle)).arg(count);
                    }
                })
                .await?;
            for answer in reply::array(answer)? {
                taken.push(self::taken(answer)?);
            }
        }
        Ok(taken)
    }

    pub(in crate::store) async fn give(
        &self,
        consumer: &Consumer,
        to: &str,
        returns: &[Return],
    ) -> Result<Vec<Fenced>, Fault> {
        let mut given = Vec::with_capacity(returns.len());
        for chunk in returns.chunks(CHUNK) {
            let answer = self
                .script(&GIVE, consumer, |script| {
                    script.arg(to);
                    for Return {
                        token,
                        deliveries,
                        idle,
                    } in chunk
                    {
                        script
                            .arg(token.id.to_string())
                            .arg(token.deliveries)
                            .arg(*deliveries)
                            .arg(ms(*idle));
                    }
                })
                .await?;
            for answer in reply::array(answer)? {
                given.push(fenced(&answer)?);
            }
        }
        Ok(given)
    }

    pub(in crate::store) async fn remove_consumer(
        &self,
        consumer: &Consumer,
        min_idle: Duration,
    ) -> Result<bool, Fault> {
        let fill = |script: &mut ScriptInvocation<'_>| {
            script.arg(ms(min_idle));
        };
        let answer = self.script(&REMOVE_CONSUMER, consumer, fill).await?;
        Ok(reply::number(&answer)? == 1)
    }

    async fn for_tokens(
        &self,
        script: &Script,
        consumer: &Consumer,
        tokens: &[Token],
    ) -> Result<Vec<Fenced>, Fault> {
        let mut all = Vec::with_capacity(tokens.len());
        for chunk in tokens.chunks(CHUNK) {
            let answer = self
                .script(script, consumer, |script| {
                    for token in chunk {
                        script.arg(token.id.to_string()).arg(token.deliveries);
                    }
                })
                .await?;
            for answer in reply::array(answer)? {
                all.push(fenced(&answer)?);
            }
        }
        Ok(all)
    }

    async fn script(
        &self,
        script: &Script,
        consumer: &Consumer,
        fill: impl FnOnce(&mut ScriptInvocation<'_>),
    ) -> Result<Value, Fault> {
        let fill = |script: &mut ScriptInvocation<'_>| {
            script
                .key(consumer.stream)
                .arg(consumer.group)
                .arg(&*consumer.name);
            fill(script);
        };
        self.links.run_script(consumer.stream, script, fill).await
    }
}

/// Writes an id without a string of its own: an ack has hundreds.
fn id_arg(command: &mut Cmd, id: EntryId) {
    let (mut ms, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
    let (ms, seq) = (ms.format(id.ms).as_bytes(), seq.format(id.seq).as_bytes());
    let mut text = [0u8; 41];
    let (first, rest) = text.split_at_mut(ms.len());
    first.copy_from_slice(ms);
    rest[0] = b'-';
    rest[1..=seq.len()].copy_from_slice(seq);
    command.arg(&text[..=ms.len() + seq.len()]);
}

fn taken(answer: Value) -> Result<Taken, Fault> {
    match answer {
        Value::Int(0) => Ok(Taken::Gone),
        Value::Int(-1) => Ok(Taken::Other),
        Value::Int(2) => Ok(Taken::Lost),
        fields => reply::fields(fields).map(Taken::Entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_as_it_is_shown() {
        for id in [
            EntryId::MIN,
            EntryId {
                ms: 1_700_000_000_000,
                seq: 3,
            },
            EntryId::MAX,
        ] {
            let (mut fast, mut plain) = (Cmd::new(), Cmd::new());
            id_arg(&mut fast, id);
            plain.arg(id.to_string());
            assert_eq!(fast.get_packed_command(), plain.get_packed_command());
        }
    }
}
