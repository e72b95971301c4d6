//! The rules J1 to J10, each with tokens that break it and nothing else (A-09).

use std::collections::BTreeMap;
use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::EncodingKey;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256, SigningKey as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const RSA_KEY: &str = include_str!("../../../tests/support/rsa.key");
const NOW: u64 = 1_800_000_000;
const HOUR: u64 = 3_600;

fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key of an issuer, both halves of it.
struct Signer {
    kid: &'static str,
    algorithm: Algorithm,
    pair: KeyPair,
}

impl Signer {
    fn new(kid: &'static str, algorithm: Algorithm) -> Signer {
        let pair = if algorithm == Algorithm::Rs256 {
            KeyPair::from_pem_and_sign_algo(RSA_KEY, &PKCS_RSA_SHA256)
        } else if algorithm == Algorithm::Es384 {
            KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384)
        } else if algorithm == Algorithm::EdDsa {
            KeyPair::generate_for(&PKCS_ED25519)
        } else {
            KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
        };
        let pair = pair.unwrap();
        Signer { kid, algorithm, pair }
    }

    fn jwk(&self) -> Value {
        let raw = self.pair.public_key_raw();
        if self.algorithm == Algorithm::Rs256 {
            let (n, e) = rsa_numbers(raw);
            return json!({"kty": "RSA", "kid": self.kid, "use": "sig", "n": base64(n), "e": base64(e)});
        }
        if self.algorithm == Algorithm::EdDsa {
            return json!({"kty": "OKP", "crv": "Ed25519", "kid": self.kid, "x": base64(raw)});
        }
        let (x, y) = raw[1..].split_at((raw.len() - 1) / 2);
        let curve = if self.algorithm == Algorithm::Es384 { "P-384" } else { "P-256" };
        json!({"kty": "EC", "crv": curve, "kid": self.kid, "x": base64(x), "y": base64(y)})
    }

    fn sign(&self, message: &[u8]) -> String {
        let der = self.pair.serialize_der();
        if self.algorithm == Algorithm::Rs256 {
            return base64(&self.pair.sign(message).unwrap());
        }
        let is_ed = self.algorithm == Algorithm::EdDsa;
        let key = if is_ed { EncodingKey::from_ed_der(&der) } else { EncodingKey::from_ec_der(&der) };
        jsonwebtoken::crypto::sign(message, &key, self.algorithm.theirs()).unwrap()
    }

    /// A token of exactly that header and those claims, as text.
    fn raw(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", base64(header.as_bytes()), base64(claims.as_bytes()));
        format!("{signed}.{}", self.sign(signed.as_bytes()))
    }

    /// The right token, after `change` has been at it.
    fn token(&self, change: impl FnOnce(&mut Value, &mut Value)) -> String {
        let mut header = json!({"alg": self.algorithm.as_str(), "kid": self.kid, "typ": "JWT"});
        let mut claims = json!({
            "iss": "https://id.test", "aud": "dataglot", "sub": "s-1", "iat": NOW, "nbf": NOW, "exp": NOW + HOUR,
            "login": "ann", "realm": {"groups": ["g-analysts", "admin", "etl"]},
        });
        change(&mut header, &mut claims);
        self.raw(&header.to_string(), &claims.to_string())
    }

    fn claim(&self, name: &str, value: Value) -> String {
        self.token(|_, claims| claims[name] = value)
    }

    fn header(&self, name: &str, value: Value) -> String {
        self.token(|header, _| header[name] = value)
    }
}

