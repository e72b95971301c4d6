//! Stock clients log in with their default settings, in every mode: the examples for people, run. And who is wrong
//! is refused, in the way that each client understands.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a test"
)]

#[path = "../../../server/tests/support/pki.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod pki;
mod place;
mod program;
#[path = "../../../server/tests/support/slapd.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod slapd;
#[path = "../support/mod.rs"]
mod support;
#[path = "../../../../examples/clients/tokio-postgres.rs"]
mod tokio_example;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use md5::{Digest as _, Md5};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData as _, SigningKey as _};

use crate::pki::Pki;
use crate::place::Place;
use crate::program::{How, Program, clean, said};
use crate::slapd::{Slapd, person, unit};

/// A password with what clients may get wrong: blanks, quotes, letters beyond ASCII.
const RIGHT: &str = "correct \"hörse\" battery%20staple";

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/clients").join(name)
}

/// Every client logs in, in each of these ways.
#[track_caller]
fn all_log_in(place: &Place, hows: &[How], password: impl Fn(Program) -> Option<String>) {
    for program in Program::ALL {
        for how in hows.iter().copied().filter(|how| program.can(*how)) {
            let said = program.log_in(place, how, password(program).as_deref(), place.method());
            assert_eq!(said, Ok(format!("ok {}", place.method())), "{program:?} {how:?}");
        }
    }
}

/// No client logs in with that, and each knows why.
#[track_caller]
fn none_logs_in(place: &Place, how: How, password: &str) {
    for program in Program::ALL {
        let said = program.log_in(place, how, Some(password), "no");
        let why = said.expect_err(program.user());
        assert!(why.contains(program.refusal()), "{program:?}: {why}");
    }
}

#[test]
fn stock_clients_log_in_by_trust() {
    let place = Place::new("trust", |_| String::new());
    place.users(|_| None);
    all_log_in(&place, &[How::Default], |_| None);
    place.stop();
}

#[test]
fn stock_clients_log_in_by_scram() {
    let place = Place::new("scram-sha-256", |_| String::new());
    place.users(|_| Some(RIGHT.to_owned()));
    all_log_in(&place, &[How::Default, How::Clear, How::Verified, How::Bound], |_| Some(RIGHT.to_owned()));
    none_logs_in(&place, How::Default, "wrong");
    place.stop();
}

#[test]
fn stock_clients_log_in_by_password() {
    let place = Place::new("password", |_| String::new());
    place.users(|_| Some(RIGHT.to_owned()));
    all_log_in(&place, &[How::Default], |_| Some(RIGHT.to_owned()));
    for program in Program::ALL {
        let again = format!("ALTER USER {} PASSWORD '{RIGHT}'", program.user());
        place.query(&format!("SET password_encryption = 'argon2id'; {again}"));
    }
    all_log_in(&place, &[How::Verified], |_| Some(RIGHT.to_owned()));
    none_logs_in(&place, How::Default, "wrong");
    place.stop();
}

#[test]
fn stock_clients_log_in_by_md5() {
    let place = Place::new("md5", |_| String::new());
    place.users(|user| {
        let hash = Md5::digest(format!("{RIGHT}{user}"));
        let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(format!("md5{digits}"))
    });
    all_log_in(&place, &[How::Default, How::Verified], |_| Some(RIGHT.to_owned()));
    none_logs_in(&place, How::Default, "wrong");
    place.stop();
}

#[test]
fn stock_clients_log_in_by_certificate() {
    let place = Place::new("cert", |_| String::new());
    place.users(|_| None);
    for program in Program::ALL {
        place.pki.client(program.user());
        // pgjdbc reads the key in binary.
        let key = KeyPair::from_pem(&fs::read_to_string(place.pki.path(&format!("{}.key", program.user()))).unwrap());
        fs::write(place.pki.path(&format!("{}.der", program.user())), key.unwrap().serialize_der()).unwrap();
    }
    all_log_in(&place, &[How::Certificate], |_| None);
    for program in Program::ALL {
        let said = program.log_in(&place, How::Verified, Some("x"), "no");
        let why = said.expect_err(program.user());
        assert!(why.contains("certificate") || why.contains("28000"), "{program:?}: {why}");
    }
    place.stop();
}

/// The key of an issuer, who signs for an hour.
struct Issuer(KeyPair);

