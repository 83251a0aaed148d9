//! Looks for people: streams, groups and pending entries at a glance.

use redis::{Value, cmd};

use super::looks::unless_missing;
use super::{RedisStore, reply};
use crate::entry_id::EntryId;
use crate::inspect::{GroupInfo, PendingInfo, StreamInfo};
use crate::store::Fault;

/// Keys looked at in one step.
const STEP: usize = 500;

impl RedisStore {
    pub(in crate::store) async fn streams(&self) -> Result<Vec<String>, Fault> {
        let mut names = Vec::new();
        for link in self.links.every().await? {
            let mut cursor = "0".to_owned();
            loop {
                let mut scan = cmd("SCAN");
                scan.arg(&cursor).arg("COUNT").arg(STEP);
                let answer = reply::array(link.run(scan.arg("TYPE").arg("stream")).await?)?;
                let [next, keys] =
                    <[Value; 2]>::try_from(answer).map_err(|_| reply::odd("SCAN"))?;
                for key in reply::array(keys)? {
                    names.push(reply::text(key)?);
                }
                cursor = reply::text(next)?;
                if cursor == "0" {
                    break;
                }
            }
        }
        // A key may be found twice while the server's table grows.
        names.sort();
        names.dedup();
        Ok(names)
    }

    pub(in crate::store) async fn stream_info(
        &self,
        stream: &str,
    ) -> Result<Option<StreamInfo>, Fault> {
        let answer = self
            .links
            .run(stream, cmd("XINFO").arg("STREAM").arg(stream))
            .await;
        let Some(answer) = unless_missing(answer)? else {
            return Ok(None);
        };
        let row = reply::array(answer)?;
        let named = |name| reply::named(&row, name).ok_or_else(|| reply::odd("XINFO STREAM"));
        let entry = |name| -> Result<Option<EntryId>, Fault> {
            match named(name)? {
                Value::Array(entry) => entry.first().map(reply::id).transpose(),
                _ => Ok(None),
            }
        };
        Ok(Some(StreamInfo {
            length: reply::number(named("length")?)?,
            entries_added: reply::named(&row, "entries-added")
                .map(reply::number)
                .transpose()?,
            first: entry("first-entry")?,
            last: entry("last-entry")?,
            last_id: reply::id(named("last-generated-id")?)?,
            groups: reply::number(named("groups")?)?,
        }))
    }

    pub(in crate::store) async fn group_infos(
        &self,
        stream: &str,
    ) -> Result<Vec<GroupInfo>, Fault> {
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
            Ok(GroupInfo {
                name: reply::text(named("name")?.clone())?,
                consumers: reply::number(named("consumers")?)?,
                pending: reply::number(named("pending")?)?,
                lag: reply::named(&row, "lag").and_then(|lag| reply::number(lag).ok()),
                last_delivered: reply::id(named("last-delivered-id")?)?,
                oldest_pending: None,
                oldest_pending_idle: None,
            })
        });
        rows.collect()
    }

    pub(in crate::store) async fn held(
        &self,
        stream: &str,
        group: &str,
        consumer: Option<&str>,
        from: EntryId,
        count: usize,
    ) -> Result<Vec<PendingInfo>, Fault> {
        let mut ask = cmd("XPENDING");
        ask.arg(stream).arg(group).arg(from.to_string());
        ask.arg("+").arg(count).arg(consumer);
        let rows = reply::array(self.links.run(stream, &ask).await?)?
            .into_iter()
            .map(|row| {
                let row = reply::array(row)?;
                let [id, owner, idle, deliveries] = row.as_slice() else {
                    return Err(reply::odd("XPENDING"));
                };
                Ok(PendingInfo {
                    id: reply::id(id)?,
                    consumer: reply::text(owner.clone())?,
                    idle: reply::milliseconds(idle)?,
                    deliveries: reply::number(deliveries)?,
                })
            });
        rows.collect()
    }
}