/// Modulus and exponent of an RSAPublicKey.
fn rsa_numbers(der: &[u8]) -> (&[u8], &[u8]) {
    let header = |der: &[u8]| match der[1] {
        0x82 => (4, usize::from(der[2]) << 8 | usize::from(der[3])),
        0x81 => (3, usize::from(der[2])),
        short => (2, usize::from(short)),
    };
    let inner = &der[header(der).0..];
    let (at, bytes) = header(inner);
    let rest = &inner[at + bytes..];
    let (rest_at, rest_bytes) = header(rest);
    (&inner[at..at + bytes], &rest[rest_at..rest_at + rest_bytes])
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn config(keys: KeyPlace) -> IssuerConfig {
    IssuerConfig {
        issuer: "https://id.test".to_owned(),
        audience: strings(&["dataglot", "dataglot-2"]),
        keys,
        algorithms: vec![Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa],
        types: strings(&["jwt", "at+jwt"]),
        leeway: Duration::from_secs(60),
        lifetime_max: Duration::from_secs(24 * HOUR),
        user_claim: Vec::new(),
        users: BTreeMap::from([("s-1".to_owned(), strings(&["ann", "etl"]))]),
        roles_claim: Vec::new(),
        roles: BTreeMap::new(),
        databases: Vec::new(),
    }
}

/// An issuer whose keys are in a file.
struct Rig {
    _directory: tempfile::TempDir,
    path: PathBuf,
    issuers: Issuers,
    es: Signer,
}

impl Rig {
    fn new() -> Rig {
        Rig::with(&[], |_| {})
    }

    fn with(others: &[&Signer], change: impl FnOnce(&mut IssuerConfig)) -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.json");
        let es = Signer::new("es", Algorithm::Es256);
        let jwks: Vec<Value> = others.iter().map(|other| other.jwk()).chain([es.jwk()]).collect();
        fs::write(&path, json!({"keys": jwks}).to_string()).unwrap();
        let mut config = config(KeyPlace::File(path.clone()));
        change(&mut config);
        Rig { _directory: directory, path, issuers: Issuers::load(vec![config]).unwrap(), es }
    }

    fn verify(&self, token: &str, user: &str, now: u64) -> Result<TokenUser, Denied> {
        self.verify_in(Instant::now(), token, user, now)
    }

    fn verify_in(&self, instant: Instant, token: &str, user: &str, now: u64) -> Result<TokenUser, Denied> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let token = Sensitive::new(token.to_owned());
        #[allow(clippy::cast_precision_loss, reason = "a small number")]
        runtime.block_on(self.issuers.verify_at(&token, user, "db", now as f64, instant))
    }

    #[track_caller]
    fn denied(&self, token: &str, reason: &str) {
        let found = self.verify(token, "ann", NOW).unwrap_err();
        assert_eq!(found.reason, reason);
    }

    #[track_caller]
    fn let_in(&self, token: &str) -> TokenUser {
        self.verify(token, "ann", NOW).unwrap()
    }
}

#[test]
fn j1_the_algorithm_is_the_issuers_and_the_keys() {
    let (rs, ed) = (Signer::new("rs", Algorithm::Rs256), Signer::new("ed", Algorithm::EdDsa));
    let es384 = Signer::new("es384", Algorithm::Es384);
    let rig = Rig::with(&[&rs, &ed, &es384], |_| {});
    for signer in [&rs, &ed, &rig.es] {
        rig.let_in(&signer.token(|_, _| {}));
    }
    rig.denied(&es384.token(|_, _| {}), "the token's algorithm is not one of its issuer's");
    let none = |header: Value| {
        let token = rs.token(|h, _| *h = header);
        let (signed, _) = token.rsplit_once('.').unwrap();
        signed.to_owned()
    };
    let unsigned = "the token's algorithm is not one of signatures";
    for name in ["none", "None", "NONE", "", "HS256", "HS512", "rs256", "ES512"] {
        rig.denied(&format!("{}.", none(json!({"alg": name, "typ": "JWT"}))), unsigned);
    }
    rig.denied(&rig.es.header("alg", json!(["ES256"])), unsigned);
    rig.denied(&rig.es.token(|header, _| drop(header.as_object_mut().unwrap().remove("alg"))), unsigned);
    // The public key as the secret of a MAC, under the name of an algorithm that is allowed.
    let signed = none(json!({"alg": "HS256", "kid": "rs", "typ": "JWT"}));
    let secret = EncodingKey::from_secret(rs.pair.public_key_pem().as_bytes()).unwrap();
    let mac = jsonwebtoken::crypto::sign(signed.as_bytes(), &secret, jsonwebtoken::Algorithm::HS256).unwrap();
    rig.denied(&format!("{signed}.{mac}"), unsigned);
    // One key's name, another kind of key.
    let wrong = "the token's algorithm is not one of its key's";
    rig.denied(&rig.es.header("kid", json!("rs")), wrong);
    rig.denied(&rs.header("kid", json!("es")), wrong);
    rig.denied(&ed.header("kid", json!("es384")), wrong);
    let mut only = rs.jwk();
    only["alg"] = json!("PS256");
    fs::write(&rig.path, json!({"keys": [only]}).to_string()).unwrap();
    let only = Issuers::load(vec![config(KeyPlace::File(rig.path.clone()))]).unwrap();
    let rig = Rig { issuers: only, ..rig };
    rig.denied(&rs.token(|_, _| {}), wrong);
}

