//! Tokens, and the key sets that they are verified with. Input: a byte that says which, and
//! * a token as it is, which nobody has signed: it lets nobody in;
//! * a header, a line end, and claims, to be signed by one of two issuers; `%N` stands for now, `%F` for ten minutes
//!   later and `%P` for ten minutes ago. It lets in if the rules J1 to J10 say so, which are judged here again;
//! * a key set.
#![no_main]

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dataglot_server::fuzzing::Tokens;
use dataglot_server::{Algorithm, IssuerConfig, KeyPlace};
use libfuzzer_sys::fuzz_target;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::Value;

/// How far clocks may be off.
const LEEWAY: u64 = 30;

struct Made {
    keys: [Ed25519KeyPair; 2],
    tokens: Tokens,
    /// Where a key set is put to be read.
    file: PathBuf,
}

fn config(issuer: &str, file: PathBuf) -> IssuerConfig {
    let one = |from: &str, to: &str| BTreeMap::from([(from.to_owned(), vec![to.to_owned()])]);
    IssuerConfig {
        issuer: issuer.to_owned(),
        audience: vec!["us".to_owned()],
        keys: KeyPlace::File(file),
        algorithms: vec![Algorithm::EdDsa],
        types: vec![String::new(), "jwt".to_owned()],
        leeway: Duration::from_secs(LEEWAY),
        lifetime_max: Duration::from_secs(24 * 60 * 60),
        user_claim: Vec::new(),
        users: BTreeMap::new(),
        roles_claim: vec!["groups".to_owned()],
        roles: one("g", "r"),
        databases: Vec::new(),
    }
}

impl Made {
    fn new() -> Made {
        let directory = std::env::temp_dir().join(format!("dataglot-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let keys = [1, 2].map(|seed| Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap());
        let configs = keys.iter().enumerate().map(|(number, key)| {
            let x = URL_SAFE_NO_PAD.encode(key.public_key());
            let file = directory.join(format!("{number}.json"));
            let set = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"k","x":"{x}"}}]}}"#);
            std::fs::write(&file, set).unwrap();
            config(&format!("issuer{number}"), file)
        });
        let tokens = Tokens::load(configs.collect()).unwrap();
        Made { keys, tokens, file: directory.join("set.json") }
    }
}

thread_local! {
    static MADE: OnceCell<Made> = const { OnceCell::new() };
}

fuzz_target!(|input: &[u8]| {
    let Some((how, rest)) = input.split_first() else { return };
    MADE.with(|made| {
        let made = made.get_or_init(Made::new);
        match how % 4 {
            0 => {
                let Ok(token) = std::str::from_utf8(rest) else { return };
                assert_eq!(made.tokens.roles(token, "ana", "default"), None);
            }
            1 | 2 => signed(made, usize::from(how % 4 - 1), rest),
            _ => {
                std::fs::write(&made.file, rest).unwrap();
                let read = Tokens::load(vec![config("issuer", made.file.clone())]).is_some();
                assert!(!read || serde_json::from_slice::<Value>(rest).is_ok_and(|set| set["keys"].is_array()));
            }
        }
    });
});

fn signed(made: &Made, by: usize, text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let text = text.replace("%N", &now.to_string()).replace("%F", &(now + 600).to_string());
    let text = text.replace("%P", &(now - 600).to_string());
    let (header, claims) = text.split_once('\n').unwrap_or((&text, ""));
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let head = format!("{}.{}", encode(header), encode(claims));
    let token = format!("{head}.{}", URL_SAFE_NO_PAD.encode(made.keys[by].sign(head.as_bytes())));
    let Some(roles) = made.tokens.roles(&token, "ana", "default") else { return };

    assert_eq!(roles, ["r"]);
    let [header, claims]: [Value; 2] = [header, claims].map(|part| serde_json::from_str(part).unwrap());
    assert_eq!(header["alg"], "EdDSA");
    assert!(["jku", "jwk", "x5u", "x5c", "crit", "zip"].iter().all(|name| header.get(name).is_none()));
    assert_eq!(claims["iss"], format!("issuer{by}"));
    assert_eq!(claims["sub"], "ana");
    let has = |name: &str, word: &str| match &claims[name] {
        Value::String(one) => one == word,
        Value::Array(several) => several.iter().any(|one| one == word),
        _ => false,
    };
    assert!(has("aud", "us") && has("groups", "g"));
    // A second may have gone by.
    let (soonest, latest) = ((now - LEEWAY) as f64, (now + LEEWAY + 2) as f64);
    assert!(claims["exp"].as_f64().unwrap() > soonest);
    assert!(claims["exp"].as_f64().unwrap() <= latest + 86_400.0);
    for name in ["nbf", "iat"] {
        assert!(claims.get(name).is_none_or(|at| at.as_f64().unwrap() <= latest));
    }
}
