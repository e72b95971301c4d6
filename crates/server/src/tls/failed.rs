//! Why a handshake failed, in classes that can be counted.

use std::io;

use rustls::Error;

use super::capped::TooLong;

/// Why there is no TLS with a peer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    /// It went away, or the socket failed.
    #[error("connection lost")]
    Lost,
    /// It began with TLS and named no protocol.
    #[error("direct TLS without the name of a protocol (ALPN)")]
    NoProtocol,
    /// It sent more than a handshake may have.
    #[error(transparent)]
    TooLong(TooLong),
    /// TLS says no.
    #[error(transparent)]
    Tls(Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        match error.downcast::<Error>() {
            Ok(error) => Failed::Tls(error),
            Err(error) => error.downcast().map_or(Failed::Lost, Failed::TooLong),
        }
    }
}

const LOST: &str = "lost";
const PROTOCOL: &str = "alpn";
const CERTIFICATE: &str = "client_certificate";
const INCOMPATIBLE: &str = "incompatible";
const ALERT: &str = "refused_by_client";
const INVALID: &str = "invalid";

impl Failed {
    /// All classes.
    pub(crate) const REASONS: [&'static str; 6] = [LOST, PROTOCOL, CERTIFICATE, INCOMPATIBLE, ALERT, INVALID];

    /// Its class.
    pub(crate) fn reason(&self) -> &'static str {
        #[expect(clippy::wildcard_enum_match_arm, reason = "rustls's errors, which may grow")]
        match self {
            Failed::Lost => LOST,
            Failed::NoProtocol | Failed::Tls(Error::NoApplicationProtocol) => PROTOCOL,
            Failed::TooLong(_) => INVALID,
            Failed::Tls(error) => match error {
                Error::AlertReceived(_) => ALERT,
                Error::InvalidCertificate(_) | Error::NoCertificatesPresented => CERTIFICATE,
                Error::PeerIncompatible(_) => INCOMPATIBLE,
                _ => INVALID,
            },
        }
    }
}
