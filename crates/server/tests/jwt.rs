//! Logins by token, over the wire: keys come from an issuer that speaks HTTPS, and are asked for as the threat list
//! has it (A-09, J6 and J8). What a token may say is tested beside the code.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dataglot_server::{
    Algorithm, Authentication, Hba, IssuerConfig, KeyPlace, Method, Names, Network, Rule, ServerConfig, TlsMode,
};
use dataglot_session::{Clock as _, SystemClock};
use rcgen::{KeyPair, PKCS_ED25519};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConnection, Stream};
use serde_json::{Value, json};
use support::login::{denied, log_in, login_on};
use support::pki::Pki;
use support::{Client, Served, encrypted};

const NO: &str = "28P01 password authentication failed for user \"ann\"";

/// What an issuer answers.
#[derive(Clone)]
enum Answer {
    /// These keys.
    Keys(String),
    /// Exactly that.
    Raw(String),
    /// Nothing.
    Silence,
}

/// An issuer that speaks HTTPS, or HTTP, on loopback.
struct Issuer {
    address: SocketAddr,
    answer: Arc<Mutex<Answer>>,
    /// The requests so far.
    asked: Arc<Mutex<Vec<String>>>,
    key: KeyPair,
}

impl Issuer {
    fn start(tls: Option<&Pki>) -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let answer = Arc::new(Mutex::new(Answer::Keys(json!({"keys": [jwk("one", &key)]}).to_string())));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let config = tls.map(|pki| {
            let chain = vec![CertificateDer::from_pem_file(pki.path("server.crt")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(pki.path("server.key")).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = rustls::ServerConfig::builder_with_provider(provider);
            let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
            Arc::new(builder.with_single_cert(chain, key).unwrap())
        });
        let (answers, requests) = (Arc::clone(&answer), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (config, answers, requests) = (config.clone(), Arc::clone(&answers), Arc::clone(&requests));
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let serve = |request: &[u8]| {
                        requests.lock().unwrap().push(String::from_utf8_lossy(request).into_owned());
                        match answers.lock().unwrap().clone() {
                            Answer::Raw(text) => Some(text),
                            Answer::Keys(keys) => {
                                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
                                Some(format!("{head}: {}\r\n\r\n{keys}", keys.len()))
                            }
                            Answer::Silence => None,
                        }
                    };
                    let mut request = [0; 4096];
                    match config {
                        None => {
                            let bytes = stream.read(&mut request).unwrap_or(0);
                            match serve(&request[..bytes]) {
                                Some(text) => drop(stream.write_all(text.as_bytes())),
                                None => drop(stream.read(&mut request)),
                            }
                        }
                        Some(config) => {
                            let mut connection = ServerConnection::new(config).unwrap();
                            let mut tls = Stream::new(&mut connection, &mut stream);
                            let Ok(bytes) = tls.read(&mut request) else { return };
                            match serve(&request[..bytes]) {
                                Some(text) => drop(tls.write_all(text.as_bytes())),
                                None => drop(tls.read(&mut request)),
                            }
                        }
                    }
                });
            }
        });
        Issuer { address, answer, asked, key }
    }

    fn says(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn jwk(kid: &str, key: &KeyPair) -> Value {
    json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "use": "sig", "x": base64(key.public_key_raw())})
}

/// A token that is right, but for what `change` does.
fn token(kid: &str, key: &KeyPair, change: impl FnOnce(&mut Value)) -> String {
    let now = SystemClock.now().0 / 1_000_000;
    let header = json!({"alg": "EdDSA", "typ": "JWT", "kid": kid});
    let mut claims = json!({
        "iss": "https://id.test", "aud": ["dataglot"], "sub": "s-1", "iat": now, "exp": now + 300,
        "groups": ["g-analysts"],
    });
    change(&mut claims);
    let signed = format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()));
    let der = jsonwebtoken::EncodingKey::from_ed_der(&key.serialize_der());
    let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), &der, jsonwebtoken::Algorithm::EdDSA).unwrap();
    format!("{signed}.{signature}")
}

fn config(keys: KeyPlace) -> IssuerConfig {
    IssuerConfig {
        issuer: "https://id.test".to_owned(),
        audience: vec!["dataglot".to_owned()],
        keys,
        algorithms: vec![Algorithm::EdDsa],
        types: vec!["jwt".to_owned()],
        leeway: Duration::from_secs(30),
        lifetime_max: Duration::from_secs(3_600),
        user_claim: Vec::new(),
        users: BTreeMap::from([("s-1".to_owned(), vec!["ann".to_owned()])]),
        roles_claim: Vec::new(),
        roles: BTreeMap::new(),
        databases: Vec::new(),
    }
}

