//! What all messages of one subscription in this process share.

use std::fmt;
use std::sync::Arc;

use crate::entry_id::EntryId;
use crate::error::Error;
use crate::extract::States;
use crate::settle::Settler;
use crate::store::{Acked, Consumer};

/// The place of a message: its stream, group and consumer, the application's state, and the way to
/// settle it.
pub(crate) struct Lane {
    pub(crate) consumer: Consumer,
    pub(crate) states: States,
    settler: Option<Settler>,
}

impl Lane {
    pub(crate) fn new(consumer: Consumer, states: States, settler: Settler) -> Self {
        Self {
            consumer,
            states,
            settler: Some(settler),
        }
    }

    /// The place of a message that came from no stream.
    pub(crate) fn detached(stream: &'static str, group: &'static str) -> Self {
        let consumer = Consumer {
            stream,
            group,
            name: Arc::from("detached"),
            acked: Acked::Stays,
        };
        Self {
            consumer,
            states: States::default(),
            settler: None,
        }
    }

    pub(crate) async fn ack_now(&self, id: EntryId, deliveries: u64) -> Result<(), Error> {
        match &self.settler {
            Some(settler) => settler.ack_now(id, deliveries).await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("consumer", &self.consumer)
            .finish_non_exhaustive()
    }
}
