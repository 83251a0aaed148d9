//! Lets commands that are sent while others are under way leave together, in one pipeline.
//!
//! One command alone goes straight to the connection. This is for commands that stand alone: each has an answer of
//! its own, and in which order those that are under way at once arrive is open.

use std::sync::{MutexGuard, PoisonError};

use redis::{Cmd, Pipeline, Value};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::link::Link;
use crate::store::{Fault, FaultClass};

/// How many are under way at once. With one alone, a command would wait for the answer to another.
const UNDER_WAY: usize = 3;
/// Commands in one pipeline.
const TOGETHER: usize = 1000;

#[derive(Default)]
pub(super) struct Queue {
    under_way: usize,
    /// A task has been started for those that wait, and has not taken them yet.
    gathering: bool,
    waiting: Vec<Waiting>,
}

struct Waiting {
    command: Cmd,
    answer: oneshot::Sender<Answer>,
}

enum Answer {
    Sent(Result<Value, Fault>),
    /// It was not sent, and whoever waits has to see to it.
    Returned(Cmd),
}

enum Turn {
    Now(Cmd),
    Later(oneshot::Receiver<Answer>),
}

impl Link {
    /// Runs a command, alone or with others.
    pub(super) async fn run_together(&self, mut command: Cmd) -> Result<Value, Fault> {
        loop {
            match self.turn(command) {
                Turn::Now(command) => {
                    let _place = Place(self);
                    return self.run(&command).await;
                }
                Turn::Later(answer) => match answer.await {
                    Ok(Answer::Sent(answer)) => return answer,
                    Ok(Answer::Returned(back)) => command = back,
                    Err(_) => {
                        let text = "the runtime that sent the command has ended";
                        return Err(Fault::new(FaultClass::Reconnect, text));
                    }
                },
            }
        }
    }

    fn turn(&self, command: Cmd) -> Turn {
        let mut queue = self.queue();
        if queue.under_way == 0 {
            queue.under_way = 1;
            return Turn::Now(command);
        }
        let (answer, answered) = oneshot::channel();
        queue.waiting.push(Waiting { command, answer });
        if !queue.gathering && queue.under_way < UNDER_WAY {
            queue.under_way += 1;
            queue.gathering = true;
            drop(queue);
            self.spawn(self.round().send_waiting());
        }
        Turn::Later(answered)
    }

    /// A round whose place is taken already.
    fn round(&self) -> Round {
        Round {
            link: self.clone(),
            stage: Stage::Gathering,
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.waiting()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one that is under way. It goes to those that wait, if there are any.
struct Place<'a>(&'a Link);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        if queue.waiting.is_empty() || queue.gathering {
            queue.under_way -= 1;
            return;
        }
        queue.gathering = true;
        drop(queue);
        self.0.spawn(self.0.round().send_waiting());
    }
}

/// A task that sends what waits.
struct Round {
    link: Link,
    stage: Stage,
}

enum Stage {
    Gathering,
    Sending,
    Ended,
}

impl Round {
    async fn send_waiting(mut self) {
        while !matches!(self.stage, Stage::Ended) {
            // Those that can run now send theirs first, so that all leave together.
            yield_now().await;
            let waiting = self.take();
            self.send(waiting).await;
            self.go_on_or_end();
        }
    }

    fn take(&mut self) -> Vec<Waiting> {
        let mut queue = self.link.queue();
        self.stage = Stage::Sending;
        queue.gathering = false;
        if queue.waiting.len() <= TOGETHER {
            return std::mem::take(&mut queue.waiting);
        }
        queue.waiting.drain(..TOGETHER).collect()
    }

    fn go_on_or_end(&mut self) {
        let mut queue = self.link.queue();
        if queue.waiting.is_empty() || queue.gathering {
            queue.under_way -= 1;
            self.stage = Stage::Ended;
        } else {
            queue.gathering = true;
            self.stage = Stage::Gathering;
        }
    }

    async fn send(&self, waiting: Vec<Waiting>) {
        let mut pipeline = Pipeline::with_capacity(waiting.len());
        let mut answers = Vec::with_capacity(waiting.len());
        for Waiting { command, answer } in waiting {
            // Whoever gave up before it was sent does not want it sent.
            if !answer.is_closed() {
                pipeline.add_command(command);
                answers.push(answer);
            }
        }
        if answers.is_empty() {
            return;
        }
        match self.link.run_all(pipeline.ignore_errors()).await {
            Ok(all) => {
                for (answer, got) in answers.into_iter().zip(all) {
                    let _ = answer.send(Answer::Sent(got));
                }
            }
            Err(fault) => {
                for answer in answers {
                    let _ = answer.send(Answer::Sent(Err(fault.clone())));
                }
            }
        }
    }
}

/// Its runtime has ended before it: those who wait are on their own.
impl Drop for Round {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Ended) {
            return;
        }
        let mut queue = self.link.queue();
        queue.under_way -= 1;
        if matches!(self.stage, Stage::Gathering) {
            queue.gathering = false;
        }
        for Waiting { command, answer } in queue.waiting.drain(..) {
            let _ = answer.send(Answer::Returned(command));
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::cmd;
    use rillkit_servers::Server;
    use tokio::runtime::Builder;
    use tokio::task::JoinSet;

    use super::super::address::Address;
    use super::super::parts::Parts;
    use super::*;

    fn link(server: &Server) -> Link {
        Link::new(Address::new(Parts::from_url(&server.url()).unwrap()).unwrap())
    }

    fn rpush(value: usize) -> Cmd {
        let mut push = cmd("RPUSH");
        push.arg("list").arg(value);
        push
    }

    #[tokio::test]
    async fn who_gives_up_holds_nobody_up() {
        let server = Server::start();
        let link = link(&server);
        let mut tasks = JoinSet::new();
        for value in 0..100 {
            let link = link.clone();
            tasks.spawn(async move {
                let run = link.run_together(rpush(value));
                if value % 2 == 0 {
                    return run.await.is_ok();
                }
                tokio::pin!(run);
                tokio::select! {
                    biased;
                    _ = &mut run => true,
                    () = yield_now() => true,
                }
            });
        }
        assert!(tasks.join_all().await.into_iter().all(|ended| ended));
        assert!(link.run_together(rpush(100)).await.is_ok());
        assert_eq!(link.queue().under_way, 0);
    }

    #[test]
    fn what_waits_is_sent_when_the_runtime_that_was_to_send_it_has_ended() {
        let server = Server::start();
        let link = link(&server);
        let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
        // It drives the connection, as long as somebody runs it.
        let driver = runtime();
        assert!(driver.block_on(link.run_together(rpush(0))).is_ok());
        runtime().block_on(async {
            let (first, second) = (link.clone(), link.clone());
            let first = tokio::spawn(async move { first.run_together(rpush(1)).await });
            let second = tokio::spawn(async move { second.run_together(rpush(2)).await });
            while link.queue().waiting.is_empty() {
                yield_now().await;
            }
            driver.shutdown_background();
            let lost = first.await.unwrap().unwrap_err();
            assert_eq!(lost.class, FaultClass::Reconnect);
            assert!(matches!(second.await.unwrap(), Ok(Value::Int(_))));
        });
        assert_eq!(link.queue().under_way, 0);
    }
}
