//! The reads that are under way on one connection.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::{Entry, Fault, Reader};

type Answer = Result<Vec<Entry>, Fault>;
type Read = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The reads under way on one connection, in the order in which they were sent.
#[derive(Default)]
pub(super) struct Reads {
    pub(super) waiting: VecDeque<(Read, usize, Instant)>,
    pub(super) asked: usize,
    /// When the last answered read had been sent.
    pub(super) last_sent: Option<Instant>,
    /// How many the last answered read had asked for.
    last_count: usize,
    /// The one under way waits at the server.
    pub(super) blocked: bool,
}

impl Reads {
    /// Sends a read: it is polled once here, and its place in the queue at the server is fixed.
    pub(super) async fn send(&mut self, reader: &Reader, count: usize, block: Option<Duration>) {
        let now = Instant::now();
        let mut read: Read = Box::pin(reader.read(count, block));
        let sent = poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await;
        let read = match sent {
            Poll::Pending => read,
            Poll::Ready(answer) => Box::pin(std::future::ready(answer)),
        };
        self.waiting.push_back((read, count, now));
        self.asked += count;
        self.blocked = block.is_some();
    }

    /// The next answer, in the order in which the reads were sent; `None` when none is under way.
    /// Dropping this future drops no read.
    pub(super) async fn next(&mut self) -> Option<Answer> {
        let (read, count, sent) = self.waiting.front_mut()?;
        let (count, sent) = (*count, *sent);
        let answer = read.as_mut().await;
        self.waiting.pop_front();
        self.asked -= count;
        self.last_count = count;
        self.last_sent = Some(sent);
        self.blocked = false;
        Some(answer)
    }

    /// When the oldest that is under way was sent.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.waiting.front().map(|(_, _, sent)| *sent)
    }

    pub(super) fn last_was_full(&self, entries: usize) -> bool {
        entries >= self.last_count
    }
}
