//! The store on a Redis server: every command and script that the crate sends.
//!
//! [`parts`] says where the server is, and [`address`] how to get there: to one [`endpoint`], or by
//! [`sentinel`]; [`tls`] has the certificates. [`link`] makes and replaces connections, [`links`]
//! chooses among those of a [`cluster`], [`fault`] sorts errors, [`reply`] reads answers, [`reader`]
//! is the connection that waits for new entries, [`permissions`] finds out what is forbidden, and
//! [`server_facts`] what the server says about itself. What an operation means is written in
//! [`store`](super).

mod address;
mod asking;
mod cluster;
mod endpoint;
mod fault;
mod link;
mod links;
mod nodes;
mod parts;
mod permissions;
mod reader;
mod reply;
mod sentinel;
mod server_facts;
mod slot;
mod tls;

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::{Cmd, Pipeline, Script, ScriptInvocation, Value, cmd};

use self::links::Links;
pub(crate) use self::parts::{PORT, Parts, Place};
pub(crate) use self::reader::RedisReader;
pub(crate) use self::server_facts::ServerFacts;
use super::{
    Charge, Consumer, Entry, Fault, Fenced, Group, Peer, Pending, Replayed, Return, Start, Summary,
    Take, Taken, Token,
};
use crate::entry_id::EntryId;
use crate::error::Error;
use crate::fields::Fields;

static ACK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/ack.lua")));
static TOUCH: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/touch.lua")));
static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/take.lua")));
static GIVE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/give.lua")));
static DEAD_LETTER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/dead_letter.lua")));
static REPLAY: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/replay.lua")));
static REMOVE_CONSUMER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/remove_consumer.lua")));

/// Tokens in one script call: a script holds up everybody else on the server while it runs.
const CHUNK: usize = 200;
/// Fields that Lua can hand to one command; 3990 pass, 4100 do not, on every server.
const SCRIPT_FIELDS: usize = 3_900;

/// Reads a reply of `XREADGROUP` from its bytes; the entries in it.
#[cfg(feature = "internal-benches")]
pub(crate) fn parse_reply(wire: &[u8]) -> usize {
    let reply = redis::parse_redis_value(wire).unwrap_or(Value::Nil);
    reply::read(reply).map_or(0, |entries| entries.len())
}

/// A Redis server, or a cluster of them. Clones share one connection, in a cluster one to each node.
#[derive(Debug, Clone)]
pub(crate) struct RedisStore {
    links: Links,
}

impl RedisStore {
    pub(crate) fn new(parts: Parts) -> Result<Self, Error> {
        Links::new(parts).map(|links| Self { links })
    }

    pub(crate) fn from_url(url: &str) -> Result<Self, Error> {
        Self::new(Parts::from_url(url)?)
    }

    pub(super) fn separate(&self) -> Self {
        Self {
            links: self.links.separate(),
        }
    }

    pub(super) async fn check(&self) -> Result<(), Fault> {
        self.links.check().await
    }

    pub(super) fn together(&self, stream: &str, dlq: &str) -> Result<(), Fault> {
        self.links.together(stream, dlq)
    }

    pub(super) async fn facts(&self) -> ServerFacts {
        match self.links.any().await {
            Ok(link) => server_facts::ask(&link).await,
            Err(_) => ServerFacts::default(),
        }
    }

    pub(super) async fn permits(&self, consumer: &Consumer, dlq: &str) -> Result<(), Fault> {
        let link = self.links.home(consumer).await?;
        permissions::check(&link, consumer, dlq).await
    }

