//! The connection on which one consumer waits for new entries: a blocking command stalls whatever
//! stands behind it on the same connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value, cmd};

use super::asking::Asking;
use super::cluster::Seat;
use super::link::{self, Link, RESPONSE_TIMEOUT};
use super::reply;
use crate::store::{Consumer, Entry, Fault, FaultClass};

pub(crate) struct RedisReader {
    connection: MultiplexedConnection,
    /// To end a blocking read from outside; where the server does not tell it, reads end by
    /// themselves.
    client_id: Option<u64>,
    shared: Link,
    consumer: Consumer,
    /// In a cluster, the node it is connected to.
    seat: Option<Seat>,
}

impl RedisReader {
    pub(super) async fn connect(
        shared: &Link,
        consumer: &Consumer,
        seat: Option<Seat>,
    ) -> Result<Self, Fault> {
        // No response timeout: it would hit blocking reads. Each read has a deadline of its own.
        let mut connection = link::connect(shared.address(), None).await?;
        let mut ask = cmd("CLIENT");
        let ask = ask.arg("ID").query_async::<Value>(&mut connection);
        let client_id = match tokio::time::timeout(RESPONSE_TIMEOUT, ask).await {
            Ok(Ok(id)) => reply::number(&id).ok(),
            Ok(Err(_)) | Err(_) => None,
        };
        Ok(Self {
            connection,
            client_id,
            shared: shared.clone(),
            consumer: consumer.clone(),
            seat,
        })
    }

    pub(in crate::store) fn read(
        &self,
        count: usize,
        block: Option<Duration>,
    ) -> impl Future<Output = Result<Vec<Entry>, Fault>> + Send + use<> {
        let mut connection = self.connection.clone();
        let command = self.command(count, block);
        let deadline = block.unwrap_or_default() + RESPONSE_TIMEOUT;
        let (seat, shared) = (self.seat.clone(), self.shared.clone());
        async move {
            let answer = async {
                match &seat {
                    Some(Seat { asking: true, .. }) => {
                        command.query_async::<Value>(&mut Asking(connection)).await
                    }
                    _ => command.query_async(&mut connection).await,
                }
            };
            let fault = match tokio::time::timeout(deadline, answer).await {
                Ok(Ok(reply)) => return reply::read(reply),
                Ok(Err(error)) => {
                    let (mut fault, replace) = shared.address().judge(&error);
                    if replace {
                        fault.class = FaultClass::Reconnect;
                    }
                    fault
                }
                Err(_) => Fault::new(
                    FaultClass::Reconnect,
                    "the server did not answer a read within its block time",
                ),
            };
            Err(match seat {
                Some(seat) => seat.fault(fault),
                None => fault,
            })
        }
    }

    fn command(&self, count: usize, block: Option<Duration>) -> Cmd {
        let Consumer {
            stream,
            group,
            name,
            ..
        } = &self.consumer;
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP")
            .arg(*group)
            .arg(&**name)
            .arg("COUNT")
            .arg(count);
        if let Some(block) = block {
            // BLOCK 0 would wait for ever.
            read.arg("BLOCK").arg(super::ms(block).max(1));
        }
        read.arg("STREAMS").arg(*stream).arg(">");
        read
    }

    pub(in crate::store) async fn interrupt(&self) -> Result<(), Fault> {
        let Some(id) = self.client_id else {
            return Err(Fault::new(
                FaultClass::Config,
                "the server does not tell the connection's id",
            ));
        };
        self.shared
            .run(cmd("CLIENT").arg("UNBLOCK").arg(id))
            .await
            .map(drop)
    }
}

impl fmt::Debug for RedisReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name: &Arc<str> = &self.consumer.name;
        f.debug_struct("RedisReader")
            .field("consumer", name)
            .finish_non_exhaustive()
    }
}
