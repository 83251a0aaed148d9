//! Looks that change nothing: the pending list, consumers, groups, entries.

use std::sync::Arc;

use redis::{Pipeline, Value, cmd};

use super::{RedisStore, reply};
use crate::entry_id::EntryId;
use crate::store::{Entry, Fault, Peer, Pending, Summary, Token};

impl RedisStore {
    pub(in crate::store) async fn summary(
        &self,
        stream: &str,
        group: &str,
    ) -> Result<Summary, Fault> {
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

    pub(in crate::store) async fn peers(
        &self,
        stream: &str,
        group: &str,
    ) -> Result<Vec<Peer>, Fault> {
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

    pub(in crate::store) async fn pending(
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

    pub(in crate::store) async fn still_pending(
        &self,
        stream: &str,
        group: &str,
        ids: &[EntryId],
    ) -> Result<Vec<EntryId>, Fault> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let look = |id: &EntryId| {
            let mut look = cmd("XPENDING");
            look.arg(stream).arg(group);
            look.arg(id.to_string()).arg(id.to_string()).arg(1);
            look
        };
        let mut pipeline = Pipeline::with_capacity(ids.len());
        for id in ids {
            pipeline.add_command(look(id));
        }
        let answers = self.links.run_all(stream, pipeline.ignore_errors()).await?;
        let mut pending = Vec::new();
        for (id, answer) in ids.iter().zip(answers) {
            let answer = match answer {
                // The slot moved in the middle of the pipeline.
                Err(sent_on) if self.links.sends_on(&sent_on) => {
                    self.links.run(stream, &look(id)).await
                }
                answer => answer,
            };
            if !reply::array(answer?)?.is_empty() {
                pending.push(*id);
            }
        }
        Ok(pending)
    }

    pub(in crate::store) async fn groups(
        &self,
        stream: &str,
    ) -> Result<Vec<(String, EntryId)>, Fault> {
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

    pub(in crate::store) async fn last_id(&self, stream: &str) -> Result<Option<EntryId>, Fault> {
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

    pub(in crate::store) async fn range(
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

    pub(in crate::store) async fn look(&self, key: &str) -> Result<Vec<Vec<u8>>, Fault> {
        let kind = self.links.run(key, cmd("TYPE").arg(key)).await?;
        // A set and a hash have no order, or one that nobody can know: how many pieces stay together.
        let (name, rest, together): (_, &[&str], _) = match &*reply::text(kind)? {
            "none" => return Ok(Vec::new()),
            "hash" => ("HGETALL", &[], Some(2)),
            "set" => ("SMEMBERS", &[], Some(1)),
            "zset" => ("ZRANGE", &["0", "-1", "WITHSCORES"], None),
            "list" => ("LRANGE", &["0", "-1"], None),
            _ => ("GET", &[], None),
        };
        let look = cmd(name).arg(key).arg(rest).clone();
        let pieces = reply::pieces(self.links.run(key, &look).await?)?;
        Ok(match together {
            Some(size) => in_order(&pieces, size),
            None => pieces,
        })
    }

    pub(in crate::store) async fn range_back(
        &self,
        stream: &str,
        from: EntryId,
        to: EntryId,
        count: usize,
    ) -> Result<Vec<Entry>, Fault> {
        let mut range = cmd("XREVRANGE");
        range
            .arg(stream)
            .arg(to.to_string())
            .arg(from.to_string())
            .arg("COUNT")
            .arg(count);
        reply::entries(self.links.run(stream, &range).await?)
    }

    pub(in crate::store) async fn len(&self, stream: &str) -> Result<u64, Fault> {
        reply::number(&self.links.run(stream, cmd("XLEN").arg(stream)).await?)
    }

    pub(in crate::store) async fn now_ms(&self, stream: &str) -> Result<u64, Fault> {
        let time = reply::array(self.links.run(stream, &cmd("TIME")).await?)?;
        let [seconds, micros] = time.as_slice() else {
            return Err(reply::odd("TIME"));
        };
        let ms = reply::number(seconds)?.saturating_mul(1000);
        Ok(ms.saturating_add(reply::number(micros)? / 1000))
    }
}

/// Pieces in order, so many of them staying together.
fn in_order(pieces: &[Vec<u8>], size: usize) -> Vec<Vec<u8>> {
    let mut chunks: Vec<_> = pieces.chunks(size).collect();
    chunks.sort();
    chunks.concat()
}

/// `XINFO` answers a missing key with an error that has no code of its own.
pub(super) fn unless_missing(answer: Result<Value, Fault>) -> Result<Option<Value>, Fault> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(fault) if fault.text.to_ascii_lowercase().contains("no such key") => Ok(None),
        Err(fault) => Err(fault),
    }
}