fn at(url: String, pki: Option<&Pki>, networks: &[&str]) -> KeyPlace {
    let networks = networks.iter().map(|network| Network::parse(network).unwrap()).collect();
    KeyPlace::Url { url, ca_file: pki.map(|pki| pki.path("ca.crt")), networks }
}

/// A server on which `admin` is trusted and has said this; the others need a token of that issuer.
fn served(issuer: IssuerConfig, sql: &str) -> Served {
    served_with(ServerConfig { issuers: vec![issuer], ..ServerConfig::default() }, sql)
}

fn served_with(config: ServerConfig, sql: &str) -> Served {
    let admin = Rule { users: Names::Of(vec!["admin".to_owned()]), ..Rule::for_all(Method::Trust) };
    let hba = Hba::new(vec![admin, Rule::for_all(Method::Jwt)]);
    let served = Served::with(ServerConfig { authentication: Authentication { hba, trust_remote: false }, ..config });
    let said = Client::login(served.address, "admin").query(sql);
    assert!(!said.contains("E:"), "{said}");
    served
}

#[test]
fn a_token_is_the_password() {
    let pki = Pki::new();
    let issuer = Issuer::start(Some(&pki));
    let url = format!("https://localhost:{}/keys?v=1", issuer.address.port());
    let tls = Some(pki.config(TlsMode::Allow));
    let with = ServerConfig { issuers: vec![config(at(url, Some(&pki), &[]))], tls, ..ServerConfig::default() };
    let served = served_with(with, "CREATE USER ann; CREATE USER bob; CREATE USER old VALID UNTIL '2001-01-01'");
    assert_eq!(issuer.asked(), 0, "nobody is asked before somebody comes");
    let right = token("one", &issuer.key, |_| {});
    let mut ann = log_in(served.address, "ann", &right);
    assert!(ann.query("SELECT current_user").contains("D:"));
    let mut secure = encrypted::on_request(served.address, encrypted::config(&pki, None, &[])).unwrap();
    assert!(login_on(&mut secure, "ann", "default", &right).is_in());
    assert_eq!(issuer.asked(), 1);
    let request = issuer.asked.lock().unwrap()[0].clone();
    assert!(request.starts_with("GET /keys?v=1 HTTP/1.1\r\n"), "{request}");
    assert!(!request.contains(&right));
    // Wrong ones, and what they are told: as of a wrong password.
    for wrong in ["", "x", &right[1..], &token("one", &issuer.key, |c| c["aud"] = json!("other"))] {
        assert_eq!(denied(served.address, "ann", wrong), NO, "{wrong}");
    }
    assert_eq!(denied(served.address, "bob", &right), NO.replace("ann", "bob"));
    assert_eq!(denied(served.address, "nobody", &right), NO.replace("ann", "nobody"));
    // Tokens of who may not log in: A-12.
    let said = Client::login(served.address, "admin").query("ALTER ROLE ann VALID UNTIL '2001-01-01'");
    assert!(!said.contains("E:"), "{said}");
    assert!(denied(served.address, "ann", &right).starts_with("28000 "));
    assert!(ann.query("SELECT 1").contains("28000"), "open sessions end, too");
}

#[test]
fn the_roles_of_a_token_limit_its_session() {
    let issuer = Issuer::start(None);
    let mut of = config(at(format!("http://127.0.0.1:{}/", issuer.address.port()), None, &[]));
    of.roles_claim = vec!["groups".to_owned()];
    let roles = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    of.roles = BTreeMap::from([
        ("g-analysts".to_owned(), roles(&["analyst"])),
        ("g-strangers".to_owned(), roles(&["stranger", "nothing"])),
        ("g-etl".to_owned(), roles(&["etl"])),
    ]);
    let sql = "CREATE USER ann NOINHERIT; CREATE ROLE analyst; CREATE ROLE etl; CREATE ROLE stranger; \
               CREATE ROLE ann_too; GRANT analyst TO ann; GRANT etl TO ann";
    let served = served(of, sql);
    let of = |groups: Value| token("one", &issuer.key, |claims| claims["groups"] = groups);
    let mut ann = log_in(served.address, "ann", &of(json!(["g-analysts", "etl", "g-strangers"])));
    assert!(ann.query("SET ROLE analyst").contains("C:SET"));
    assert!(ann.query("RESET ROLE").contains("C:SET"));
    assert_eq!(ann.query("SET ROLE etl"), "E:42501 Z:I");
    assert!(ann.query("SET role = 'etl'").contains("42501"));
    // Roles that were not granted are not given.
    assert!(ann.query("SET ROLE stranger").contains("E:"));
    assert!(denied(served.address, "ann", &of(json!(["g-strangers"]))).starts_with("28000 login failed"));
    for groups in [json!([]), json!(["analyst"]), json!(null)] {
        assert_eq!(denied(served.address, "ann", &of(groups)), NO);
    }
    // The session ends when the last membership that it was vouched for does.
    let admin = |sql: &str| assert!(!Client::login(served.address, "admin").query(sql).contains("E:"));
    admin("ALTER ROLE analyst RENAME TO analysts");
    assert!(ann.query("SET ROLE analysts").contains("C:SET"), "it is the role that counts, not its name");
    assert!(ann.query("RESET ROLE").contains("C:SET"));
    admin("REVOKE analysts FROM ann");
    assert!(ann.query("SELECT 1").contains("28000"));
}

