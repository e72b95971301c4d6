//! The public keys of an issuer, as JSON Web Keys.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use serde_json::{Map, Value};

use super::json;

/// Most keys of an issuer.
const KEYS_MAX: usize = 100;
/// Bits of an RSA key: fewer can be broken, more take too long to check.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;

/// How a token may be signed. There is no other way: neither `none`, nor one in which the key that verifies can sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// RSA with PKCS #1 v1.5 and SHA-256.
    Rs256,
    /// The same with SHA-384.
    Rs384,
    /// The same with SHA-512.
    Rs512,
    /// RSA with PSS and SHA-256.
    Ps256,
    /// The same with SHA-384.
    Ps384,
    /// The same with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 9] = [
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::EdDsa,
    ];

    /// As in a token.
    pub const fn as_str(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::EdDsa => "EdDSA",
        }
    }

    /// The algorithm of that name, in that case.
    pub fn named(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }

    const fn kind(self) -> KeyKind {
        match self {
            Algorithm::Rs256
            | Algorithm::Rs384
            | Algorithm::Rs512
            | Algorithm::Ps256
            | Algorithm::Ps384
            | Algorithm::Ps512 => KeyKind::Rsa,
            Algorithm::Es256 => KeyKind::P256,
            Algorithm::Es384 => KeyKind::P384,
            Algorithm::EdDsa => KeyKind::Ed25519,
        }
    }

    pub(super) const fn theirs(self) -> jsonwebtoken::Algorithm {
        match self {
            Algorithm::Rs256 => jsonwebtoken::Algorithm::RS256,
            Algorithm::Rs384 => jsonwebtoken::Algorithm::RS384,
            Algorithm::Rs512 => jsonwebtoken::Algorithm::RS512,
            Algorithm::Ps256 => jsonwebtoken::Algorithm::PS256,
            Algorithm::Ps384 => jsonwebtoken::Algorithm::PS384,
            Algorithm::Ps512 => jsonwebtoken::Algorithm::PS512,
            Algorithm::Es256 => jsonwebtoken::Algorithm::ES256,
            Algorithm::Es384 => jsonwebtoken::Algorithm::ES384,
            Algorithm::EdDsa => jsonwebtoken::Algorithm::EdDSA,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyKind {
    Rsa,
    P256,
    P384,
    Ed25519,
}

/// A key that verifies signatures.
#[derive(Clone)]
pub(super) struct Key {
    kind: KeyKind,
    /// The one algorithm that it is for, if it says so.
    only: Option<Algorithm>,
    key: DecodingKey,
}

impl Key {
    /// Whether the key has made `signature` of `signed` by `algorithm`. `None`: the key is not for that algorithm.
    pub(super) fn has_signed(&self, algorithm: Algorithm, signed: &[u8], signature: &str) -> Option<bool> {
        if self.kind != algorithm.kind() || self.only.is_some_and(|only| only != algorithm) {
            return None;
        }
        Some(jsonwebtoken::crypto::verify(signature, signed, &self.key, algorithm.theirs()).unwrap_or(false))
    }
}

/// The keys of one issuer.
#[derive(Clone, Default)]
pub(super) struct Keys {
    named: BTreeMap<String, Key>,
    nameless: Vec<Key>,
}

impl Keys {
    /// Reads a JSON Web Key Set. What is no key for signatures, or of a kind that we don't know, is passed over.
    ///
    /// # Errors
    /// What is wrong with it. A part of a wrong set is no set: two keys of one name, for instance, are two answers
    /// to one question.
    pub(super) fn read(text: &[u8]) -> Result<Keys, &'static str> {
        let set = json::object(text).ok_or("the key set is not a JSON object whose names stand once")?;
        let set = set.get("keys").and_then(Value::as_array).ok_or("the key set has no \"keys\"")?;
        if set.len() > KEYS_MAX {
            return Err("the key set has too many keys");
        }
        let (mut keys, mut names) = (Keys::default(), BTreeSet::new());
        for jwk in set {
            let jwk = jwk.as_object().ok_or("a key of the key set is no object")?;
            let kid = match jwk.get("kid") {
                None => None,
                Some(kid) => Some(kid.as_str().ok_or("a key's \"kid\" is no text")?),
            };
            if kid.is_some_and(|kid| !names.insert(kid)) {
                return Err("two keys of the key set have the same \"kid\"");
            }
            match (read_key(jwk)?, kid) {
                (Some(key), Some(kid)) => drop(keys.named.insert(kid.to_owned(), key)),
                (Some(key), None) => keys.nameless.push(key),
                (None, _) => {}
            }
        }
        if keys.len() == 0 {
            return Err("the key set has no key for signatures");
        }
        Ok(keys)
    }

    fn len(&self) -> usize {
        self.named.len() + self.nameless.len()
    }

    /// The key of that name; without one, the only key there is.
    pub(super) fn find(&self, kid: Option<&str>) -> Option<&Key> {
        match kid {
            Some(kid) => self.named.get(kid),
            None if self.len() == 1 => self.named.values().chain(&self.nameless).next(),
            None => None,
        }
    }
}

/// `None`: it is none that we could use.
fn read_key(jwk: &Map<String, Value>) -> Result<Option<Key>, &'static str> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    if jwk.contains_key("d") || jwk.contains_key("k") {
        return Err("the key set holds a key that can sign, which is nobody's but the issuer's");
    }
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return Ok(None);
    }
    if let Some(purposes) = jwk.get("key_ops").and_then(Value::as_array)
        && !purposes.iter().any(|purpose| purpose.as_str() == Some("verify"))
    {
        return Ok(None);
    }
    let only = match jwk.get("alg") {
        None => None,
        Some(name) => match name.as_str().and_then(Algorithm::named) {
            Some(algorithm) => Some(algorithm),
            None => return Ok(None),
        },
    };
    let number = |name: &str| text(name).and_then(|number| URL_SAFE_NO_PAD.decode(number).ok());
    let sized = |name: &str, bytes: usize| number(name).filter(|number| number.len() == bytes);
    const DAMAGED: &str = "a key of the key set can't be read";
    let point = |bytes: usize| match (sized("x", bytes), sized("y", bytes)) {
        (Some(x), Some(y)) => Ok(DecodingKey::from_ec_der(&[&[4], x.as_slice(), y.as_slice()].concat())),
        _ => Err(DAMAGED),
    };
    let (kind, key) = match (text("kty"), text("crv")) {
        (Some("RSA"), _) => {
            let (n, e) = number("n").zip(number("e")).ok_or(DAMAGED)?;
            let first = n.iter().position(|byte| *byte != 0).unwrap_or(n.len());
            let bits = n.get(first).map_or(0, |byte| (n.len() - first) * 8 - byte.leading_zeros() as usize);
            if !RSA_BITS.contains(&bits) {
                return Err("an RSA key of the key set has fewer than 2048 bits, or more than 8192");
            }
            if e.len() > 4 {
                return Err(DAMAGED);
            }
            (KeyKind::Rsa, DecodingKey::from_rsa_raw_components(&n, &e))
        }
        (Some("EC"), Some("P-256")) => (KeyKind::P256, point(32)?),
        (Some("EC"), Some("P-384")) => (KeyKind::P384, point(48)?),
        (Some("OKP"), Some("Ed25519")) => (KeyKind::Ed25519, DecodingKey::from_ed_der(&sized("x", 32).ok_or(DAMAGED)?)),
        _ => return Ok(None),
    };
    Ok(Some(Key { kind, only, key }))
}
