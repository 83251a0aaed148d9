//! Safe trims: what no group needs any more.

use std::sync::LazyLock;

use redis::{Script, Value};

use super::{RedisStore, ms, reply};
use crate::entry_id::EntryId;
use crate::store::{Fault, Spared, Standing, TrimStep};

static TRIM: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/trim.lua")));
static COUNT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/count.lua")));

impl RedisStore {
    pub(in crate::store) async fn trim(
        &self,
        stream: &str,
        spared: &Spared,
        most: u64,
    ) -> Result<TrimStep, Fault> {
        let answer = self
            .links
            .run_script(stream, &TRIM, |script| {
                script.key(stream).arg(spared.newest);
                match spared.younger_than {
                    Some(age) => script.arg(ms(age)),
                    None => script.arg(-1),
                };
                script.arg(most).arg(u8::from(spared.unless_grouped));
                for group in &spared.ignored_groups {
                    script.arg(&**group);
                }
            })
            .await?;
        step(answer)
    }

    pub(in crate::store) async fn count(
        &self,
        stream: &str,
        from: EntryId,
        to: EntryId,
        most: u64,
    ) -> Result<(u64, Option<EntryId>), Fault> {
        let answer = self
            .links
            .run_script(stream, &COUNT, |script| {
                script.key(stream).arg(from.to_string());
                script.arg(to.to_string()).arg(most);
            })
            .await?;
        match reply::array(answer)?.as_slice() {
            [count, last] => Ok((reply::number(count)?, reply::id(last).ok())),
            _ => Err(reply::odd("a script")),
        }
    }
}

fn step(answer: Value) -> Result<TrimStep, Fault> {
    let parts = <[Value; 4]>::try_from(reply::array(answer)?);
    let [removed, left, floor, groups] = parts.map_err(|_| reply::odd("a script"))?;
    let groups = reply::array(groups)?.into_iter().map(standing);
    Ok(TrimStep {
        removed: reply::number(&removed)?,
        left: reply::number(&left)?,
        floor: reply::id(&floor).ok(),
        groups: groups.collect::<Result<_, Fault>>()?,
    })
}

fn standing(row: Value) -> Result<Standing, Fault> {
    let parts = <[Value; 6]>::try_from(reply::array(row)?);
    let [group, last, pending, lowest, unread, lag] = parts.map_err(|_| reply::odd("a script"))?;
    let has_unread = reply::number(&unread)? > 0;
    Ok(Standing {
        group: reply::text(group)?,
        last: reply::id(&last)?,
        pending: reply::number(&pending)?,
        lowest: reply::id(&lowest).ok(),
        has_unread,
        unread: reply::number(&lag).ok(),
    })
}
