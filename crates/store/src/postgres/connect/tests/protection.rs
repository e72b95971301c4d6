//! Each `sslmode` against a server with TLS and one without; client certificates and channel binding.

use dataglot_pgtest::Cluster;

use super::secure::{NAME, Secure, write};
use super::{dsn, values};
use crate::postgres::connect::ConnectFailure;
use crate::postgres::dsn::Dsn;
use crate::postgres::dsn::tests::Surroundings;

const SSL: &str = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";

/// `t` or `f`: whether the session is encrypted; or why there is none.
fn encrypted(dsn: &Dsn) -> String {
    match values(dsn, SSL) {
        Ok(values) => values.concat(),
        Err(failure) => failure.to_string(),
    }
}

const UNKNOWN: &str = "TLS: the server's certificate was not issued by a trusted authority";
const ROOTLESS: &str = "TLS: verify-ca needs sslrootcert, or a file ~/.postgresql/root.crt";
const NAMELESS: &str = "TLS: the server's certificate is not for this host name";

#[test]
fn every_mode_against_a_server_with_tls() {
    let server = Secure::server();
    let (ca, other) = (server.file("ca.crt"), server.file("other.crt"));
    let (ca, other) = (format!("sslrootcert={}", ca.display()), format!("sslrootcert={}", other.display()));
    let table = [
        ("disable", NAME, "", "f"),
        ("allow", NAME, "", "f"),
        ("prefer", NAME, "", "t"),
        ("require", NAME, "", "t"),
        ("require", "wrong.test", "", "t"),
        // A root certificate makes it verify-ca.
        ("require", NAME, &ca, "t"),
        ("require", "wrong.test", &ca, "t"),
        ("require", NAME, &other, UNKNOWN),
        // What does not verify is not used, and the other way is open.
        ("prefer", NAME, &other, "f"),
        ("verify-ca", NAME, &ca, "t"),
        ("verify-ca", "wrong.test", &ca, "t"),
        ("verify-ca", NAME, &other, UNKNOWN),
        ("verify-full", NAME, &ca, "t"),
        ("verify-full", "wrong.test", &ca, NAMELESS),
        ("verify-full", NAME, &other, UNKNOWN),
        // Without it the system's authorities would vouch for anybody.
        ("verify-ca", NAME, "", ROOTLESS),
        // They do not know it.
        ("verify-full", NAME, "", UNKNOWN),
        ("verify-full", NAME, "sslrootcert=system", UNKNOWN),
    ];
    for (mode, name, more, want) in table {
        let text = server.by_name(name, "scram_user", &format!("sslmode={mode} {more}"));
        let got = encrypted(&dsn(&text));
        let system_has_none = got == "TLS: no root certificate was named and the operating system has none";
        assert!(
            got == want || (want == UNKNOWN && !more.contains('/') && system_has_none),
            "{mode} {name} {more}: {got}"
        );
    }
    let missing = server.by_name(NAME, "scram_user", "sslmode=require sslrootcert=/nowhere");
    assert_eq!(encrypted(&dsn(&missing)), "TLS: could not read root certificate file \"/nowhere\"");
}

#[test]
fn every_mode_against_a_server_without_tls() {
    let database = Cluster::shared().database();
    let refused = "the server does not support TLS, and sslmode requires it";
    let table = [
        ("disable", "f"),
        ("allow", "f"),
        ("prefer", "f"),
        ("require", refused),
        ("verify-ca", refused),
        ("verify-full", refused),
    ];
    let ca = Secure::server().file("ca.crt");
    for (mode, want) in table {
        let text = format!("{} sslmode={mode} sslrootcert={}", database.tcp_dsn(), ca.display());
        assert_eq!(encrypted(&dsn(&text)), want, "{mode}");
    }
    // A Unix socket has none in any mode.
    assert_eq!(encrypted(&dsn(&format!("{} sslmode=verify-full", database.dsn()))), "f");
}

/// Rules that demand or forbid TLS are met by the modes that leave it open.
#[test]
fn modes_that_leave_it_open_try_both() {
    let server = Secure::server();
    let mode = |user: &str, mode: &str| encrypted(&dsn(&server.by_name(NAME, user, &format!("sslmode={mode}"))));
    assert_eq!(mode("tls_only", "allow"), "t");
    assert_eq!(mode("tls_only", "prefer"), "t");
    assert_eq!(mode("tls_only", "disable"), "login refused (SQLSTATE 28000)");
    assert_eq!(mode("plain_only", "allow"), "f");
    assert_eq!(mode("plain_only", "prefer"), "f");
    assert_eq!(mode("plain_only", "require"), "login refused (SQLSTATE 28000)");
}

