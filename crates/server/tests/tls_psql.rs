//! What a real psql gets for each `sslmode`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::process::{Command, Stdio};

use dataglot_server::{ServerConfig, TlsConfig, TlsMode};
use support::Served;
use support::pki::{NAME, Pki};

/// What it says: `encrypted`, `clear`, or the error.
fn psql(served: &Served, conninfo: &str) -> String {
    let port = served.address.port();
    let out = Command::new("psql")
        .args(["-X", "-At", "-c", r"\conninfo"])
        .arg(format!("hostaddr=127.0.0.1 port={port} user=admin dbname=default connect_timeout=30 {conninfo}"))
        // Neither a certificate nor an authority of whoever runs the test.
        .env("HOME", "/nonexistent")
        .env_remove("PGSSLMODE")
        .env_remove("PGSSLROOTCERT")
        .stdin(Stdio::null())
        .output()
        .expect("psql is needed by this test; ./test installs it, or says how to get it");
    if !out.status.success() {
        return String::from_utf8_lossy(&out.stderr).into_owned();
    }
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains("You are connected"), "{said}");
    if said.contains("SSL connection (protocol: TLSv1.3") { "encrypted".to_owned() } else { "clear".to_owned() }
}

const REFUSED: &str = "this server takes encrypted connections only";
const NO_TLS: &str = "server does not support SSL, but SSL was required";

#[test]
fn each_sslmode_gets_what_it_asks_for() {
    let (pki, other) = (Pki::new(), Pki::new());
    let (ca, other_ca) = (pki.path("ca.crt"), other.path("ca.crt"));
    let trusted = |host: &str| format!("host={host} sslrootcert={}", ca.display());
    let untrusted = format!("host={NAME} sslrootcert={}", other_ca.display());
    let here = || format!("host={NAME}");
    let with = |tls| Served::with(ServerConfig { tls, ..ServerConfig::default() });
    let off = with(None);
    let allow = with(Some(pki.config(TlsMode::Allow)));
    let require = with(Some(pki.config(TlsMode::Require)));
    for (mode, rest, of_off, of_allow, of_require) in [
        ("disable", here(), "clear", "clear", REFUSED),
        ("allow", here(), "clear", "clear", "encrypted"),
        ("prefer", here(), "clear", "encrypted", "encrypted"),
        ("require", here(), NO_TLS, "encrypted", "encrypted"),
        ("verify-ca", trusted("other.test"), NO_TLS, "encrypted", "encrypted"),
        ("verify-full", trusted(NAME), NO_TLS, "encrypted", "encrypted"),
        ("verify-full", trusted("other.test"), NO_TLS, "does not match host name", "does not match host name"),
        ("verify-ca", untrusted.clone(), NO_TLS, "certificate verify failed", "certificate verify failed"),
        ("verify-full", untrusted, NO_TLS, "certificate verify failed", "certificate verify failed"),
    ] {
        for (name, served, expected) in
            [("off", &off, of_off), ("allow", &allow, of_allow), ("require", &require, of_require)]
        {
            let said = psql(served, &format!("sslmode={mode} {rest}"));
            assert!(said.contains(expected), "sslmode={mode} {rest}, tls={name}: {said}");
        }
    }
}

#[test]
fn a_client_certificate_is_verified() {
    let (pki, other) = (Pki::new(), Pki::new());
    pki.client("ann");
    other.client("eve");
    let tls = TlsConfig { client_ca: Some(pki.path("ca.crt")), ..pki.config(TlsMode::Require) };
    let served = Served::with(ServerConfig { tls: Some(tls), ..ServerConfig::default() });
    let of = |pki: &Pki, name: &str| {
        let path = |kind: &str| pki.path(&format!("{name}.{kind}")).display().to_string();
        format!("sslmode=require host={NAME} sslcert={} sslkey={}", path("crt"), path("key"))
    };
    assert_eq!(psql(&served, &of(&pki, "ann")), "encrypted");
    assert_eq!(psql(&served, &format!("sslmode=require host={NAME}")), "encrypted");
    let said = psql(&served, &of(&other, "eve"));
    assert!(said.contains("alert"), "{said}");
}
