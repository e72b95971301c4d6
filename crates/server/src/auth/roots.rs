//! Whom we trust to say who a server is that we ask: a file of CAs, or the operating system's.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// How we speak TLS to servers whose certificates these CAs have signed. There is no way to do without.
///
/// # Errors
/// Why there is none.
pub fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let roots = match ca_file {
        Some(file) => roots_of(file)?,
        None => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        }
    };
    if roots.is_empty() {
        return Err(match ca_file {
            Some(file) => format!("file \"{}\" holds no certificate", file.display()),
            None => "no file of CAs is named, and the operating system has none".to_owned(),
        });
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn roots_of(file: &Path) -> Result<RootCertStore, String> {
    let wrong = || format!("file \"{}\" cannot be read as certificates", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|_| wrong())? {
        roots.add(certificate.map_err(|_| wrong())?).map_err(|_| wrong())?;
    }
    Ok(roots)
}
