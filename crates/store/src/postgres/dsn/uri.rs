//! The form of a URI: `postgresql://user:password@host:port,host/dbname?keyword=value`.
//!
//! An `@` that is left over after the user part is refused: it most likely ends a password with a `/`, a
//! `?` or an `@` that was not encoded, and pieces of that would be taken for a host or a database name and
//! shown as such.

use dataglot_model::Sensitive;

use super::error::{DsnError, Origin};
use super::keyword::Given;

/// What follows the scheme, if the text is a URI.
pub(super) fn without_scheme(text: &str) -> Option<&str> {
    text.strip_prefix("postgresql://").or_else(|| text.strip_prefix("postgres://"))
}

/// Reads what follows the scheme.
pub(super) fn parse(text: &str) -> Result<Given, DsnError> {
    let mut given = Given::default();
    let mut set = |name: &'static str, value: &str| -> Result<(), DsnError> {
        if !value.is_empty() {
            given.set(name, decode(value)?, Origin::Text, None)?;
        }
        Ok(())
    };

    // As libpq does: the user part ends with the first "@" that comes before any "/".
    let until_path = text.split('/').next().unwrap_or_default();
    let (login, rest) = match until_path.find('@').and_then(|at| text.split_at_checked(at)) {
        Some((login, rest)) => (Some(login), rest.strip_prefix('@').unwrap_or(rest)),
        None => (None, text),
    };
    if let Some(login) = login {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        set("user", user)?;
        set("password", password)?;
    }
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (rest, None),
    };
    if place.contains('@') || (login.is_none() && query.is_some_and(|q| q.contains('@'))) {
        return Err(DsnError::Uri { what: "\"@\" where it does not end the user and the password" });
    }
    let (servers, dbname) = place.split_once('/').unwrap_or((place, ""));
    let (hosts, ports) = hosts(servers)?;
    set("host", &hosts)?;
    set("port", &ports)?;
    set("dbname", dbname)?;
    if let Some(query) = query {
        parameters(&mut given, query)?;
    }
    Ok(given)
}

/// The hosts and the ports, each as a list with commas. Nothing is decoded yet.
fn hosts(servers: &str) -> Result<(String, String), DsnError> {
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for server in servers.split(',') {
        let (host, port) = match server.strip_prefix('[') {
            Some(bracketed) => {
                let (host, rest) = bracketed
                    .split_once(']')
                    .ok_or(DsnError::Uri { what: "an IPv6 address without its closing \"]\"" })?;
                if host.is_empty() {
                    return Err(DsnError::Uri { what: "an empty IPv6 address" });
                }
                match rest.strip_prefix(':') {
                    Some(port) => (host, port),
                    None if rest.is_empty() => (host, ""),
                    None => return Err(DsnError::Uri { what: "an unexpected character after an IPv6 address" }),
                }
            }
            None => server.split_once(':').unwrap_or((server, "")),
        };
        hosts.push(host);
        ports.push(port);
    }
    let joined = |list: &[&str]| if list.iter().all(|p| p.is_empty()) { String::new() } else { list.join(",") };
    // A list of empty hosts still says how many there are.
    let several = if hosts.len() > 1 { hosts.join(",") } else { joined(&hosts) };
    Ok((several, joined(&ports)))
}

fn parameters(given: &mut Given, query: &str) -> Result<(), DsnError> {
    let mut after = None;
    for pair in query.split('&').filter(|_| !query.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(DsnError::Uri { what: "a parameter without \"=\"" })?;
        if value.contains('=') {
            return Err(DsnError::Uri { what: "a second \"=\" in a parameter" });
        }
        let (name, value) = (decode(name)?, decode(value)?);
        // What JDBC drivers write.
        let (name, value) = match (name.open(), value.open()) {
            ("ssl", "true") => (Sensitive::new("sslmode".to_owned()), Sensitive::new("require".to_owned())),
            _ => (name, value),
        };
        after = Some(given.set(name.open(), value, Origin::Text, after)?);
    }
    Ok(())
}

/// Resolves `%XX`.
fn decode(text: &str) -> Result<Sensitive, DsnError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
        let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
            return Err(DsnError::Uri { what: "an invalid percent-encoded character" });
        };
        match high * 16 + low {
            0 => return Err(DsnError::Uri { what: "the forbidden value %00" }),
            byte => bytes.push(byte),
        }
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| DsnError::Uri { what: "percent-encoded characters that are not UTF-8" })?;
    Ok(Sensitive::new(text))
}