#[test]
fn a_certificate_that_was_taken_back() {
    let server = Secure::server();
    let ca = server.file("ca.crt");
    for (list, want) in [
        ("revoked.crl", "TLS: the server's certificate was revoked"),
        ("unrelated.crl", "t"),
        ("ca.crt", "TLS: the certificate revocation list holds none"),
    ] {
        for mode in ["require", "verify-ca", "verify-full"] {
            let list = server.file(list);
            let more = format!("sslmode={mode} sslrootcert={} sslcrl={}", ca.display(), list.display());
            assert_eq!(encrypted(&dsn(&server.by_name(NAME, "scram_user", &more))), want, "{mode} {more}");
        }
    }
}

/// `~/.postgresql/root.crt` and `root.crl` are used without being named.
#[test]
fn root_certificates_at_home() {
    let server = Secure::server();
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".postgresql")).unwrap();
    let around = Surroundings::default().at_home(home.path());
    let text = |more: &str| server.by_name(NAME, "scram_user", more);
    for (file, want) in [("ca.crt", "t"), ("other.crt", UNKNOWN)] {
        std::fs::copy(server.file(file), home.path().join(".postgresql/root.crt")).unwrap();
        for mode in ["require", "verify-ca", "verify-full"] {
            let dsn = Dsn::parse_with(&text(&format!("sslmode={mode}")), &around).unwrap();
            assert_eq!(encrypted(&dsn), want, "{file} {mode}");
        }
    }
    std::fs::copy(server.file("ca.crt"), home.path().join(".postgresql/root.crt")).unwrap();
    std::fs::copy(server.file("revoked.crl"), home.path().join(".postgresql/root.crl")).unwrap();
    let dsn = Dsn::parse_with(&text("sslmode=verify-full"), &around).unwrap();
    assert_eq!(encrypted(&dsn), "TLS: the server's certificate was revoked");
}

#[test]
fn client_certificates() {
    let server = Secure::server();
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("key");
    let text = |certificate: &str| {
        let certificate = server.file(certificate);
        let more = format!("sslmode=require sslcert={} sslkey={}", certificate.display(), key.display());
        server.by_name(NAME, "cert_user", &more)
    };
    let pem = std::fs::read_to_string(server.file("cert_user.key")).unwrap();
    write(&key, &pem, 0o600);
    assert_eq!(encrypted(&dsn(&text("cert_user.crt"))), "t");
    write(&key, &pem, 0o644);
    let open = format!(
        "TLS: private key file \"{}\" has group or world access; permissions should be u=rw (0600) or less",
        key.display()
    );
    assert_eq!(encrypted(&dsn(&text("cert_user.crt"))), open);
    write(&key, &pem, 0o600);
    let strange = "TLS: the client certificate and its key do not belong together or cannot be used";
    assert_eq!(encrypted(&dsn(&text("ca.crt"))), strange);
    let none = format!("TLS: could not read client certificate \"{}\"", server.file("none.crt").display());
    assert_eq!(encrypted(&dsn(&text("none.crt"))), none);
    // Without a certificate the rule is not met.
    let without = server.by_name(NAME, "cert_user", "sslmode=require");
    assert!(matches!(
        values(&dsn(&without), SSL),
        Err(ConnectFailure::Authentication { .. } | ConnectFailure::Tls { .. })
    ));
}

#[test]
fn channel_binding() {
    let server = Secure::server();
    let bound = |user: &str, more: &str| encrypted(&dsn(&server.by_name(NAME, user, more)));
    assert_eq!(bound("scram_user", "sslmode=require channel_binding=require"), "t");
    assert_eq!(bound("scram_user", "sslmode=require channel_binding=disable"), "t");
    // Bound to what? And other ways to log in bind nothing.
    assert_eq!(bound("scram_user", "sslmode=disable channel_binding=require"), ConnectFailure::LoginMethod.to_string());
    assert_eq!(bound("md5_user", "sslmode=require channel_binding=require"), ConnectFailure::LoginMethod.to_string());
    assert_eq!(bound("md5_user", "sslmode=require"), "t");
    assert_eq!(bound("clear_user", "sslmode=require"), "t");
}
