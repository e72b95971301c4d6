//! The form with keywords and values: `host=db port = 5432 password='it\'s'`.

use dataglot_model::Sensitive;

use super::error::{DsnError, Origin};
use super::keyword::Given;

/// Reads the text. The rules are libpq's, to the blank.
pub(super) fn parse(text: &str) -> Result<Given, DsnError> {
    let mut given = Given::default();
    let mut after = None;
    let mut rest = text.trim_ascii_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_ascii_whitespace()).unwrap_or(rest.len());
        let (name, tail) = rest.split_at(end);
        let Some(tail) = tail.trim_ascii_start().strip_prefix('=') else {
            return Err(DsnError::Syntax { what: "missing \"=\"", after });
        };
        if name.is_empty() {
            return Err(DsnError::Syntax { what: "missing keyword before \"=\"", after });
        }
        let tail = tail.trim_ascii_start();
        let (value, tail) = match tail.strip_prefix('\'') {
            Some(quoted) => {
                until_quote(quoted).ok_or(DsnError::Syntax { what: "unterminated quoted string", after })?
            }
            None => until_blank(tail),
        };
        after = Some(given.set(name, value, Origin::Text, after)?);
        rest = tail.trim_ascii_start();
    }
    Ok(given)
}

/// The value up to the closing quote, and what follows it.
fn until_quote(text: &str) -> Option<(Sensitive, &str)> {
    let mut value = String::with_capacity(text.len());
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '\'' => return Some((Sensitive::new(value), chars.as_str())),
            '\\' => value.push(chars.next()?),
            other => value.push(other),
        }
    }
}

/// The value up to a blank, and what follows it.
fn until_blank(text: &str) -> (Sensitive, &str) {
    let mut value = String::with_capacity(text.len());
    let mut chars = text.chars();
    loop {
        let rest = chars.as_str();
        match chars.next() {
            None => return (Sensitive::new(value), rest),
            Some(c) if c.is_ascii_whitespace() => return (Sensitive::new(value), rest),
            Some('\\') => value.extend(chars.next()),
            Some(other) => value.push(other),
        }
    }
}

/// A value as it has to be written.
pub(super) fn quote(value: &str) -> String {
    let plain = !value.is_empty() && !value.contains(|c: char| c == '\'' || c == '\\' || c.is_whitespace());
    if plain { value.to_owned() } else { format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'")) }
}