impl Issuer {
    fn token(&self, subject: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let claims = serde_json::json!({
            "iss": "https://id.test", "aud": "dataglot", "sub": subject, "iat": now, "exp": now + 3_600,
        });
        let encode = |value: String| URL_SAFE_NO_PAD.encode(value);
        let signed = format!("{}.{}", encode(r#"{"alg":"EdDSA","typ":"JWT"}"#.to_owned()), encode(claims.to_string()));
        let signature = URL_SAFE_NO_PAD.encode(self.0.sign(signed.as_bytes()).unwrap());
        format!("{signed}.{signature}")
    }
}

#[test]
fn stock_clients_log_in_by_token() {
    let [issuer, other] = [0; 2].map(|_| Issuer(KeyPair::generate_for(&PKCS_ED25519).unwrap()));
    let place = Place::new("jwt", |pki| {
        let x = URL_SAFE_NO_PAD.encode(issuer.0.der_bytes());
        let keys = serde_json::json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "use": "sig", "x": x }] });
        fs::write(pki.path("keys.json"), keys.to_string()).unwrap();
        format!(
            "[[jwt]]\nissuer = \"https://id.test\"\naudience = \"dataglot\"\nuser_claim = \"sub\"\njwks_file = \"{}\"",
            pki.path("keys.json").display()
        )
    });
    place.users(|_| None);
    all_log_in(&place, &[How::Default, How::Verified], |program| Some(issuer.token(program.user())));
    none_logs_in(&place, How::Default, &issuer.token("somebody"));
    for program in Program::ALL {
        let why = program.log_in(&place, How::Default, Some(&other.token(program.user())), "no").unwrap_err();
        assert!(why.contains(program.refusal()), "{program:?}: {why}");
    }
    place.stop();
}

#[test]
fn stock_clients_log_in_by_a_directory() {
    let password = |user: &str| format!("the directory's of {user}");
    let pki = Pki::new();
    let people = Program::ALL.map(|program| person("people", program.user(), &password(program.user()), ""));
    let directory = Slapd::start(&pki, &format!("{}{}", unit("people"), people.concat()));
    let place = Place::of(pki, "ldap", |pki| {
        pki::write(&pki.path("service.pw"), "service-pw");
        format!(
            "[ldap]\nurl = \"ldaps://127.0.0.1:{}\"\nca_file = \"{}\"\nbase = \"ou=people,dc=example,dc=test\"\n\
             bind_dn = \"cn=service,dc=example,dc=test\"\nbind_password_file = \"{}\"",
            directory.tls_port,
            pki.path("ca.crt").display(),
            pki.path("service.pw").display()
        )
    });
    place.users(|_| None);
    all_log_in(&place, &[How::Default, How::Verified], |program| Some(password(program.user())));
    none_logs_in(&place, How::Default, "wrong");
    place.stop();
}

/// Each `sslmode` of psql, and SCRAM bound to the connection, with certificates by ECDSA and by RSA.
#[test]
fn psql_logs_in_by_scram_in_every_sslmode() {
    let rsa = Pki::new();
    rsa.serve_rsa();
    for pki in [Pki::new(), rsa] {
        let place = Place::of(pki, "scram-sha-256", |_| String::new());
        place.users(|_| Some(RIGHT.to_owned()));
        for sslmode in ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] {
            for binding in ["prefer", "disable", "require"] {
                let mut psql = Command::new(example("psql.sh"));
                clean(psql.arg(sslmode));
                psql.env("PGHOST", "localhost").env("PGPORT", place.port().to_string()).env("PGUSER", "psql");
                psql.env("PGDATABASE", "default").env("PGPASSWORD", RIGHT);
                psql.env("PGSSLMODE", sslmode).env("PGCHANNELBINDING", binding);
                if sslmode.starts_with("verify") {
                    psql.env("PGSSLROOTCERT", place.pki.path("ca.crt"));
                }
                let said = said(&mut psql);
                // `allow` begins in clear, where there is nothing to bind to, and psql then stays there.
                if binding == "require" && ["disable", "allow"].contains(&sslmode) {
                    let why = said.unwrap_err();
                    assert!(why.contains("channel binding required"), "sslmode={sslmode}: {why}");
                } else {
                    assert_eq!(said, Ok(format!("ok {sslmode}")), "sslmode={sslmode} channel_binding={binding}");
                }
            }
        }
        place.stop();
    }
}
