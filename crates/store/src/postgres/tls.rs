//! From `sslmode` to rustls: what is encrypted, and whose certificate is believed.
//!
//! The meanings are libpq's. `require` with a file of root certificates is `verify-ca`. `verify-ca`
//! checks the chain and not the name, and needs a file of root certificates: anybody has a certificate of a
//! public authority for some name. Two differences: a root certificate file that was named has to be there in
//! every mode, and where none is named or found, `verify-full` trusts the operating system's authorities
//! instead of failing.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::dsn::{ClientCertificate, Roots, SslMode, Tls};

/// What makes the TLS side of a connection, in a mode other than `disable`. The files are read anew each
/// time, so renewed certificates are taken up. Err: why it cannot be made, without any content.
pub(crate) fn connector(tls: &Tls, mode: SslMode) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let check = match mode {
        SslMode::VerifyFull => Check::ChainAndName,
        SslMode::VerifyCa => Check::Chain,
        SslMode::Disable | SslMode::Allow | SslMode::Prefer | SslMode::Require => Check::ChainIfRoots,
    };
    let verifier = verifier(tls, check, &provider)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match tls.client.as_ref().map(identity).transpose()?.flatten() {
        None => config.with_no_client_auth(),
        Some((chain, key)) => config
            .with_client_auth_cert(chain, key)
            .map_err(|_| "the client certificate and its key do not belong together or cannot be used".to_owned())?,
    };
    config.enable_sni = tls.server_name;
    Ok(MakeRustlsConnect::new(config))
}

/// Why a handshake failed, in words.
pub(crate) fn reason(error: &rustls::Error) -> String {
    use rustls::Error::{AlertReceived, InvalidCertificate, PeerIncompatible};
    #[expect(clippy::wildcard_enum_match_arm, reason = "rustls's errors, which may grow")]
    match error {
        InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the server's certificate was not issued by a trusted authority".to_owned()
        }
        InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) => {
            "the server's certificate is not for this host name".to_owned()
        }
        InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the server's certificate has expired".to_owned()
        }
        InvalidCertificate(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
            "the server's certificate is not valid yet".to_owned()
        }
        InvalidCertificate(CertificateError::Revoked) => "the server's certificate was revoked".to_owned(),
        InvalidCertificate(CertificateError::Other(other)) if other.to_string().contains("CaUsedAsEndEntity") => {
            "the server's certificate is one for an authority, not for a server".to_owned()
        }
        AlertReceived(alert) => format!("the server broke off with {alert:?}"),
        PeerIncompatible(_) => "the server speaks neither TLS 1.2 nor TLS 1.3 as needed".to_owned(),
        other => other.to_string(),
    }
}

/// What of a certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// Who issued it, and for which host.
    ChainAndName,
    /// Who issued it.
    Chain,
    /// Who issued it, if there is a file that says who may.
    ChainIfRoots,
}

fn verifier(tls: &Tls, check: Check, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let roots = match &tls.roots {
        Roots::System => Some(system_roots()?),
        Roots::File(file) => Some(roots_of(file)?),
        Roots::Home(Some(file)) if file.exists() => Some(roots_of(file)?),
        Roots::Home(_) => match check {
            Check::ChainIfRoots => None,
            Check::Chain => return Err("verify-ca needs sslrootcert, or a file ~/.postgresql/root.crt".to_owned()),
            Check::ChainAndName => Some(system_roots()?),
        },
    };
    let Some(roots) = roots else { return Ok(Arc::new(AnyCertificate(Arc::clone(provider)))) };
    let mut builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    if let Some(file) = &tls.revoked {
        let unreadable = || unreadable("certificate revocation list", file);
        let lists: Result<Vec<_>, _> =
            CertificateRevocationListDer::pem_file_iter(file).map_err(|_| unreadable())?.collect();
        let lists = lists.map_err(|_| unreadable())?;
        if lists.is_empty() {
            return Err("the certificate revocation list holds none".to_owned());
        }
        builder = builder.with_crls(lists);
    }
    let chain_and_name = builder.build().map_err(|error| error.to_string())?;
    match check {
        Check::ChainAndName => Ok(chain_and_name),
        Check::Chain | Check::ChainIfRoots => Ok(Arc::new(AnyName(chain_and_name))),
    }
}

fn roots_of(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file).map_err(|_| unreadable("root certificate file", file))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|_| unreadable("root certificate file", file))?;
        roots.add(certificate).map_err(|_| unreadable("root certificate file", file))?;
    }
    if roots.is_empty() {
        return Err(format!("root certificate file \"{}\" holds no certificate", file.display()));
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("no root certificate was named and the operating system has none".to_owned());
    }
    Ok(roots)
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(client: &ClientCertificate) -> Result<Option<Identity>, String> {
    if !client.named && !client.certificate.exists() {
        return Ok(None);
    }
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(&client.certificate)
        .map_err(|_| unreadable("client certificate", &client.certificate))?
        .collect();
    let chain = chain.map_err(|_| unreadable("client certificate", &client.certificate))?;
    let metadata = fs::metadata(&client.key).map_err(|_| unreadable("private key file", &client.key))?;
    if others_may_use(&metadata) {
        return Err(format!(
            "private key file \"{}\" has group or world access; permissions should be u=rw (0600) or less",
            client.key.display()
        ));
    }
    let key = PrivateKeyDer::from_pem_file(&client.key)
        .map_err(|_| format!("private key file \"{}\" holds no key that is not encrypted", client.key.display()))?;
    Ok(Some((chain, key)))
}

/// libpq's rule: a key that belongs to root may be readable for a group.
fn others_may_use(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    metadata.mode() & forbidden != 0
}

fn unreadable(kind: &str, file: &Path) -> String {
    format!("could not read {kind} \"{}\"", file.display())
}

/// Checks the chain and lets the name pass (`verify-ca`).
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The name is the last thing that is checked: whoever fails there has passed all else.
        match self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Lets any certificate pass whose key the server has (`require` without root certificates): against
/// those who listen, not against those who answer in the server's place.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
