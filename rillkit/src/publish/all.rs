//! Many messages at once, and what becomes of some when others fail.

use std::fmt;

use super::{fits, named, refused};
use crate::entry_id::EntryId;
use crate::error::Error;
use crate::fields::Fields;
use crate::store::Store;
use crate::trim::Trim;

/// Messages in one round trip.
const ROUND_TRIP: usize = 10_000;

/// Sends all in order, up to [`ROUND_TRIP`] in one round trip.
pub(crate) async fn all(
    store: &Store,
    largest: usize,
    stream: &str,
    trim: Option<Trim>,
    bodies: Result<Vec<Fields>, Error>,
) -> Result<Vec<EntryId>, PublishAllError> {
    let nothing = |error| PublishAllError {
        published: Vec::new(),
        error,
    };
    named(stream).map_err(nothing)?;
    let bodies = bodies.map_err(nothing)?;
    for body in &bodies {
        fits(stream, body, largest).map_err(nothing)?;
    }
    let mut published = Vec::with_capacity(bodies.len());
    for round in bodies.chunks(ROUND_TRIP) {
        let answers = match store.publish(stream, round, trim).await {
            Ok(answers) => answers,
            Err(fault) => {
                return Err(PublishAllError {
                    published,
                    error: refused(stream, &fault),
                });
            }
        };
        let mut refusal = None;
        for answer in answers {
            match answer {
                Ok(id) => published.push(id),
                Err(fault) => refusal = refusal.or(Some(fault)),
            }
        }
        if let Some(fault) = refusal {
            return Err(PublishAllError {
                published,
                error: refused(stream, &fault),
            });
        }
    }
    Ok(published)
}

/// Why [`Broker::publish_all`](crate::Broker::publish_all) did not publish everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishAllError {
    published: Vec<EntryId>,
    error: Error,
}

impl PublishAllError {
    /// What surely was published, all the same.
    #[must_use]
    pub fn published(&self) -> &[EntryId] {
        &self.published
    }

    /// What was wrong with the first that was not.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }
}

impl fmt::Display for PublishAllError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({} of the messages were published)",
            self.error,
            self.published.len()
        )
    }
}

impl std::error::Error for PublishAllError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<PublishAllError> for Error {
    fn from(error: PublishAllError) -> Self {
        Self::new(error.error.kind(), error.to_string())
    }
}