#[test]
fn j6_one_refresh_a_minute_whoever_sends_what() {
    let issuer = Issuer::start(None);
    let url = format!("http://localhost:{}/", issuer.address.port());
    let served = served(config(at(url, None, &[])), "CREATE USER ann");
    let other = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    for n in 0..4 {
        assert_eq!(denied(served.address, "ann", &token(&format!("k{n}"), &other, |_| {})), NO);
    }
    assert_eq!(issuer.asked(), 1);
    log_in(served.address, "ann", &token("one", &issuer.key, |_| {}));
    assert_eq!(issuer.asked(), 1);
}

/// What an issuer does that we do not follow, and what the login comes to.
#[track_caller]
fn j8(answer: Answer, key: &KeyPair, issuer: &Issuer) {
    issuer.says(answer);
    let url = format!("http://127.0.0.1:{}/", issuer.address.port());
    let served = served(config(at(url, None, &[])), "CREATE USER ann");
    let before = issuer.asked();
    assert_eq!(denied(served.address, "ann", &token("one", key, |_| {})), NO);
    assert_eq!(issuer.asked(), before + 1);
}

#[test]
fn j8_no_redirects_nothing_long_nothing_late() {
    let (issuer, target) = (Issuer::start(None), Issuer::start(None));
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let to = format!("location: http://127.0.0.1:{}/\r\ncontent-length: 0", target.address.port());
        j8(Answer::Raw(format!("HTTP/1.1 {status}\r\n{to}\r\n\r\n")), &target.key, &issuer);
    }
    assert_eq!(target.asked(), 0);
    let keys = json!({"keys": [jwk("one", &issuer.key)]}).to_string();
    let long = format!("{keys}{}", " ".repeat((256 << 10) + 1 - keys.len()));
    j8(Answer::Keys(long), &issuer.key, &issuer);
    for status in ["404 Not Found", "500 Internal Server Error", "206 Partial Content"] {
        let text = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{keys}", keys.len());
        j8(Answer::Raw(text), &issuer.key, &issuer);
    }
    j8(Answer::Raw(format!("HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n{keys}")), &issuer.key, &issuer);
    j8(Answer::Raw("SSH-2.0-x\r\n".to_owned()), &issuer.key, &issuer);
    j8(Answer::Silence, &issuer.key, &issuer);
    // The same server, once it answers: at the limit.
    issuer.says(Answer::Keys(format!("{keys}{}", " ".repeat((256 << 10) - keys.len()))));
    let url = format!("http://127.0.0.1:{}/", issuer.address.port());
    let served = served(config(at(url, None, &[])), "CREATE USER ann");
    log_in(served.address, "ann", &token("one", &issuer.key, |_| {}));
}

#[test]
fn j8_the_host_is_the_one_that_is_configured() {
    let (pki, other) = (Pki::new(), Pki::new());
    let issuer = Issuer::start(Some(&pki));
    let port = issuer.address.port();
    let right = token("one", &issuer.key, |_| {});
    // Another CA; another name than the certificate's, which is for localhost and 127.0.0.1.
    for (url, ca, networks) in [
        (format!("https://localhost:{port}/"), &other, &[][..]),
        (format!("https://127.0.0.2:{port}/"), &pki, &["127.0.0.0/8"]),
    ] {
        let served = served(config(at(url, Some(ca), networks)), "CREATE USER ann");
        assert_eq!(denied(served.address, "ann", &right), NO);
    }
    assert_eq!(issuer.asked(), 0);
}
