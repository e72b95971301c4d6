//! TLS to clients.
//!
//! In: a socket whose peer is about to say ClientHello. Out: the encrypted stream, and [`Security`]: what
//! authentication may rely on. TLS 1.2 and 1.3 with AEAD suites; each connection makes its own handshake, so
//! nothing of an earlier one, or of a certificate that has been replaced, is carried over.

mod capped;
mod certificate;
mod failed;
mod files;
mod renew;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustls::server::Acceptor;
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) use capped::Capped;
pub(crate) use certificate::ClientCertificate;
pub(crate) use failed::Failed;
pub use files::TlsError;
use files::{Served, Stamps};
pub(crate) use renew::renew;

use crate::lobby::Meter;

/// The name of our protocol in TLS (ALPN).
const PROTOCOL: &[u8] = b"postgresql";
/// What a peer may send until its handshake is done: a ClientHello and a chain of certificates.
const HANDSHAKE_BYTES_MAX: usize = 24 << 10;

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// If the client asks. In clear, nothing is asked of a client that is not on this machine.
    Allow,
    /// Always.
    Require,
}

/// How connections are encrypted.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// Whether they have to be.
    pub mode: Mode,
    /// Our certificate and those between it and a CA, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM: for the owner of the process only.
    pub key: PathBuf,
    /// The CAs of clients' certificates, in PEM; `None`: clients are not asked for one.
    pub client_ca: Option<PathBuf>,
    /// How often the files are looked at.
    pub poll_interval: Duration,
}

impl TlsConfig {
    /// Whether the files can be used.
    ///
    /// # Errors
    /// [`TlsError`]: one of them can't.
    pub fn check(&self) -> Result<(), TlsError> {
        Served::read(self).map(drop)
    }
}

/// What is known of the way to a peer.
#[derive(Debug, Default)]
pub(crate) struct Security {
    /// Whether nobody between can read or change what is said.
    pub(crate) tls: bool,
    /// The hash of our certificate that SCRAM's channel binding `tls-server-end-point` takes; `None`: none is
    /// defined for the way the certificate is signed, so no binding can be offered.
    pub(crate) end_point_hash: Option<Vec<u8>>,
    /// The peer's certificate, if it brought one: its chain up to a CA of ours has been verified.
    pub(crate) client_certificate: Option<ClientCertificate>,
}

/// How a peer came to begin with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It asked, and was told to.
    OnRequest,
    /// With its first byte. It has to name the protocol: else a client of another one could be led here.
    Directly,
}

/// Certificate and key, as they are served now.
#[derive(Debug)]
pub(crate) struct Tls {
    config: TlsConfig,
    served: RwLock<Arc<Served>>,
    /// The files when they could last be read, whatever came of it.
    stamps: Mutex<Stamps>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`]: one of them can't be used.
    pub(crate) fn load(config: TlsConfig) -> Result<Self, TlsError> {
        // Stamps first: what changes meanwhile is read again.
        let stamps = Stamps::of(&config);
        let served = Served::read(&config)?;
        Ok(Tls { config, served: RwLock::new(Arc::new(served)), stamps: Mutex::new(stamps) })
    }

    /// Whether connections have to be encrypted.
    pub(crate) fn mode(&self) -> Mode {
        self.config.mode
    }

    /// When the first of the certificates that are served expires, in seconds since 1970.
    pub(crate) fn expiry(&self) -> i64 {
        self.served().expiry
    }

    fn served(&self) -> Arc<Served> {
        Arc::clone(&self.served.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files again if they have changed, or `at_any_rate`. What is open stays as it is. `true`: they
    /// are served from now on.
    ///
    /// # Errors
    /// [`TlsError`]: what was served still is.
    fn reload(&self, at_any_rate: bool) -> Result<bool, TlsError> {
        self.reload_by(at_any_rate, Served::read)
    }

    fn reload_by(
        &self,
        at_any_rate: bool,
        read: impl FnOnce(&TlsConfig) -> Result<Served, TlsError>,
    ) -> Result<bool, TlsError> {
        let mut stamps = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Stamps::of(&self.config);
        if *stamps == now && !at_any_rate {
            return Ok(false);
        }
        let served = read(&self.config);
        // What can't be read may be readable the next time, and look the same. What is refused stays as it is.
        if !matches!(served, Err(TlsError::Unreadable { .. })) {
            *stamps = now;
        }
        let served = served?;
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(served);
        Ok(true)
    }

    /// Makes the handshake. What the peer sends for it is charged to `meter`.
    ///
    /// # Errors
    /// [`Failed`]: the peer has been told by TLS, as far as it can be.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        begun: Begun,
        meter: Option<Meter>,
    ) -> Result<(TlsStream<Capped>, Security), Failed> {
        let served = self.served();
        let capped = Capped::new(stream, HANDSHAKE_BYTES_MAX, meter);
        let hello = LazyConfigAcceptor::new(Acceptor::default(), capped).await?;
        if begun == Begun::Directly && hello.client_hello().alpn().is_none() {
            return Err(Failed::NoProtocol);
        }
        let mut stream = hello.into_stream(Arc::clone(&served.rustls)).await?;
        let (capped, connection) = stream.get_mut();
        capped.lift();
        let client = connection.peer_certificates().and_then(<[_]>::first);
        let security = Security {
            tls: true,
            end_point_hash: served.end_point_hash.clone(),
            client_certificate: client.map(ClientCertificate::of_verified),
        };
        Ok((stream, security))
    }
}

#[cfg(test)]
mod tests;
