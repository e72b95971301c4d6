//! What a verified token claims, and whether that lets a user in.

use serde_json::{Map, Value};

use super::super::denied::{Denied, deny};
use super::super::groups::mapped;
use super::{IssuerConfig, TokenUser};

/// Longest `sub`, and longest name that stands for a user, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Whether the claims of a token of this issuer let `user` in at `now` (seconds since 1970).
///
/// # Errors
/// They don't.
pub(super) fn judge(claims: &Map<String, Value>, of: &IssuerConfig, user: &str, now: f64) -> Result<TokenUser, Denied> {
    audience(claims, of)?;
    times(claims, of, now)?;
    // The principal is the issuer's subject, whatever else stands for the user.
    principal(claims.get("sub"))?;
    let path = if of.user_claim.is_empty() { &["sub".to_owned()][..] } else { &of.user_claim };
    let name = principal(at(claims, path))?;
    let is_user = match of.users.is_empty() {
        true => name == user,
        false => of.users.get(name).is_some_and(|users| users.iter().any(|one| one == user)),
    };
    if !is_user || user.is_empty() {
        return deny("the token is another user's");
    }
    Ok(TokenUser { role_names: roles(claims, of)? })
}

fn audience(claims: &Map<String, Value>, of: &IssuerConfig) -> Result<(), Denied> {
    let names: Option<Vec<&str>> = match claims.get("aud") {
        Some(Value::String(one)) => Some(vec![one]),
        Some(Value::Array(several)) => several.iter().map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => None,
    };
    match names {
        None => deny("the token has no audience"),
        Some(names) if names.iter().any(|name| of.audience.iter().any(|ours| ours == name)) => Ok(()),
        Some(_) => deny("the token is for another audience"),
    }
}

fn times(claims: &Map<String, Value>, of: &IssuerConfig, now: f64) -> Result<(), Denied> {
    let (leeway, lifetime_max) = (of.leeway.as_secs_f64(), of.lifetime_max.as_secs_f64());
    let Some(expires) = time(claims, "exp")? else { return deny("the token has no time at which it expires") };
    let (not_before, issued) = (time(claims, "nbf")?, time(claims, "iat")?);
    if now >= expires + leeway {
        return deny("the token has expired");
    }
    if not_before.into_iter().chain(issued).any(|at| at > now + leeway) {
        return deny("the token is not valid yet");
    }
    // Without a time of issue it is at least this old.
    let begins = issued.or(not_before).unwrap_or(now);
    if expires - begins > lifetime_max {
        return deny("the token lives too long");
    }
    Ok(())
}

/// A time in seconds since 1970. What is there and no such number is not taken for absent.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<f64>, Denied> {
    /// The end of the year 9999.
    const LAST: f64 = 253_402_300_799.0;
    match claims.get(name) {
        None => Ok(None),
        Some(value) => match value.as_f64().filter(|at| (0.0..=LAST).contains(at)) {
            Some(at) => Ok(Some(at)),
            None => deny("a time in the token is no number"),
        },
    }
}

fn principal(value: Option<&Value>) -> Result<&str, Denied> {
    match value.and_then(Value::as_str) {
        Some(name) if (1..=NAME_BYTES_MAX).contains(&name.len()) => Ok(name),
        Some(_) | None => deny("the token does not say whose it is"),
    }
}

/// The claim at the end of `path`.
fn at<'a>(claims: &'a Map<String, Value>, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(claims.get(first)?, |value, name| value.as_object()?.get(name))
}

/// The roles that the token's groups stand for. Empty: none are looked at.
fn roles(claims: &Map<String, Value>, of: &IssuerConfig) -> Result<Vec<String>, Denied> {
    if of.roles_claim.is_empty() {
        return Ok(Vec::new());
    }
    let groups: Option<Vec<&str>> = match at(claims, &of.roles_claim) {
        None => Some(Vec::new()),
        Some(Value::String(one)) => Some(vec![one]),
        Some(Value::Array(several)) => several.iter().map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => None,
    };
    let Some(groups) = groups else { return deny("the token's groups are not texts") };
    let roles = mapped(groups, &of.roles);
    if roles.is_empty() {
        return deny("the token has no group that stands for a role");
    }
    Ok(roles)
}
