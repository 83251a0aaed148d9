//! TLS: certificates, the crypto provider, and what its errors mean. All that depends on the
//! feature `tls` is here.

use redis::{Client, ConnectionAddr, ConnectionInfo, RedisError, RedisResult};
use std::time::Duration;

#[cfg(feature = "tls")]
use redis::{ClientTlsConfig, TlsCertificates};

use super::parts::Parts;
use crate::error::{Error, ErrorKind};

/// Whom to trust and what to show, in PEM form.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    /// In place of the public authorities.
    pub(crate) ca: Option<Vec<u8>>,
    /// A certificate and its key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

/// How long a server may take to refuse a certificate.
const FIRST_WORD: Duration = Duration::from_secs(1);

/// Makes sure that this build can do TLS.
pub(super) fn require() -> Result<(), Error> {
    if cfg!(feature = "tls") {
        Ok(())
    } else {
        Err(missing())
    }
}

fn missing() -> Error {
    Error::new(
        ErrorKind::Url,
        "`rediss://` needs the feature `tls`: write `rillkit = { version = \"..\", features = [\"tls\"] }` \
         in Cargo.toml",
    )
}

/// The certificates for these connections; none where they are not encrypted.
pub(super) fn certificates(parts: &Parts) -> Result<Option<&Certificates>, Error> {
    let Certificates { ca, client } = &parts.certificates;
    let bad = |text: &str| Err(Error::new(ErrorKind::Url, text));
    if !parts.tls {
        if ca.is_some() || client.is_some() {
            return bad(
                "certificates need a URL with `rediss://` or `rediss+sentinel://`: \
                 without them nothing is encrypted",
            );
        }
        return Ok(None);
    }
    require()?;
    let is_certificate = |pem: &[u8]| contains(pem, "-----BEGIN CERTIFICATE-----");
    if ca.as_ref().is_some_and(|pem| !is_certificate(pem)) {
        return bad(
            "the CA certificate holds no certificate; expected PEM text with \
             `-----BEGIN CERTIFICATE-----`",
        );
    }
    if let Some((certificate, key)) = client {
        if !is_certificate(certificate) {
            return bad(
                "the client certificate holds no certificate; expected PEM text with \
                 `-----BEGIN CERTIFICATE-----`",
            );
        }
        if !contains(key, "PRIVATE KEY-----") {
            return bad(
                "the key of the client certificate holds no key; expected PEM text with \
                 `-----BEGIN PRIVATE KEY-----`",
            );
        }
    }
    Ok(Some(&parts.certificates))
}

fn contains(pem: &[u8], line: &str) -> bool {
    pem.windows(line.len()).any(|part| part == line.as_bytes())
}

/// A client that connects over TLS.
#[cfg(feature = "tls")]
pub(super) fn client(
    host: &str,
    port: u16,
    certificates: &Certificates,
    settings: impl FnOnce(ConnectionAddr) -> RedisResult<ConnectionInfo>,
) -> Result<Client, Error> {
    let address = ConnectionAddr::TcpTls {
        host: host.to_owned(),
        port,
        insecure: false,
        tls_params: None,
    };
    let certificates = TlsCertificates {
        client_tls: certificates
            .client
            .clone()
            .map(|(client_cert, client_key)| ClientTlsConfig {
                client_cert,
                client_key,
            }),
        root_cert: certificates.ca.clone(),
    };
    settings(address)
        .and_then(|info| Client::build_with_tls(info, certificates))
        .map_err(|error| {
            let text = format!("the certificates for {host}:{port} cannot be used: {error}");
            Error::new(ErrorKind::Url, text)
        })
}

#[cfg(not(feature = "tls"))]
pub(super) fn client(
    _host: &str,
    _port: u16,
    _certificates: &Certificates,
    _settings: impl FnOnce(ConnectionAddr) -> RedisResult<ConnectionInfo>,
) -> Result<Client, Error> {
    Err(missing())
}

