//! A connection to a node that is about to get a slot: before the slot is its own, it answers only
//! commands that come right behind an `ASKING`.

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisFuture, Value};

pub(super) struct Asking(pub(super) MultiplexedConnection);

impl Asking {
    /// Sends each command behind an `ASKING` of its own, all in one piece.
    async fn send<'a>(
        &mut self,
        commands: impl Iterator<Item = &'a Cmd>,
    ) -> redis::RedisResult<Vec<Value>> {
        let (mut both, mut count) = (Pipeline::new(), 0);
        for command in commands {
            both.cmd("ASKING").add_command(command.clone());
            count += 2;
        }
        let answers = self.0.req_packed_commands(&both, 0, count).await?;
        Ok(answers.into_iter().skip(1).step_by(2).collect())
    }
}

impl ConnectionLike for Asking {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let mut answers = self.send(std::iter::once(command)).await?;
            Ok(answers.pop().unwrap_or(Value::Nil))
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        _offset: usize,
        _count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(self.send(pipeline.cmd_iter()))
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}