#[test]
fn j1_the_signature_is_over_what_is_read() {
    let rig = Rig::new();
    let right = rig.es.token(|_, _| {});
    let parts: Vec<&str> = right.split('.').collect();
    let other = rig.es.claim("sub", json!("s-2"));
    let other: Vec<&str> = other.split('.').collect();
    let wrong = "the token's signature is not its key's";
    rig.denied(&[parts[0], other[1], parts[2]].join("."), wrong);
    rig.denied(&[parts[0], parts[1], other[2]].join("."), wrong);
    rig.denied(&[parts[0], parts[1], ""].join("."), wrong);
    rig.denied(&[parts[0], parts[1], &base64(&[0; 64])].join("."), wrong);
    rig.denied(&Signer::new("es", Algorithm::Es256).token(|_, _| {}), wrong);
    let unread = "a part of the token can't be read";
    rig.denied(&[parts[0], parts[1], &format!("{}=", parts[2])].join("."), unread);
    rig.denied(&[parts[0], parts[1], &parts[2][1..]].join("."), unread);
    for text in ["", "..", "a.b.c", "e30.e30.", "{}", "\u{e9}.\u{e9}.\u{e9}"] {
        assert!(rig.verify(text, "ann", NOW).is_err(), "{text:?}");
    }
    // A name twice: who reads it may take the one or the other.
    let twice = r#"{"iss":"https://id.test","sub":"s-2","sub":"s-1"}"#;
    rig.denied(&rig.es.raw(r#"{"alg":"ES256","kid":"es","typ":"JWT"}"#, twice), unread);
    rig.denied(&rig.es.raw(r#"{"alg":"none","alg":"ES256","kid":"es","typ":"JWT"}"#, "{}"), unread);
}

#[test]
fn j2_keys_never_cross_issuers() {
    let rig = Rig::new();
    let unknown = "the token is of nobody whom we know";
    for name in ["https://id.test/", "https://ID.test", "http://id.test", " https://id.test", ""] {
        rig.denied(&rig.es.claim("iss", json!(name)), unknown);
    }
    for value in [json!(null), json!(["https://id.test"]), json!({})] {
        rig.denied(&rig.es.claim("iss", value), unknown);
    }
    let (one, two) = (Rig::new(), Rig::new());
    let issuer =
        |name: &str, rig: &Rig| IssuerConfig { issuer: name.to_owned(), ..config(KeyPlace::File(rig.path.clone())) };
    let issuers = Issuers::load(vec![issuer("one", &one), issuer("two", &two)]).unwrap();
    let both = Rig { issuers, ..Rig::new() };
    both.let_in(&one.es.claim("iss", json!("one")));
    both.let_in(&two.es.claim("iss", json!("two")));
    both.denied(&one.es.claim("iss", json!("two")), "the token's signature is not its key's");
}

#[test]
fn j3_the_audience_is_us() {
    let rig = Rig::new();
    for right in [json!("dataglot"), json!(["x", "dataglot-2"])] {
        rig.let_in(&rig.es.claim("aud", right));
    }
    for none in [json!(null), json!(7), json!({"dataglot": true}), json!(["dataglot", 7])] {
        rig.denied(&rig.es.claim("aud", none), "the token has no audience");
    }
    for other in [json!("Dataglot"), json!("dataglot "), json!(""), json!([]), json!(["x"]), json!("*")] {
        rig.denied(&rig.es.claim("aud", other), "the token is for another audience");
    }
}

#[test]
fn j4_times_are_numbers_and_it_expires() {
    let rig = Rig::new();
    let without = rig.es.token(|_, claims| drop(claims.as_object_mut().unwrap().remove("exp")));
    rig.denied(&without, "the token has no time at which it expires");
    for name in ["exp", "nbf", "iat"] {
        for wrong in [json!("1800000000"), json!(null), json!(true), json!([NOW]), json!(-1), json!(1e300)] {
            rig.denied(&rig.es.claim(name, wrong), "a time in the token is no number");
        }
    }
    rig.let_in(&rig.es.claim("exp", json!(NOW as f64 + 0.5)));
    rig.let_in(&rig.es.token(|_, c| c.as_object_mut().unwrap().retain(|name, _| name != "nbf" && name != "iat")));
}

#[test]
fn j5_leeway_and_lifetime_are_short() {
    let rig = Rig::new();
    let at = |now: u64, change: fn(&mut Value, &mut Value)| {
        rig.verify(&rig.es.token(change), "ann", now).map_err(|denied| denied.reason).err()
    };
    assert_eq!(at(NOW + HOUR + 59, |_, _| {}), None);
    assert_eq!(at(NOW + HOUR + 60, |_, _| {}), Some("the token has expired"));
    assert_eq!(at(NOW - 60, |_, _| {}), None);
    assert_eq!(at(NOW - 61, |_, _| {}), Some("the token is not valid yet"));
    assert_eq!(at(NOW, |_, c| c["nbf"] = json!(NOW + 61)), Some("the token is not valid yet"));
    assert_eq!(at(NOW, |_, c| c["iat"] = json!(NOW + 61)), Some("the token is not valid yet"));
    assert_eq!(at(NOW, |_, c| c["exp"] = json!(NOW + 24 * HOUR)), None);
    assert_eq!(at(NOW, |_, c| c["exp"] = json!(NOW + 24 * HOUR + 1)), Some("the token lives too long"));
    let bare = |_: &mut Value, c: &mut Value| {
        c.as_object_mut().unwrap().retain(|name, _| name != "nbf" && name != "iat");
        c["exp"] = json!(NOW + 25 * HOUR);
    };
    assert_eq!(at(NOW, bare), Some("the token lives too long"));
}

#[test]
fn j6_an_unknown_key_is_asked_for_once_a_minute() {
    let rig = Rig::new();
    let next = Signer::new("next", Algorithm::Es256);
    let token = next.token(|_, _| {});
    let unknown = "the issuer has no key of the token's \"kid\"";
    let start = Instant::now();
    let at = |seconds: u64| {
        rig.verify_in(start + Duration::from_secs(seconds), &token, "ann", NOW).map_err(|denied| denied.reason).err()
    };
    assert_eq!(at(0), Some(unknown));
    fs::write(&rig.path, json!({"keys": [rig.es.jwk(), next.jwk()]}).to_string()).unwrap();
    assert_eq!(at(59), Some(unknown));
    assert_eq!(at(60), None);
    // Without a name it is the only key there is, or none.
    let nameless = |signer: &Signer| signer.token(|header, _| drop(header.as_object_mut().unwrap().remove("kid")));
    rig.denied(&nameless(&rig.es), unknown);
    let single = Rig::new();
    single.let_in(&nameless(&single.es));
    single.denied(&single.es.header("kid", json!(7)), "a member of the token's header is no text");
}

/// Whoever has keys asked for and hangs up keeps nobody else from having them.
#[tokio::test]
async fn j6_keys_come_also_when_who_wanted_them_is_gone() {
    let issuer = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let signer = Signer::new("es", Algorithm::Es256);
    let url = format!("http://{}/keys", issuer.local_addr().unwrap());
    let issuers = Issuers::load(vec![config(KeyPlace::Url { url, ca_file: None, networks: Vec::new() })]).unwrap();
    let (token, instant) = (Sensitive::new(signer.token(|_, _| {})), Instant::now());
    let verify = || issuers.verify_at(&token, "ann", "prod", (NOW + 1) as f64, instant);
    let mut asked = tokio::select! {
        verified = verify() => panic!("{verified:?}"),
        accepted = issuer.accept() => accepted.unwrap().0,
    };
    // That login is over, and here is the answer.
    let keys = json!({"keys": [signer.jwk()]}).to_string();
    let mut request = [0; 1024];
    assert_ne!(asked.read(&mut request).await.unwrap(), 0);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{keys}", keys.len());
    asked.write_all(answer.as_bytes()).await.unwrap();
    assert!(verify().await.is_ok());
}

#[test]
fn j6_a_set_with_a_fault_is_none() {
    let (es, rs) = (Signer::new("k", Algorithm::Es256), Signer::new("k", Algorithm::Rs256));
    let read = |set: Value| keys::Keys::read(set.to_string().as_bytes()).err();
    assert_eq!(read(json!({"keys": [es.jwk()]})), None);
    let twice = Some("two keys of the key set have the same \"kid\"");
    assert_eq!(read(json!({"keys": [es.jwk(), rs.jwk()]})), twice);
    assert_eq!(read(json!({"keys": [es.jwk(), {"kty": "RSA", "use": "enc", "kid": "k"}]})), twice);
    let secret = Some("the key set holds a key that can sign, which is nobody's but the issuer's");
    assert_eq!(read(json!({"keys": [es.jwk(), {"kty": "oct", "k": "AAAA"}]})), secret);
    let mut private = es.jwk();
    private["d"] = json!("AAAA");
    assert_eq!(read(json!({"keys": [private]})), secret);
    let mut small = rs.jwk();
    small["n"] = json!(base64(&[0xff; 128]));
    assert!(read(json!({"keys": [small]})).unwrap().contains("fewer than 2048 bits"));
    let mut cut = es.jwk();
    cut["x"] = json!(base64(&[1; 31]));
    assert_eq!(read(json!({"keys": [cut]})), Some("a key of the key set can't be read"));
    for empty in [json!({"keys": []}), json!({"keys": [{"kty": "OKP", "crv": "X25519", "kid": "x"}]})] {
        assert_eq!(read(empty), Some("the key set has no key for signatures"));
    }
    assert!(read(json!({"keys": vec![json!({"kty": "x"}); 101]})).is_some());
    assert!(read(json!([])).is_some() && read(json!({})).is_some() && read(json!({"keys": [1]})).is_some());
}

#[test]
fn j7_a_token_brings_no_key() {
    let rig = Rig::new();
    let own = Signer::new("own", Algorithm::Es256);
    for name in ["jku", "jwk", "x5u", "x5c", "crit", "zip", "enc", "b64"] {
        for value in [own.jwk(), json!("https://id.test/keys"), json!(null), json!([])] {
            rig.denied(&rig.es.header(name, value), "the token's header has a member that is not allowed");
        }
    }
}

#[test]
fn j8_keys_that_are_too_old_are_none() {
    let rig = Rig::new();
    let (token, start) = (rig.es.token(|_, _| {}), Instant::now());
    fs::remove_file(&rig.path).unwrap();
    let at = |hours: u64| rig.verify_in(start + Duration::from_secs(hours * HOUR), &token, "ann", NOW);
    assert!(at(1).is_ok() && at(23).is_ok());
    let old = "the issuer's keys are not known, or were last known too long ago";
    assert_eq!(at(24).unwrap_err().reason, old);
    assert!(Issuers::load(vec![config(KeyPlace::File(rig.path.clone()))]).is_err(), "seen at the start");
}

#[test]
fn j9_tokens_are_short_signed_and_of_their_type() {
    let rig = Rig::new();
    let long = |bytes: usize| rig.es.claim("pad", json!("x".repeat(bytes)));
    let fits = (11_700..12_100).rev().map(long).find(|token| token.len() <= TOKEN_BYTES_MAX);
    let fits = fits.unwrap();
    rig.let_in(&fits);
    rig.denied(&rig.es.claim("pad", json!("x".repeat(16 << 10))), "the token is too long");
    rig.denied(&format!("{fits}{}", "A".repeat(TOKEN_BYTES_MAX + 1 - fits.len())), "the token is too long");
    let right = rig.es.token(|_, _| {});
    rig.denied(&format!("{right}.e30.e30"), "this is no signed token");
    for typ in ["jwt", "at+JWT", "application/at+jwt"] {
        rig.let_in(&rig.es.header("typ", json!(typ)));
    }
    for typ in ["", "logout+jwt", "secevent+jwt", "JOSE", "jwt "] {
        rig.denied(&rig.es.header("typ", json!(typ)), "the token is of another type");
    }
    let untyped = |signer: &Signer| signer.token(|header, _| drop(header.as_object_mut().unwrap().remove("typ")));
    rig.denied(&untyped(&rig.es), "the token is of another type");
    let lax = Rig::with(&[], |config| config.types = strings(&["jwt", ""]));
    lax.let_in(&untyped(&lax.es));
}

#[test]
fn j10_a_subject_stands_for_users_that_are_named() {
    let rig = Rig::new();
    let other = "the token is another user's";
    let right = rig.es.token(|_, _| {});
    assert!(rig.verify(&right, "etl", NOW).is_ok());
    for user in ["bob", "Ann", "s-1", "", "ann "] {
        assert_eq!(rig.verify(&right, user, NOW).unwrap_err().reason, other, "{user:?}");
    }
    rig.denied(&rig.es.claim("sub", json!("ann")), other);
    for none in [json!(null), json!(1), json!(""), json!(["s-1"]), json!("x".repeat(256))] {
        rig.denied(&rig.es.claim("sub", none), "the token does not say whose it is");
    }
    let named = Rig::with(&[], |config| (config.user_claim, config.users) = (strings(&["login"]), BTreeMap::new()));
    named.let_in(&named.es.token(|_, _| {}));
    named.denied(&named.es.claim("login", json!("ANN")), other);
    named.denied(&named.es.claim("login", json!(["ann"])), "the token does not say whose it is");
    named.denied(&named.es.claim("sub", json!(null)), "the token does not say whose it is");
    let bound = Rig::with(&[], |config| config.databases = strings(&["sales"]));
    bound.denied(&bound.es.token(|_, _| {}), "the token's issuer lets nobody into this database");
}

#[test]
fn j10_a_group_is_no_role() {
    let rig = Rig::with(&[], |config| {
        config.roles_claim = strings(&["realm", "groups"]);
        config.roles = BTreeMap::from([("g-analysts".to_owned(), strings(&["analyst", "reader"]))]);
    });
    assert_eq!(rig.let_in(&rig.es.token(|_, _| {})).role_names, ["analyst", "reader"]);
    assert_eq!(rig.let_in(&rig.es.claim("realm", json!({"groups": "g-analysts"}))).role_names, ["analyst", "reader"]);
    for groups in [json!([]), json!(["analyst"]), json!("admin"), json!(["G-analysts"])] {
        rig.denied(&rig.es.claim("realm", json!({"groups": groups})), "the token has no group that stands for a role");
    }
    rig.denied(&rig.es.claim("realm", json!({"groups": [1]})), "the token's groups are not texts");
    rig.denied(&rig.es.claim("realm", json!({"groups": {"g-analysts": 1}})), "the token's groups are not texts");
    rig.denied(&rig.es.claim("realm", json!("g-analysts")), "the token has no group that stands for a role");
}
