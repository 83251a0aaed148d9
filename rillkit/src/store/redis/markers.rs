//! The markers of idempotency keys, each a string beside its stream: `run ID COUNT CONSUMER` while the
//! run is in progress, `done ID` after it.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, ScriptInvocation, Value};

use super::acking::Acking;
use super::pending::CHUNK;
use super::{RedisStore, fenced, ms, reply, slot};
use crate::entry_id::EntryId;
use crate::store::effect::Effect;
use crate::store::{Begun, Consumer, Done, Fault, Fenced, Keyed, Token};

static BEGIN: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/begin.lua")));
static KEEP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/keep.lua")));
static FINISH: LazyLock<Acking> = LazyLock::new(|| Acking::new(include_str!("scripts/finish.lua")));
static ABANDON: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/abandon.lua")));

/// Bytes of a key that are written as they are; of a longer one its hash is.
const LONGEST: usize = 200;

impl RedisStore {
    pub(in crate::store) async fn begin(
        &self,
        consumer: &Consumer,
        keyed: &Keyed,
        lease: Duration,
    ) -> Result<Begun, Fault> {
        let fill = |script: &mut ScriptInvocation<'_>| {
            script
                .key(consumer.stream)
                .key(name(consumer, &keyed.key))
                .arg(consumer.group)
                .arg(&*consumer.name)
                .arg(keyed.token.id.to_string())
                .arg(keyed.token.deliveries)
                .arg(ms(lease));
        };
        let answer = self.links.run_script(consumer.stream, &BEGIN, fill).await?;
        match answer {
            Value::BulkString(marker) => read(&marker),
            other => Ok(match fenced(&other)? {
                Fenced::Done => Begun::Marked,
                Fenced::Gone => Begun::Gone,
                Fenced::Other => Begun::Other,
            }),
        }
    }

    pub(in crate::store) async fn keep(
        &self,
        consumer: &Consumer,
        keyed: &[Keyed],
        lease: Duration,
    ) -> Result<Vec<Fenced>, Fault> {
        self.for_keyed(&KEEP, consumer, keyed, lease).await
    }

    pub(in crate::store) async fn finish(
        &self,
        consumer: &Consumer,
        keyed: &[Keyed],
        lifetime: Duration,
    ) -> Result<Vec<Fenced>, Fault> {
        let script = FINISH.when(consumer.acked);
        self.for_keyed(script, consumer, keyed, lifetime).await
    }

    pub(in crate::store) async fn abandon(
        &self,
        consumer: &Consumer,
        Keyed { token, key }: &Keyed,
    ) -> Result<(), Fault> {
        let fill = |script: &mut ScriptInvocation<'_>| {
            let says = format!("run {} {} {}", token.id, token.deliveries, consumer.name);
            script.key(name(consumer, key)).arg(says);
        };
        let answer = self.links.run_script(consumer.stream, &ABANDON, fill);
        answer.await.map(drop)
    }

    async fn for_keyed(
        &self,
        script: &Script,
        consumer: &Consumer,
        keyed: &[Keyed],
        lasts: Duration,
    ) -> Result<Vec<Fenced>, Fault> {
        let mut all = Vec::with_capacity(keyed.len());
        for chunk in keyed.chunks(CHUNK) {
            let fill = |script: &mut ScriptInvocation<'_>| {
                script
                    .key(consumer.stream)
                    .arg(consumer.group)
                    .arg(&*consumer.name)
                    .arg(ms(lasts));
                for Keyed { token, key } in chunk {
                    script
                        .key(name(consumer, key))
                        .arg(token.id.to_string())
                        .arg(token.deliveries);
                }
            };
            let answer = self.links.run_script(consumer.stream, script, fill).await?;
            for answer in reply::array(answer)? {
                all.push(fenced(&answer)?);
            }
        }
        Ok(all)
    }
}

/// What says that a key is done by this delivery.
pub(super) fn done(consumer: &Consumer, token: Token, done: &Done) -> Effect {
    Effect::Set {
        key: name(consumer, &done.key),
        value: format!("done {}", token.id).into_bytes(),
        lasts: Some(done.lifetime),
    }
}

/// The name of a key's marker. Of the group no `:` is left, so that no two groups share one.
pub(super) fn name(consumer: &Consumer, key: &str) -> String {
    let group = consumer.group.replace('%', "%25").replace(':', "%3a");
    if key.len() <= LONGEST {
        return slot::beside(consumer.stream, &format!("once:{group}:{key}"));
    }
    // A script is known by the SHA-1 of its text.
    let hash = Script::new(key);
    let hash = hash.get_hash();
    slot::beside(consumer.stream, &format!("once-sha1:{group}:{hash}"))
}

fn read(marker: &[u8]) -> Result<Begun, Fault> {
    let mut words = marker.split(|byte| *byte == b' ');
    let (state, id) = (words.next(), words.next().and_then(EntryId::parse));
    match (state, id) {
        (Some(b"run"), Some(id)) => Ok(Begun::InProgress(id)),
        (Some(b"done"), Some(id)) => Ok(Begun::Done(id)),
        _ => Err(reply::odd("a marker")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::Acked;

    fn named(stream: &'static str, group: &'static str, key: &str) -> String {
        let name = Arc::from("c");
        let consumer = Consumer {
            stream,
            group,
            name,
            acked: Acked::Stays,
        };
        super::name(&consumer, key)
    }

    #[test]
    fn a_marker_is_named_by_stream_group_and_key() {
        assert_eq!(named("jobs", "workers", "1"), "rk:{jobs}:once:workers:1");
        assert_eq!(
            named("{jobs}", "a%:b", "c:d"),
            "rk:{jobs}:once:a%25%3ab:c:d"
        );
        assert_ne!(named("jobs", "a", "b:c"), named("jobs", "a:b", "c"));
    }

    #[test]
    fn a_long_key_is_cut_to_its_hash() {
        let (long, other) = ("x".repeat(10_000), "x".repeat(10_001));
        let name = named("jobs", "workers", &long);
        assert!(name.len() < 100, "{name}");
        assert_eq!(name, named("jobs", "workers", &long));
        assert_ne!(name, named("jobs", "workers", &other));
    }

    #[test]
    fn a_marker_is_read_and_nothing_else_is() {
        let id = EntryId { ms: 5, seq: 1 };
        assert_eq!(read(b"run 5-1 2 a consumer"), Ok(Begun::InProgress(id)));
        assert_eq!(read(b"done 5-1"), Ok(Begun::Done(id)));
        for odd in [&b"done"[..], b"", b"run x y", b"\xff"] {
            assert!(read(odd).is_err());
        }
    }
}
