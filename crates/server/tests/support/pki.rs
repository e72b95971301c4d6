//! Authorities and the certificates that they sign, as files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dataglot_server::{TlsConfig, TlsMode};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256,
    date_time_ymd,
};

/// The name in servers' certificates.
pub const NAME: &str = "dataglot.test";
/// For tests: a key of this kind can't be made by the libraries that are here.
const RSA_KEY: &str = include_str!("rsa.key");

/// An authority and a directory for what it signs.
pub struct Pki {
    pub issuer: CertifiedIssuer<'static, KeyPair>,
    pub directory: tempfile::TempDir,
}

impl Pki {
    /// A new authority, whose certificate is in `ca.crt`; `server.crt` and `server.key` are there, too.
    pub fn new() -> Pki {
        // Two of the same name would differ by their signatures only, which OpenSSL finds words for of its own.
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let name = format!("ca {}", COUNT.fetch_add(1, Ordering::Relaxed));
        let pki = Pki { issuer: authority(&name), directory: tempfile::tempdir().unwrap() };
        write(&pki.path("ca.crt"), &pki.issuer.pem());
        pki.serve(&KeyPair::generate().unwrap(), 2100);
        pki
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Puts a new certificate of `key` in the place of the server's. It expires at the start of `year`.
    pub fn serve(&self, key: &KeyPair, year: i32) {
        let names = [NAME, "localhost", "127.0.0.1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        params.distinguished_name.push(DnType::CommonName, "server");
        write(&self.path("server.crt"), &params.signed_by(key, &self.issuer).unwrap().pem());
        write(&self.path("server.key"), &key.serialize_pem());
    }

    /// The same with an RSA key.
    pub fn serve_rsa(&self) {
        self.serve(&KeyPair::from_pem_and_sign_algo(RSA_KEY, &PKCS_RSA_SHA256).unwrap(), 2100);
    }

    /// Makes `NAME.crt` and `NAME.key` of a client of that common name.
    pub fn client(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        write(&self.path(&format!("{name}.crt")), &params.signed_by(&key, &self.issuer).unwrap().pem());
        write(&self.path(&format!("{name}.key")), &key.serialize_pem());
    }

    /// A server with its certificate.
    pub fn config(&self, mode: TlsMode) -> TlsConfig {
        TlsConfig {
            mode,
            certificate: self.path("server.crt"),
            key: self.path("server.key"),
            client_ca: None,
            poll_interval: Duration::from_secs(3600),
        }
    }
}

/// An authority that signs itself.
pub fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// For its owner only.
pub fn write(path: &Path, text: &str) {
    let next = path.with_extension("next");
    fs::write(&next, text).unwrap();
    fs::set_permissions(&next, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(next, path).unwrap();
}