/// Makes sure that the process has a crypto provider: without one the TLS library panics, and so it
/// does where several are compiled in and none is chosen. One that is chosen stays.
pub(super) fn provide() {
    #[cfg(feature = "tls")]
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was first.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// What to do about certificates that one side does not accept, which no waiting cures.
#[cfg(feature = "tls")]
pub(super) fn cure(error: &RedisError) -> Option<&'static str> {
    use rustls::{AlertDescription as Alert, Error as Tls};

    match error_of_tls(error)? {
        Tls::InvalidCertificate(_) => Some(
            "; give the certificate of the server's CA with `Server::ca_certificate` or \
             `REDIS_CA_CERT`, and the host by the name that is in the server's certificate",
        ),
        Tls::AlertReceived(
            Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::HandshakeFailure,
        ) => Some(
            "; give a certificate that the server accepts with `Server::client_certificate`, or \
             `REDIS_CLIENT_CERT` and `REDIS_CLIENT_KEY`",
        ),
        _ => None,
    }
}

#[cfg(not(feature = "tls"))]
pub(super) fn cure(_error: &RedisError) -> Option<&'static str> {
    None
}

/// Listens to what a server says unasked: nothing, or that it refuses the client's certificate, which
/// comes after the handshake. A connection with a driver of its own keeps that to itself.
pub(super) fn first_word(client: &Client) -> RedisResult<()> {
    provide();
    let mut connection = client.get_connection_with_timeout(FIRST_WORD)?;
    connection.set_read_timeout(Some(FIRST_WORD))?;
    connection.recv_response().map(drop)
}

/// The TLS library's own error, out of its wrappings.
#[cfg(feature = "tls")]
fn error_of_tls(error: &RedisError) -> Option<&rustls::Error> {
    use std::error::Error as StdError;
    use std::io;
    use std::sync::Arc;

    let mut cause = error.source()?;
    loop {
        if let Some(error) = cause.downcast_ref::<rustls::Error>() {
            return Some(error);
        }
        let inner = cause.downcast_ref::<Arc<dyn StdError + Send + Sync>>();
        let inner = inner.map(|inner| &**inner as &(dyn StdError + 'static));
        // An I/O error's source is that of what it wraps.
        let io = cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let io = io.map(|inner| inner as &(dyn StdError + 'static));
        cause = inner.or(io).or_else(|| cause.source())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::parts::Place;

    fn parts(tls: bool, certificates: Certificates) -> Parts {
        Parts {
            tls,
            certificates,
            ..Parts::at(Place::Host("h".into(), 1))
        }
    }

    #[test]
    fn a_build_without_tls_names_the_feature() {
        let error = missing();
        assert_eq!(error.kind(), ErrorKind::Url);
        assert!(
            error.to_string().contains("needs the feature `tls`"),
            "{error}"
        );
        let expected = if cfg!(feature = "tls") {
            Ok(())
        } else {
            Err(error)
        };
        for url in ["rediss://localhost", "rediss+sentinel://localhost/main"] {
            assert_eq!(Parts::from_url(url).map(|_| ()), expected, "{url}");
        }
    }

    #[test]
    fn certificates_without_encryption_are_refused() {
        let ca = Certificates {
            ca: Some(b"-----BEGIN CERTIFICATE-----".into()),
            client: None,
        };
        let parts = parts(false, ca);
        let error = certificates(&parts).err().expect("refused");
        assert!(error.to_string().contains("`rediss://`"), "{error}");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn what_is_no_pem_is_refused_and_not_shown() {
        let certificate = b"-----BEGIN CERTIFICATE-----".to_vec();
        for (ca, client, expected) in [
            (Some("S3CR3T"), None, "the CA certificate holds no"),
            (
                None,
                Some((b"S3CR3T".to_vec(), vec![])),
                "the client certificate holds no",
            ),
            (None, Some((certificate, b"S3CR3T".to_vec())), "the key of"),
        ] {
            let ca = ca.map(|ca| ca.as_bytes().to_vec());
            let parts = parts(true, Certificates { ca, client });
            let error = certificates(&parts).err().expect("refused").to_string();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains("S3CR3T"), "{error}");
        }
    }
}
