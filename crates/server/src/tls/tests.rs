//! What authentication learns of an encrypted connection.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256, PKCS_RSA_SHA384, PKCS_RSA_SHA512, SanType,
    SignatureAlgorithm,
};
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;

use super::*;

const RSA_KEY: &str = include_str!("../../tests/support/rsa.key");
const NAME: &str = "dataglot.test";

fn key(algorithm: &'static SignatureAlgorithm) -> KeyPair {
    if [&PKCS_RSA_SHA256, &PKCS_RSA_SHA384, &PKCS_RSA_SHA512].contains(&algorithm) {
        KeyPair::from_pem_and_sign_algo(RSA_KEY, algorithm).unwrap()
    } else {
        KeyPair::generate_for(algorithm).unwrap()
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "ca");
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A directory with the files of a server whose certificate is signed so, and that certificate.
fn files(algorithm: &'static SignatureAlgorithm, client_ca: &str) -> (tempfile::TempDir, CertificateDer<'static>) {
    let directory = tempfile::tempdir().unwrap();
    let key = key(algorithm);
    let certificate = CertificateParams::new([NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
    for (name, text) in [("crt", certificate.pem().as_str()), ("key", &key.serialize_pem()), ("ca", client_ca)] {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    (directory, certificate.der().clone())
}

fn config(directory: &tempfile::TempDir) -> TlsConfig {
    let path = |name: &str| directory.path().join(name);
    TlsConfig {
        mode: Mode::Require,
        certificate: path("crt"),
        key: path("key"),
        client_ca: Some(path("ca")),
        poll_interval: Duration::from_secs(1),
    }
}

#[test]
fn a_renewed_certificate_is_not_lost_for_a_read_that_fails() {
    let ca = authority();
    let (directory, _) = files(&PKCS_ECDSA_P256_SHA256, &ca.pem());
    let tls = Tls::load(config(&directory)).unwrap();
    assert!(!tls.reload(false).unwrap());
    let (renewed, certificate) = files(&PKCS_ECDSA_P256_SHA256, &ca.pem());
    for name in ["crt", "key"] {
        fs::rename(renewed.path().join(name), directory.path().join(name)).unwrap();
    }
    let unreadable = |config: &TlsConfig| {
        let reason = "Too many open files".to_owned();
        Err(TlsError::Unreadable { what: "key", path: config.key.clone(), reason })
    };
    assert!(tls.reload_by(false, unreadable).is_err());
    assert!(tls.reload(false).unwrap(), "nothing has changed since, and it is read all the same");
    assert_eq!(tls.served().end_point_hash, Some(Sha256::digest(&certificate).to_vec()));
    fs::write(directory.path().join("crt"), "none").unwrap();
    assert!(tls.reload(false).is_err());
    assert!(!tls.reload(false).unwrap(), "what is refused is not read again before it changes");
}

/// What the server makes of a client with that certificate.
async fn handshake(
    directory: &tempfile::TempDir,
    root: CertificateDer<'static>,
    client: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
) -> Result<Security, Failed> {
    let tls = Tls::load(config(directory)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match client {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let connected = connector.connect(ServerName::try_from(NAME).unwrap(), stream);
    let (accepted, _connected) = tokio::join!(tls.accept(accepted, Begun::OnRequest, None), connected);
    accepted.map(|(_, security)| security)
}

/// RFC 5929, and nothing where it defines nothing.
#[tokio::test]
async fn a_02_the_end_point_is_hashed_as_its_signature_is() {
    let ca = authority();
    type Hash = Option<fn(&[u8]) -> Vec<u8>>;
    let cases: [(&SignatureAlgorithm, Hash); 6] = [
        (&PKCS_RSA_SHA256, Some(|der| Sha256::digest(der).to_vec())),
        (&PKCS_RSA_SHA384, Some(|der| Sha384::digest(der).to_vec())),
        (&PKCS_RSA_SHA512, Some(|der| Sha512::digest(der).to_vec())),
        (&PKCS_ECDSA_P256_SHA256, Some(|der| Sha256::digest(der).to_vec())),
        (&PKCS_ECDSA_P384_SHA384, Some(|der| Sha384::digest(der).to_vec())),
        (&PKCS_ED25519, None),
    ];
    for (algorithm, hash) in cases {
        let (directory, certificate) = files(algorithm, &ca.pem());
        let security = handshake(&directory, certificate.clone(), None).await.unwrap();
        assert!(security.tls);
        assert_eq!(security.client_certificate, None);
        assert_eq!(security.end_point_hash, hash.map(|hash| hash(&certificate)), "{algorithm:?}");
    }
}

/// MD5 and SHA-1 make way for SHA-256. No library here signs by them: the algorithm's name is all that counts.
#[test]
fn a_02_broken_hashes_make_way() {
    let (_, certificate) = files(&PKCS_RSA_SHA256, "");
    const SHA256_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
    for (last, is_known) in [(4, true), (5, true), (10, false), (14, false)] {
        let mut der = certificate.to_vec();
        let places: Vec<usize> = (0..der.len())
            .filter(|at| der[*at..].starts_with(SHA256_RSA))
            .map(|at| at + SHA256_RSA.len() - 1)
            .collect();
        assert_eq!(places.len(), 2);
        places.iter().for_each(|at| der[*at] = last);
        let expected = is_known.then(|| Sha256::digest(&der).to_vec());
        assert_eq!(certificate::end_point_hash(&der.into()), expected, "{last}");
    }
    assert_eq!(certificate::end_point_hash(&b"CANARY-7Q"[..].into()), None);
}

/// A client's certificate, signed by `ca`.
fn client(
    ca: &CertifiedIssuer<'static, KeyPair>,
    common_names: &[DnType],
    names: &[&str],
    sans: Vec<SanType>,
) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.subject_alt_names = sans;
    params.distinguished_name = rcgen::DistinguishedName::new();
    for (kind, name) in common_names.iter().zip(names) {
        params.distinguished_name.push(kind.clone(), *name);
    }
    let certificate = params.signed_by(&key, ca).unwrap();
    (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

#[tokio::test]
async fn a_verified_client_has_names() {
    let ca = authority();
    let (directory, certificate) = files(&PKCS_ECDSA_P256_SHA256, &ca.pem());
    let sans = vec![
        SanType::DnsName("ann.test".try_into().unwrap()),
        SanType::Rfc822Name("ann@example.test".try_into().unwrap()),
        SanType::URI("spiffe://example.test/ann".try_into().unwrap()),
        SanType::IpAddress([127, 0, 0, 1].into()),
    ];
    let ann = client(&ca, &[DnType::CommonName], &["Ann \u{d6}"], sans);
    let security = handshake(&directory, certificate.clone(), Some(ann)).await.unwrap();
    let found = security.client_certificate.unwrap();
    assert_eq!(found.common_name.as_deref(), Some("Ann \u{d6}"));
    assert_eq!(found.sans, ["ann.test", "ann@example.test", "spiffe://example.test/ann"]);

    for bad in ["ann\0.test", "ann\nx"] {
        let odd = client(&ca, &[DnType::CommonName], &[bad], Vec::new());
        let security = handshake(&directory, certificate.clone(), Some(odd)).await.unwrap();
        assert_eq!(security.client_certificate.unwrap().common_name, None, "{bad:?}");
    }
    let none = client(&ca, &[DnType::OrganizationName], &["ann"], Vec::new());
    let security = handshake(&directory, certificate.clone(), Some(none)).await.unwrap();
    assert_eq!(security.client_certificate, Some(ClientCertificate { common_name: None, sans: Vec::new() }));
}

/// Of two common names each reader might take another one.
#[test]
fn two_common_names_are_none() {
    let ca = authority();
    // The library writes each type once: a type of the same length becomes the second.
    let (certificate, _) = client(&ca, &[DnType::CommonName, DnType::CountryName], &["ann", "eve"], Vec::new());
    let mut der = certificate.to_vec();
    const COUNTRY: &[u8] = &[0x55, 0x04, 0x06];
    let place = (0..der.len()).find(|at| der[*at..].starts_with(COUNTRY)).unwrap();
    assert_eq!(ClientCertificate::of_verified(&certificate).common_name.as_deref(), Some("ann"));
    der[place + 2] = 3;
    assert_eq!(ClientCertificate::of_verified(&der.into()).common_name, None);
}

#[tokio::test]
async fn an_unverified_client_is_refused() {
    let (ca, other) = (authority(), authority());
    let (directory, certificate) = files(&PKCS_ECDSA_P256_SHA256, &ca.pem());
    let eve = client(&other, &[DnType::CommonName], &["ann"], Vec::new());
    let failed = handshake(&directory, certificate, Some(eve)).await.unwrap_err();
    assert_eq!(failed.reason(), "client_certificate", "{failed}");
}

#[test]
fn every_failure_has_a_class_that_is_listed() {
    let io = |error: rustls::Error| Failed::from(std::io::Error::new(std::io::ErrorKind::InvalidData, error));
    for (failed, expected) in [
        (io(rustls::Error::NoApplicationProtocol), "alpn"),
        (io(rustls::Error::AlertReceived(rustls::AlertDescription::UnknownCA)), "refused_by_client"),
        (io(rustls::Error::InvalidCertificate(rustls::CertificateError::Expired)), "client_certificate"),
        (io(rustls::PeerIncompatible::NoCipherSuitesInCommon.into()), "incompatible"),
        (io(rustls::Error::DecryptError), "invalid"),
        (Failed::from(std::io::Error::new(std::io::ErrorKind::InvalidData, capped::TooLong)), "invalid"),
        (Failed::from(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)), "lost"),
        (Failed::NoProtocol, "alpn"),
    ] {
        assert_eq!(failed.reason(), expected, "{failed}");
        assert!(Failed::REASONS.contains(&expected));
    }
}
