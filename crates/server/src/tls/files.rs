//! Certificate, key and CAs: from files to what rustls serves.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

use super::{PROTOCOL, TlsConfig, certificate};
use crate::private_file::{self, Unread};

/// Longest file with certificates.
const CERTIFICATES_BYTES_MAX: u64 = 1 << 20;
/// Longest file with a key.
const KEY_KILOBYTES_MAX: u64 = 64;

/// Why there is no TLS. Holds paths, never a part of a content.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("TLS {what} file \"{}\" cannot be read: {reason}", path.display())]
    Unreadable {
        /// Which: certificate, key or client CA.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        reason: String,
    },
    /// It can be read, and not be used.
    #[error("TLS {what} file \"{}\" is refused: {why}", path.display())]
    Refused {
        /// Which: certificate, key or client CA.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// What is served.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) rustls: Arc<ServerConfig>,
    /// Of the certificate that this configuration serves.
    pub(super) end_point_hash: Option<Vec<u8>>,
    /// When the first certificate of the chain expires, in seconds since 1970.
    pub(super) expiry: i64,
}

impl Served {
    /// Reads the files.
    pub(super) fn read(config: &TlsConfig) -> Result<Self, TlsError> {
        const CERTIFICATE: &str = "certificate";
        let chain = certificates(CERTIFICATE, &config.certificate)?;
        let key = key(&config.key)?;
        let refused = |why: String| TlsError::Refused { what: CERTIFICATE, path: config.certificate.clone(), why };
        let leaf = chain.first().ok_or_else(|| refused(NO_CERTIFICATE.to_owned()))?;
        let end_point_hash = certificate::end_point_hash(leaf);
        let expiry = chain.iter().map(certificate::expiry).min().flatten();
        let expiry = expiry.ok_or_else(|| refused("it holds a certificate that cannot be read".to_owned()))?;

        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| refused(error.to_string()))?;
        let builder = match &config.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                const CLIENT_CA: &str = "client CA";
                let refused = |why: String| TlsError::Refused { what: CLIENT_CA, path: path.clone(), why };
                let mut roots = RootCertStore::empty();
                for root in certificates(CLIENT_CA, path)? {
                    roots.add(root).map_err(|error| refused(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.allow_unauthenticated().build();
                builder.with_client_cert_verifier(verifier.map_err(|error| refused(error.to_string()))?)
            }
        };
        let mut rustls = builder.with_single_cert(chain, key).map_err(|error| {
            if matches!(error, rustls::Error::InconsistentKeys(_)) {
                let path = config.certificate.display();
                let why = format!("it is not the key of the certificate in \"{path}\"");
                TlsError::Refused { what: KEY, path: config.key.clone(), why }
            } else {
                refused(error.to_string())
            }
        })?;
        rustls.alpn_protocols = vec![PROTOCOL.to_vec()];
        // No session is taken up again: a client's certificate is verified each time.
        rustls.session_storage = Arc::new(NoServerSessionStorage {});
        rustls.send_tls13_tickets = 0;
        Ok(Served { rustls: Arc::new(rustls), end_point_hash, expiry })
    }
}

const KEY: &str = "key";
const NO_CERTIFICATE: &str = "it holds no certificate in PEM";

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refused = |why: &str| TlsError::Refused { what, path: path.to_owned(), why: why.to_owned() };
    let read = || {
        let mut pem = Vec::new();
        File::open(path)?.take(CERTIFICATES_BYTES_MAX + 1).read_to_end(&mut pem)?;
        Ok(pem)
    };
    let pem = read().map_err(|error: io::Error| unreadable(what, path, &error))?;
    if pem.len() as u64 > CERTIFICATES_BYTES_MAX {
        return Err(refused("it is longer than 1 MB"));
    }
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|_| refused("it is not PEM"))?;
    if certificates.is_empty() {
        return Err(refused(NO_CERTIFICATE));
    }
    Ok(certificates)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let refused = |why: String| TlsError::Refused { what: KEY, path: path.to_owned(), why };
    let pem = private_file::read(path, KEY_KILOBYTES_MAX).map_err(|unread| match unread {
        Unread::Io(error) => unreadable(KEY, path, &error),
        Unread::Refused(why) => refused(why),
    })?;
    if pem.contains("ENCRYPTED") {
        return Err(refused("it is encrypted by a passphrase".to_owned()));
    }
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| refused("it holds no private key in PEM".to_owned()))
}

fn unreadable(what: &'static str, path: &Path, error: &io::Error) -> TlsError {
    TlsError::Unreadable { what, path: path.to_owned(), reason: error.to_string() }
}

/// The files as the file system tells them apart: whether one has changed is seen without reading it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamps(Vec<Option<Stamp>>);

#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamps {
    /// As they are now.
    pub(super) fn of(config: &TlsConfig) -> Self {
        let paths = [Some(&config.certificate), Some(&config.key), config.client_ca.as_ref()];
        let stamp = |path: &PathBuf| {
            let found = fs::metadata(path).ok()?;
            Some(Stamp {
                file: (found.dev(), found.ino()),
                bytes: found.len(),
                modified: (found.mtime(), found.mtime_nsec()),
                changed: (found.ctime(), found.ctime_nsec()),
            })
        };
        Stamps(paths.into_iter().flatten().map(stamp).collect())
    }
}
