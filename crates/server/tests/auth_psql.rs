//! A real psql, by each method.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::process::{Command, Stdio};

use dataglot_server::{Authentication, Hba, Method, Names, Rule, ServerConfig, TlsConfig, TlsMode};
use support::pki::{NAME, Pki};
use support::{Client, Served};

/// `admin` is trusted, everybody else has to prove it by `method`; psql may use TLS.
fn served(pki: &Pki, method: Method, sql: &str) -> Served {
    let admin = Rule { users: Names::Of(vec!["admin".to_owned()]), ..Rule::for_all(Method::Trust) };
    let map = [("ann.example".to_owned(), vec!["ann".to_owned()])].into();
    let rule = Rule { map, ..Rule::for_all(method) };
    let rule = if method == Method::Cert { rule } else { Rule::for_all(method) };
    let served = Served::with(ServerConfig {
        authentication: Authentication { hba: Hba::new(vec![admin, rule]), trust_remote: false },
        tls: Some(TlsConfig { client_ca: Some(pki.path("ca.crt")), ..pki.config(TlsMode::Allow) }),
        ..ServerConfig::default()
    });
    let said = Client::login(served.address, "admin").query(sql);
    assert!(!said.contains("E:"), "{said}");
    served
}

/// The user that it is let in as, or the error.
fn psql(served: &Served, user: &str, password: &str, rest: &str) -> String {
    let port = served.address.port();
    let out = Command::new("psql")
        .args(["-X", "-At", "-w", "-c", "SELECT current_user"])
        .arg(format!("hostaddr=127.0.0.1 host={NAME} port={port} user={user} dbname=default connect_timeout=30 {rest}"))
        .env("HOME", "/nonexistent")
        .env("PGPASSWORD", password)
        .env_remove("PGSSLMODE")
        .env_remove("PGSSLROOTCERT")
        .stdin(Stdio::null())
        .output()
        .expect("psql is needed by this test; ./test installs it, or says how to get it");
    let said = if out.status.success() { out.stdout } else { out.stderr };
    String::from_utf8_lossy(&said).trim().to_owned()
}

const WRONG: &str = "password authentication failed for user \"ann\"";

#[test]
fn by_scram_with_and_without_channel_binding() {
    let pki = Pki::new();
    let served = served(&pki, Method::ScramSha256, "CREATE USER ann PASSWORD 'right'");
    let verified = format!("sslmode=verify-full sslrootcert={}", pki.path("ca.crt").display());
    for rest in ["sslmode=disable", "sslmode=require", "sslmode=require channel_binding=require", &verified] {
        assert_eq!(psql(&served, "ann", "right", rest), "ann", "{rest}");
        assert!(psql(&served, "ann", "wrong", rest).contains(WRONG), "{rest}");
    }
    let said = psql(&served, "ann", "right", "sslmode=disable channel_binding=require");
    assert!(said.contains("channel binding required"), "{said}");
    assert!(psql(&served, "ann", "", "").contains("no password supplied"));
}

/// C093: libpq prepares passwords as the server does.
#[test]
fn c093_saslprep() {
    let pki = Pki::new();
    let raw = "a\u{ad}b\u{a0}c\u{ff21}\u{2460}";
    let served = served(&pki, Method::ScramSha256, &format!("CREATE USER ann PASSWORD '{raw}'"));
    for password in [raw, "ab cA1"] {
        assert_eq!(psql(&served, "ann", password, "client_encoding=UTF8"), "ann");
    }
}

#[test]
fn by_password() {
    let pki = Pki::new();
    let sql = "SET password_encryption = 'argon2id'; CREATE USER ann PASSWORD 'right'";
    let served = served(&pki, Method::Password, sql);
    for rest in ["sslmode=require", "sslmode=disable"] {
        assert_eq!(psql(&served, "ann", "right", rest), "ann", "{rest}");
        assert!(psql(&served, "ann", "wrong", rest).contains(WRONG), "{rest}");
    }
}

#[test]
fn by_md5() {
    let pki = Pki::new();
    let hash = <md5::Md5 as md5::Digest>::digest(b"rightann");
    let verifier = format!("md5{}", hash.iter().map(|b| format!("{b:02x}")).collect::<String>());
    let sql = format!("CREATE USER ann PASSWORD '{verifier}'; CREATE USER bob PASSWORD 'right'");
    let served = served(&pki, Method::Md5, &sql);
    assert_eq!(psql(&served, "ann", "right", ""), "ann");
    assert!(psql(&served, "ann", "wrong", "").contains(WRONG));
    assert_eq!(psql(&served, "bob", "right", ""), "bob");
}

#[test]
fn by_certificate() {
    let pki = Pki::new();
    pki.client("ann.example");
    pki.client("ann");
    let served = served(&pki, Method::Cert, "CREATE USER ann; CREATE USER bob");
    let with = |name: &str| {
        let path = |end: &str| pki.path(&format!("{name}.{end}")).display().to_string();
        format!("sslmode=require sslcert={} sslkey={}", path("crt"), path("key"))
    };
    assert_eq!(psql(&served, "ann", "", &with("ann.example")), "ann");
    for (user, rest) in [("bob", with("ann.example")), ("ann", with("ann")), ("ann", "sslmode=disable".to_owned())] {
        let said = psql(&served, user, "", &rest);
        assert!(said.contains(&format!("certificate authentication failed for user \"{user}\"")), "{said}");
    }
}
