//! What somebody would write by hand on the `redis` crate, who wants speed and nothing else: no
//! leases, no retries, no dead letters; an error is a panic.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline, Value, cmd};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::meter::Meter;
use crate::order::{GROUP, Order, STREAM};

type Id = Vec<u8>;
type Batch = Vec<(Id, Vec<u8>)>;

/// A connection without a response timeout, which blocking reads would hit.
///
/// # Panics
///
/// When there is no server.
pub async fn connect(url: &str) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let client = Client::open(url).expect("a good URL");
    let connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await;
    connection.expect("a server")
}

/// Creates the group at the start of the stream.
///
/// # Panics
///
/// When there is no server.
pub async fn create_group(url: &str) {
    let mut create = cmd("XGROUP");
    create
        .arg("CREATE")
        .arg(STREAM)
        .arg(GROUP)
        .arg("0")
        .arg("MKSTREAM");
    create
        .query_async::<()>(&mut connect(url).await)
        .await
        .expect("no such group yet");
}

async fn read(mut connection: MultiplexedConnection, count: usize) -> Batch {
    let mut read = cmd("XREADGROUP");
    read.arg("GROUP")
        .arg(GROUP)
        .arg("me")
        .arg("COUNT")
        .arg(count)
        .arg("BLOCK")
        .arg(1000);
    read.arg("STREAMS").arg(STREAM).arg(">");
    match read.query_async(&mut connection).await.expect("an answer") {
        Value::Nil => Vec::new(),
        streams => pair(last(streams)).1.into_iter().map(entry).collect(),
    }
}

fn list(value: Value) -> Vec<Value> {
    let Value::Array(items) = value else {
        panic!("not a list: {value:?}")
    };
    items
}

fn last(value: Value) -> Value {
    list(value).pop().expect("one at least")
}

fn pair(value: Value) -> (Value, Vec<Value>) {
    let mut items = list(value);
    let (second, first) = (items.pop().expect("two"), items.pop().expect("two"));
    (first, list(second))
}

fn entry(value: Value) -> (Id, Vec<u8>) {
    match pair(value) {
        (Value::BulkString(id), mut fields) => match fields.pop() {
            Some(Value::BulkString(body)) => (id, body),
            other => panic!("not a body: {other:?}"),
        },
        other => panic!("not an id: {other:?}"),
    }
}

async fn ack(mut connection: MultiplexedConnection, ids: Vec<Id>) {
    let mut ack = cmd("XACK");
    ack.arg(STREAM).arg(GROUP).arg(&ids);
    ack.query_async::<()>(&mut connection)
        .await
        .expect("an answer");
}

async fn handle(body: Vec<u8>) {
    let order: Order = serde_json::from_slice(&body).expect("an order");
    let _ = Meter::report(order.id);
}

/// Two reads ahead of the handling.
struct Ahead {
    connection: MultiplexedConnection,
    count: usize,
    reads: VecDeque<JoinHandle<Batch>>,
}

impl Ahead {
    async fn new(url: &str, count: usize) -> Self {
        let mut ahead = Self {
            connection: connect(url).await,
            count,
            reads: VecDeque::new(),
        };
        ahead.send();
        ahead.send();
        ahead
    }

    fn send(&mut self) {
        self.reads
            .push_back(tokio::spawn(read(self.connection.clone(), self.count)));
    }

    async fn next(&mut self) -> Batch {
        let batch = self
            .reads
            .pop_front()
            .expect("two reads under way")
            .await
            .expect("no panic");
        self.send();
        // So that it leaves before the batch is handled.
        tokio::task::yield_now().await;
        batch
    }
}

/// Handles batch by batch, one message after the other; acks of whole batches leave together.
pub async fn drain(url: String, count: usize) {
    let (mut ahead, acks) = (Ahead::new(&url, count).await, connect(&url).await);
    let (handled, mut waiting) = mpsc::channel::<Vec<Id>>(16);
    tokio::spawn(async move {
        let mut batches = Vec::new();
        while waiting.recv_many(&mut batches, 16).await > 0 {
            ack(acks.clone(), batches.drain(..).flatten().collect()).await;
        }
    });
    loop {
        let batch = ahead.next().await;
        let mut ids = Vec::with_capacity(batch.len());
        for (id, body) in batch {
            handle(body).await;
            ids.push(id);
        }
        if !ids.is_empty() {
            handled.send(ids).await.expect("the acks go on");
        }
    }
}

/// Handles up to `slots` messages at once, polls each in place first, and acks all that have ended.
pub async fn drain_concurrently(url: String, count: usize, slots: usize) {
    let (mut ahead, acks) = (Ahead::new(&url, count).await, connect(&url).await);
    let slots = Arc::new(Semaphore::new(slots));
    let (handled, mut waiting) = mpsc::unbounded_channel::<Id>();
    tokio::spawn(async move {
        let mut ids = Vec::new();
        while waiting.recv_many(&mut ids, 1000).await > 0 {
            ack(acks.clone(), std::mem::take(&mut ids)).await;
        }
    });
    loop {
        for (id, body) in ahead.next().await {
            let slot = Arc::clone(&slots)
                .acquire_owned()
                .await
                .expect("the slots stay open");
            let handled = handled.clone();
            let mut run: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
                handle(body).await;
                drop(slot);
                handled.send(id).expect("the acks go on");
            });
            match run.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(()) => {}
                Poll::Pending => drop(tokio::spawn(run)),
            }
        }
    }
}

fn add(pipeline: &mut Pipeline, id: u64) {
    let body = serde_json::to_vec(&Order::new(id)).expect("JSON");
    pipeline
        .cmd("XADD")
        .arg(STREAM)
        .arg("*")
        .arg("data")
        .arg(body)
        .ignore();
}

/// Publishes `n` orders, `batch` in one round trip.
///
/// # Panics
///
/// When there is no server.
pub async fn publish(url: &str, n: u64, batch: u64) {
    let mut connection = connect(url).await;
    for first in (0..n).step_by(usize::try_from(batch).unwrap_or(1)) {
        let mut pipeline = Pipeline::new();
        (first..(first + batch).min(n)).for_each(|id| add(&mut pipeline, id));
        pipeline
            .query_async::<()>(&mut connection)
            .await
            .expect("an answer");
    }
}

/// Publishes one order.
///
/// # Panics
///
/// When there is no server.
pub async fn publish_one(connection: &mut MultiplexedConnection, id: u64) {
    let body = serde_json::to_vec(&Order::new(id)).expect("JSON");
    let mut add = cmd("XADD");
    add.arg(STREAM).arg("*").arg("data").arg(body);
    add.query_async::<Value>(connection)
        .await
        .expect("an answer");
}
