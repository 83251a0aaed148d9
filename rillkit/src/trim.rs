//! How much a stream keeps when something is published to it.

use std::time::Duration;

use crate::entry_id::EntryId;
use crate::error::{Error, ErrorKind};

/// What a publish removes from the old end of its stream, as
/// [`Stream::maxlen`](crate::Stream::maxlen) and [`Publish::maxlen`](crate::Publish::maxlen) and
/// their neighbours set it.
///
/// It looks at no group: what nobody has read goes as well. [`Broker::trim`](crate::Broker::trim)
/// spares that.
///
/// All but `MaxLenExact` are approximate: Redis then frees whole nodes of a stream alone, a hundred
/// entries each unless it is told otherwise, which costs next to nothing. So a few more stay, never
/// fewer. The in-process store is always exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trim {
    /// Keeps at least the newest so many.
    MaxLen(u64),
    /// Keeps exactly the newest so many.
    MaxLenExact(u64),
    /// Keeps what has this id or a higher one.
    MinId(EntryId),
    /// Keeps what is younger than this by the server's clock.
    MaxAge(Duration),
}

impl Trim {
    /// Refuses what would drop the message that is published.
    pub(crate) fn check(self) -> Result<(), Error> {
        match self {
            Self::MaxLen(0) | Self::MaxLenExact(0) => Err(Error::new(
                ErrorKind::Input,
                "`maxlen` is 0, so that the message itself would be dropped: write 1 or more",
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_length_of_nothing() {
        assert_eq!(Trim::MaxLen(1).check(), Ok(()));
        assert_eq!(Trim::MaxAge(Duration::ZERO).check(), Ok(()));
        for trim in [Trim::MaxLen(0), Trim::MaxLenExact(0)] {
            assert_eq!(trim.check().unwrap_err().kind(), ErrorKind::Input);
        }
    }
}
