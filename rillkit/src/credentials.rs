//! Who logs in at a server: fixed for ever, or asked for anew at each connection.

use std::fmt;
use std::sync::Arc;

use crate::outcome::BoxError;

/// A password, and the name of its user where it is not the default user. `Debug` shows neither.
///
/// [`Server::credentials`](crate::Server::credentials) takes a function that makes them.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) username: Option<String>,
    pub(crate) password: String,
}

impl Credentials {
    /// A user and its password, in any characters.
    pub fn new(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            username: Some(username.into()),
            password: password.into(),
        }
    }

    /// The password of the default user.
    pub fn password(password: impl Into<String>) -> Self {
        Self {
            username: None,
            password: password.into(),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

type Provider = dyn Fn() -> Result<Credentials, BoxError> + Send + Sync;

/// How a connection logs in.
#[derive(Clone, Default)]
pub(crate) enum Login {
    /// Not at all.
    #[default]
    Nobody,
    /// As the same user for ever.
    As(Credentials),
    /// As whoever this says, at each connection.
    Rotating(Arc<Provider>),
}

impl Login {
    /// A user without a password cannot log in: then nobody does.
    pub(crate) fn of(username: Option<String>, password: Option<String>) -> Self {
        match password {
            Some(password) => Self::As(Credentials { username, password }),
            None => Self::Nobody,
        }
    }

    pub(crate) fn is_rotating(&self) -> bool {
        matches!(self, Self::Rotating(_))
    }

    /// The credentials of a new connection. A provider may block: it reads a file or asks a service.
    pub(crate) async fn credentials(&self) -> Result<Option<Credentials>, BoxError> {
        match self {
            Self::Nobody => Ok(None),
            Self::As(credentials) => Ok(Some(credentials.clone())),
            Self::Rotating(provider) => {
                let provider = Arc::clone(provider);
                tokio::task::spawn_blocking(move || provider())
                    .await?
                    .map(Some)
            }
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "Nobody",
            Self::As(_) => "As(..)",
            Self::Rotating(_) => "Rotating(..)",
        })
    }
}
