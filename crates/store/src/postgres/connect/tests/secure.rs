//! A server with TLS that asks for passwords and certificates, and the files that its clients need.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dataglot_pgtest::{Cluster, ClusterOptions, Tls};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};

/// The name in its certificate.
pub(super) const NAME: &str = "db.test";
/// The number of that certificate.
const SERVER_NUMBER: u64 = 7;
/// What every user's password is. Quotes, colons and backslashes mean something in some file.
pub(super) const PASSWORD: &str = r#"p ü'"%@/:\?&=#"#;
/// A user and a database of that name.
pub(super) const ODD: &str = r#"a b'"%@/:\?&=#ü"#;

pub(super) struct Secure {
    pub(super) cluster: Cluster,
    /// `ca.crt`, `other.crt`, `revoked.crl`, `unrelated.crl`, `cert_user.crt` and `.key`.
    directory: tempfile::TempDir,
}

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Issuer {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key.
fn certificate(issuer: &Issuer, number: u64, common_name: &str, names: &[&str]) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.serial_number = Some(SerialNumber::from(number));
    params.distinguished_name.push(DnType::CommonName, common_name);
    (params.signed_by(&key, issuer).unwrap().pem(), key.serialize_pem())
}

/// The list of certificates that the authority has taken back: one.
fn revoked(issuer: &Issuer, number: u64) -> String {
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(2200, 1, 1),
        crl_number: SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(number),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    list.signed_by(issuer).unwrap().pem().unwrap()
}

impl Secure {
    /// The one that all tests share.
    pub(super) fn server() -> &'static Secure {
        static SERVER: OnceLock<Secure> = OnceLock::new();
        SERVER.get_or_init(Secure::start)
    }

    fn start() -> Secure {
        let (ca, other) = (authority("ca"), authority("other"));
        let (server, server_key) = certificate(&ca, SERVER_NUMBER, "server", &[NAME, "localhost"]);
        let (client, client_key) = certificate(&ca, 8, "cert_user", &[]);
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| write(&directory.path().join(name), text, 0o600);
        file("ca.crt", &ca.pem());
        file("other.crt", &other.pem());
        file("revoked.crl", &revoked(&ca, SERVER_NUMBER));
        file("unrelated.crl", &revoked(&ca, 9));
        file("cert_user.crt", &client);
        file("cert_user.key", &client_key);

        let tls = Tls { certificate: server, key: server_key, client_authority: Some(ca.pem()) };
        let options = ClusterOptions { tls: Some(tls), ..ClusterOptions::default() }
            .hba("hostssl all cert_user 127.0.0.1/32 cert")
            .hba("hostnossl all tls_only 127.0.0.1/32 reject")
            .hba("hostssl all plain_only 127.0.0.1/32 reject")
            .hba("host all md5_user 127.0.0.1/32 md5")
            .hba("host all clear_user 127.0.0.1/32 password")
            .hba("local all all scram-sha-256")
            .hba("host all all 127.0.0.1/32 scram-sha-256");
        let cluster = Cluster::start(options);
        let password = PASSWORD.replace('\'', "''");
        for user in ["cert_user", "tls_only", "plain_only", "scram_user", "clear_user", ODD] {
            let user = user.replace('"', "\"\"");
            cluster.execute(&format!("CREATE ROLE \"{user}\" LOGIN PASSWORD '{password}'"));
        }
        cluster.execute(&format!("SET password_encryption = md5; CREATE ROLE md5_user LOGIN PASSWORD '{password}'"));
        cluster.execute(&format!("CREATE DATABASE \"{}\" TEMPLATE template0", ODD.replace('"', "\"\"")));
        Secure { cluster, directory }
    }

    /// One of its clients' files.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Settings that lead to it by its name, as `user`, with the password.
    pub(super) fn by_name(&self, name: &str, user: &str, more: &str) -> String {
        format!(
            "host={name} hostaddr=127.0.0.1 port={} dbname=postgres user={user} password='{}' {more}",
            self.cluster.port(),
            PASSWORD.replace('\\', r"\\").replace('\'', r"\'")
        )
    }
}

/// A file with a mode.
pub(super) fn write(path: &Path, text: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
