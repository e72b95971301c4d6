//! A token taken apart: what it says of itself, before any of it is believed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dataglot_model::Sensitive;
use serde_json::{Map, Value};

use super::super::denied::{Denied, deny};
use super::json;
use super::keys::Algorithm;

/// Longest token, in bytes (J9).
pub(in crate::auth) const TOKEN_BYTES_MAX: usize = 16 << 10;
/// Members of a header that bring a key or ask for more than we know (J7), or say that what follows is compressed
/// or encrypted (J9).
const FORBIDDEN: [&str; 8] = ["jku", "jwk", "x5u", "x5c", "crit", "zip", "enc", "b64"];

/// A token. Nothing in it has been verified. What it claims is not kept while its key is waited for: read, that may
/// be many times as large as the token.
pub(super) struct Token<'a> {
    /// By what its signature is said to be made.
    pub(super) algorithm: Algorithm,
    /// The name of the key.
    pub(super) kid: Option<String>,
    /// What kind of token it says it is.
    pub(super) typ: Option<String>,
    /// Whose it says it is.
    pub(super) issuer: Option<String>,
    /// What is signed.
    pub(super) signed: &'a str,
    /// The signature, as it stands there.
    pub(super) signature: &'a str,
}

impl<'a> Token<'a> {
    /// Takes `text` apart.
    ///
    /// # Errors
    /// It is no token that could be right, whoever signed it.
    pub(super) fn read(text: &'a Sensitive) -> Result<Self, Denied> {
        let text = text.open();
        if text.len() > TOKEN_BYTES_MAX {
            return deny("the token is too long");
        }
        let Some((signed, signature)) = text.rsplit_once('.') else { return deny("this is no token") };
        let Some((header, claims)) = signed.split_once('.') else { return deny("this is no token") };
        if claims.contains('.') {
            return deny("this is no signed token");
        }
        let (Some(header), Some(claims), Some(_)) = (object(header), object(claims), decode(signature)) else {
            return deny("a part of the token can't be read");
        };
        if FORBIDDEN.iter().any(|name| header.contains_key(*name)) {
            return deny("the token's header has a member that is not allowed");
        }
        let Some(algorithm) = header.get("alg").and_then(Value::as_str).and_then(Algorithm::named) else {
            return deny("the token's algorithm is not one of signatures");
        };
        let (Ok(kid), Ok(typ)) = (text_of(&header, "kid"), text_of(&header, "typ")) else {
            return deny("a member of the token's header is no text");
        };
        let issuer = claims.get("iss").and_then(Value::as_str).map(str::to_owned);
        Ok(Token { algorithm, kid, typ, issuer, signed, signature })
    }

    /// What it claims.
    ///
    /// # Errors
    /// None that has been read before.
    pub(super) fn claims(&self) -> Result<Map<String, Value>, Denied> {
        let claims = self.signed.split_once('.').and_then(|(_, claims)| object(claims));
        claims.map_or_else(|| deny("a part of the token can't be read"), Ok)
    }
}

/// Strictly: no other spelling of the same bytes is taken.
fn decode(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

fn object(part: &str) -> Option<Map<String, Value>> {
    json::object(&decode(part)?)
}

/// The text `name`; `Err`: it is something else.
fn text_of(header: &Map<String, Value>, name: &str) -> Result<Option<String>, ()> {
    match header.get(name) {
        None => Ok(None),
        Some(value) => value.as_str().map(|text| Some(text.to_owned())).ok_or(()),
    }
}
