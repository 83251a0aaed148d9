//! One server that can be connected to: its address, how to log in, and what its errors mean.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, RedisError,
    RedisResult,
};

use super::parts::{Place, reason};
use super::tls::{self, Certificates};
use super::{fault, link};
use crate::credentials::{Credentials, Login};
use crate::error::{Error, ErrorKind};
use crate::store::{Fault, FaultClass};

const KEEPALIVE: Duration = Duration::from_secs(15);
/// How long sent bytes may stay unacknowledged before the kernel gives the connection up.
const USER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long whoever knows the credentials may take.
const CREDENTIALS_TIMEOUT: Duration = Duration::from_secs(30);

/// `Debug` and `Display` show the address alone.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) client: Client,
    pub(super) db: i64,
    /// Sent after connecting. The crate's own login would report every refusal of `AUTH`, also
    /// "max number of clients reached", as a wrong password.
    login: Login,
    /// The same place without TLS, where the client uses TLS.
    unencrypted: Option<Client>,
    text: Arc<str>,
}

impl Endpoint {
    /// With certificates it is reached over TLS.
    pub(super) fn new(
        place: &Place,
        certificates: Option<&Certificates>,
        login: Login,
        db: i64,
    ) -> Result<Self, Error> {
        let text = place.to_string();
        let bad = |why: String| {
            let text = format!("the redis address `{text}` cannot be used: {why}");
            Error::new(ErrorKind::Url, text)
        };
        let plain = match place {
            Place::Host(host, port) => ConnectionAddr::Tcp(host.clone(), *port),
            Place::Socket(path) => ConnectionAddr::Unix(path.clone()),
            Place::Master { .. } | Place::Cluster(_) => {
                return Err(bad("a single server was expected".to_owned()));
            }
        };
        let (client, unencrypted) = match (place, certificates) {
            (Place::Host(host, port), Some(certificates)) => {
                let client = tls::client(host, *port, certificates, with_settings)?;
                let unencrypted = open(plain).map_err(|error| bad(reason(&error)))?;
                (client, Some(unencrypted))
            }
            _ => (open(plain).map_err(|error| bad(reason(&error)))?, None),
        };
        Ok(Self {
            client,
            db,
            login,
            unencrypted,
            text: text.into(),
        })
    }

    pub(super) fn is_rotating(&self) -> bool {
        self.login.is_rotating()
    }

    /// Who logs in at a new connection.
    pub(super) async fn credentials(&self) -> Result<Option<Credentials>, Fault> {
        let failed = |why: String| {
            let text = format!("the credentials of redis at {self} cannot be had: {why}");
            Fault::new(FaultClass::Unreachable, text)
        };
        match tokio::time::timeout(CREDENTIALS_TIMEOUT, self.login.credentials()).await {
            Ok(Ok(credentials)) => Ok(credentials),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(format!(
                "they took longer than {CREDENTIALS_TIMEOUT:?}"
            ))),
        }
    }

    /// An error of the TLS handshake or the login: nothing was sent yet.
    pub(super) async fn while_connecting(&self, error: &RedisError) -> Fault {
        let mut fault = fault::while_connecting(error, self);
        if self.is_rotating() && fault::is_login(error) {
            fault.class = FaultClass::Unreachable;
        }
        if fault.class != FaultClass::Unreachable || error.is_connection_refusal() {
            return fault;
        }
        self.tls_mistake().await.unwrap_or(fault)
    }

    /// What no waiting cures where TLS is in use, and does not show in the error of a connection.
    async fn tls_mistake(&self) -> Option<Fault> {
        let unencrypted = self.unencrypted.as_ref()?;
        let client = self.client.clone();
        let silence = tokio::task::spawn_blocking(move || tls::first_word(&client));
        if let Ok(Err(error)) = silence.await
            && tls::cure(&error).is_some()
        {
            return Some(fault::while_connecting(&error, self));
        }
        // A plain Redis waits for the end of the line that it takes a handshake for.
        let ask = async {
            let mut connection = link::bare(unencrypted, Some(tls::FIRST_WORD)).await?;
            redis::cmd("PING").query_async::<()>(&mut connection).await
        };
        let answers = match ask.await {
            Ok(()) => true,
            Err(error) => error.code().is_some(),
        };
        answers.then(|| {
            let text = format!("redis at {self} answers without TLS; write `redis://` in its URL");
            Fault::new(FaultClass::Config, text)
        })
    }
}

fn open(address: ConnectionAddr) -> RedisResult<Client> {
    Client::open(with_settings(address)?)
}

fn with_settings(address: ConnectionAddr) -> RedisResult<redis::ConnectionInfo> {
    let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(
        TcpKeepalive::new()
            .with_time(KEEPALIVE)
            .with_interval(KEEPALIVE),
    );
    #[cfg(target_os = "linux")]
    let tcp = tcp.set_user_timeout(USER_TIMEOUT);
    let nobody = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP2)
        .set_skip_set_lib_name();
    Ok(address
        .into_connection_info()?
        .set_tcp_settings(tcp)
        .set_redis_settings(nobody))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.text).finish()
    }
}