    pub(super) async fn publish(
        &self,
        stream: &str,
        entries: &[Fields],
    ) -> Result<Vec<Result<EntryId, Fault>>, Fault> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        if let [entry] = entries {
            let answer = self.links.run(stream, &xadd(stream, entry)).await;
            return Ok(vec![answer.and_then(|id| reply::id(&id))]);
        }
        let mut pipeline = Pipeline::with_capacity(entries.len());
        for entry in entries {
            pipeline.add_command(xadd(stream, entry));
        }
        let pipeline = pipeline.ignore_errors();
        let answers = self.links.run_all(stream, pipeline).await?;
        let (mut ids, mut broken) = (Vec::with_capacity(answers.len()), None);
        for (answer, entry) in answers.into_iter().zip(entries) {
            let answer = match (answer, &broken) {
                (Err(sent_on), Some(fault)) if self.links.sends_on(&sent_on) => {
                    Err(Fault::clone(fault))
                }
                // The slot moved in the middle of the pipeline.
                (Err(sent_on), None) if self.links.sends_on(&sent_on) => {
                    let answer = self.links.run(stream, &xadd(stream, entry)).await;
                    broken = answer.as_ref().err().cloned();
                    answer
                }
                (answer, _) => answer,
            };
            ids.push(answer.and_then(|id| reply::id(&id)));
        }
        Ok(ids)
    }

    pub(super) async fn ensure_group(
        &self,
        stream: &str,
        group: &str,
        start: Start,
    ) -> Result<Group, Fault> {
        let mut create = cmd("XGROUP");
        create.arg("CREATE").arg(stream).arg(group);
        match start {
            Start::After(id) => create.arg(id.to_string()),
            Start::New => create.arg("$"),
        };
        match self.links.run(stream, create.arg("MKSTREAM")).await {
            Ok(_) => Ok(Group::Created),
            Err(fault) if fault.text.starts_with("BUSYGROUP") => Ok(Group::Existed),
            Err(fault) => Err(fault),
        }
    }

    pub(super) async fn reader(&self, consumer: &Consumer) -> Result<RedisReader, Fault> {
        self.links.reader(consumer).await
    }

    pub(super) async fn ack(&self, consumer: &Consumer, ids: &[EntryId]) -> Result<(), Fault> {
        if ids.is_empty() {
            return Ok(());
        }
        let mut ack = Cmd::with_capacity(ids.len() + 3, ids.len() * 18 + 64);
        ack.arg("XACK").arg(consumer.stream).arg(consumer.group);
        for id in ids {
            id_arg(&mut ack, *id);
        }
        self.links.run(consumer.stream, &ack).await.map(drop)
    }

    pub(super) async fn ack_fenced(
        &self,
        consumer: &Consumer,
        tokens: &[Token],
    ) -> Result<Vec<Fenced>, Fault> {
        self.for_tokens(&ACK, consumer, tokens).await
    }

    pub(super) async fn touch(
        &self,
        consumer: &Consumer,
        tokens: &[Token],
    ) -> Result<Vec<Fenced>, Fault> {
        self.for_tokens(&TOUCH, consumer, tokens).await
    }

    pub(super) async fn take(
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

    pub(super) async fn give(
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

    pub(super) async fn dead_letter(
        &self,
        consumer: &Consumer,
        token: Token,
        dlq: &str,
        letter: &Fields,
    ) -> Result<Fenced, Fault> {
        if letter.len() > SCRIPT_FIELDS {
            return self
                .dead_letter_in_steps(consumer, token, dlq, letter)
                .await;
        }
        self.together(consumer.stream, dlq)?;
        let answer = self
            .links
            .run_script(consumer.stream, &DEAD_LETTER, |script| {
                script
                    .key(consumer.stream)
                    .key(dlq)
                    .arg(consumer.group)
                    .arg(&*consumer.name);
                script.arg(token.id.to_string()).arg(token.deliveries);
                for (name, value) in letter.iter() {
                    script.arg(name).arg(value);
                }
            })
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
    ) -> Result<Fenced, Fault> {
        match self.touch(consumer, &[token]).await?.first() {
            Some(Fenced::Done) => {}
            Some(other) => return Ok(*other),
            None => return Err(reply::odd("a script")),
        }
        self.links.run(dlq, &xadd(dlq, letter)).await?;
        self.ack_fenced(consumer, &[token]).await?;
        Ok(Fenced::Done)
    }

    pub(super) async fn summary(&self, stream: &str, group: &str) -> Result<Summary, Fault> {
        let answer = reply::array(
            self.links
                .run(stream, cmd("XPENDING").arg(stream).arg(group))
                .await?,
        )?;
        let [pending, lowest, _, consumers] =
            <[Value; 4]>::try_from(answer).map_err(|_| reply::odd("XPENDING"))?;
        let consumers = reply::array(consumers)?.into_iter().map(|row| {
            let mut row = reply::array(row)?.into_iter();
            let (Some(name), Some(count)) = (row.next(), row.next()) else {
                return Err(reply::odd("XPENDING"));
            };
            Ok((Arc::from(reply::text(name)?), reply::number(&count)?))
        });
        Ok(Summary {
            pending: reply::number(&pending)?,
            lowest: reply::id(&lowest).ok(),
            consumers: consumers.collect::<Result<_, Fault>>()?,
        })
    }

    pub(super) async fn peers(&self, stream: &str, group: &str) -> Result<Vec<Peer>, Fault> {
        let answer = self
            .links
            .run(stream, cmd("XINFO").arg("CONSUMERS").arg(stream).arg(group))
            .await?;
        let rows = reply::array(answer)?.into_iter().map(|row| {
            let row = reply::array(row)?;
            let named =
                |name| reply::named(&row, name).ok_or_else(|| reply::odd("XINFO CONSUMERS"));
            Ok(Peer {
                name: reply::text(named("name")?.clone())?.into(),
                pending: reply::number(named("pending")?)?,
                idle: reply::milliseconds(named("idle")?)?,
            })
        });
        rows.collect()
    }

    pub(super) async fn pending(
        &self,
        stream: &str,
        group: &str,
        consumer: &str,
        from: EntryId,
        count: usize,
    ) -> Result<Vec<Pending>, Fault> {
        let mut ask = cmd("XPENDING");
        ask.arg(stream)
            .arg(group)
            .arg(from.to_string())
            .arg("+")
            .arg(count)
            .arg(consumer);
        let rows = reply::array(self.links.run(stream, &ask).await?)?
            .into_iter()
            .map(|row| {
                let row = reply::array(row)?;
                let [id, _, idle, deliveries] = row.as_slice() else {
                    return Err(reply::odd("XPENDING"));
                };
                let token = Token {
                    id: reply::id(id)?,
                    deliveries: reply::number(deliveries)?,
                };
                Ok(Pending {
                    token,
                    idle: reply::milliseconds(idle)?,
                })
            });
        rows.collect()
    }

    pub(super) async fn remove_consumer(
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

    pub(super) async fn groups(&self, stream: &str) -> Result<Vec<(String, EntryId)>, Fault> {
        let answer = self
            .links
            .run(stream, cmd("XINFO").arg("GROUPS").arg(stream))
            .await;
        let Some(answer) = unless_missing(answer)? else {
            return Ok(Vec::new());
        };
        let rows = reply::array(answer)?.into_iter().map(|row| {
            let row = reply::array(row)?;
            let named = |name| reply::named(&row, name).ok_or_else(|| reply::odd("XINFO GROUPS"));
            Ok((
                reply::text(named("name")?.clone())?,
                reply::id(named("last-delivered-id")?)?,
            ))
        });
        rows.collect()
    }

    pub(super) async fn last_id(&self, stream: &str) -> Result<Option<EntryId>, Fault> {
        let answer = self
            .links
            .run(stream, cmd("XINFO").arg("STREAM").arg(stream))
            .await;
        let Some(answer) = unless_missing(answer)? else {
            return Ok(None);
        };
        let row = reply::array(answer)?;
        let last =
            reply::named(&row, "last-generated-id").ok_or_else(|| reply::odd("XINFO STREAM"))?;
        reply::id(last).map(Some)
    }

    pub(super) async fn range(
        &self,
        stream: &str,
        from: EntryId,
        to: EntryId,
        count: usize,
    ) -> Result<Vec<Entry>, Fault> {
        let mut range = cmd("XRANGE");
        range
            .arg(stream)
            .arg(from.to_string())
            .arg(to.to_string())
            .arg("COUNT")
            .arg(count);
        reply::entries(self.links.run(stream, &range).await?)
    }

    pub(super) async fn replay(
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

/// Its address, never the login.
impl fmt::Display for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.links, f)
    }
}

fn xadd(stream: &str, fields: &Fields) -> Cmd {
    let mut add = Cmd::with_capacity(2 * fields.len() + 3, fields.bytes() + stream.len() + 64);
    add.arg("XADD").arg(stream).arg("*");
    for (name, value) in fields.iter() {
        add.arg(name).arg(value);
    }
    add
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

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn fenced(answer: &Value) -> Result<Fenced, Fault> {
    match answer {
        Value::Int(1) => Ok(Fenced::Done),
        Value::Int(0) => Ok(Fenced::Gone),
        Value::Int(-1) => Ok(Fenced::Other),
        _ => Err(reply::odd("a script")),
    }
}

fn taken(answer: Value) -> Result<Taken, Fault> {
    match answer {
        Value::Int(0) => Ok(Taken::Gone),
        Value::Int(-1) => Ok(Taken::Other),
        Value::Int(2) => Ok(Taken::Lost),
        fields => reply::fields(fields).map(Taken::Entry),
    }
}

/// `XINFO` answers a missing key with an error that has no code of its own.
fn unless_missing(answer: Result<Value, Fault>) -> Result<Option<Value>, Fault> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(fault) if fault.text.to_ascii_lowercase().contains("no such key") => Ok(None),
        Err(fault) => Err(fault),
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
