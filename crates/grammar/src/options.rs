//! `WITH (key = value, …)` and `OPTIONS (key 'value', …)`: keys, typed values, and the refusal of a
//! literal where a credential would be kept.

use std::collections::BTreeSet;

use dataglot_model::command::OptionEntry;
use dataglot_model::connector::{Connector, OptionType, holds_password};
use dataglot_model::def::OptionValue;
use dataglot_model::{At, SqlState};
use serde_json::Value;

use crate::SyntaxError;
use crate::cursor::{Cursor, Given, Parse};
use crate::lexer::TokenKind;
use crate::literal::is_string;

/// `"(" [ key "=" value {"," key "=" value} ] ")"`
pub(crate) fn entries(c: &mut Cursor<'_>) -> Parse<Vec<OptionEntry>> {
    c.expect_mark(b'(')?;
    let mut entries = Vec::new();
    if c.accept_mark(b')') {
        return Ok(entries);
    }
    let mut seen = BTreeSet::new();
    loop {
        let key = key(c)?;
        if !c.accept_operator("=") {
            return Err(c.unexpected());
        }
        let value = value(c)?;
        once(&mut seen, &key)?;
        entries.push(OptionEntry { key, value });
        if !c.accept_mark(b',') {
            c.expect_mark(b')')?;
            // The order in which options were written means nothing.
            entries.sort_by(|a, b| a.key.value.cmp(&b.key.value));
            return Ok(entries);
        }
    }
}

/// `"(" key 'value' {"," key 'value'} ")"`, PostgreSQL's way.
pub(crate) fn pg_entries(c: &mut Cursor<'_>) -> Parse<Vec<OptionEntry>> {
    c.expect_mark(b'(')?;
    let mut seen = BTreeSet::new();
    let mut entries = c.list(|c| {
        let entry = pg_entry(c)?;
        once(&mut seen, &entry.key)?;
        Ok(entry)
    })?;
    c.expect_mark(b')')?;
    entries.sort_by(|a, b| a.key.value.cmp(&b.key.value));
    Ok(entries)
}

pub(crate) fn pg_entry(c: &mut Cursor<'_>) -> Parse<OptionEntry> {
    let key = key(c)?;
    let value = c.text()?.map(OptionValue::Text);
    Ok(OptionEntry { key, value })
}

/// A key: `ident {"." ident}` or a string.
pub(crate) fn key(c: &mut Cursor<'_>) -> Parse<At<String>> {
    if c.is_string() {
        return c.string();
    }
    let start = c.peek().start;
    let mut key = c.label()?.value;
    while c.accept_mark(b'.') {
        key.push('.');
        key.push_str(&c.label()?.value);
    }
    Ok(At::new(key, c.since(start)))
}

/// A key may be there once, whatever its case.
pub(crate) fn once(seen: &mut BTreeSet<String>, key: &At<String>) -> Parse<()> {
    if seen.insert(key.to_ascii_lowercase()) {
        Ok(())
    } else {
        Err(SyntaxError::DuplicateOption { key: key.value.clone(), span: key.span })
    }
}

/// Any value that an option can have.
pub(crate) fn value(c: &mut Cursor<'_>) -> Parse<At<OptionValue>> {
    let start = c.peek().start;
    if let Some(given) = c.placeholder()? {
        let text = match given.value {
            Given::Text(text) => text,
            Given::Later => String::new(),
            Given::Null => {
                return Err(SyntaxError::invalid(
                    SqlState::InvalidParameterValue,
                    "an option must not be null",
                    given.span,
                ));
            }
        };
        return Ok(At::new(OptionValue::Text(text), given.span));
    }
    let value = match c.peek().kind {
        TokenKind::Integer | TokenKind::Decimal | TokenKind::Operator => number(c)?,
        TokenKind::Punctuation(b'[' | b'{') => OptionValue::Json(json(c)?),
        TokenKind::Word if c.is("SECRET") => secret(c)?,
        TokenKind::Word
            if c.is("ENV") && (is_string(c.peek_nth(1).kind) || c.peek_nth(1).kind == TokenKind::Parameter) =>
        {
            c.bump();
            OptionValue::Env(c.text()?.value)
        }
        TokenKind::Word if c.is("JSON") && !matches!(c.peek_nth(1).kind, TokenKind::Punctuation(_)) => {
            c.bump();
            let text = c.text()?;
            if c.is_later(text.span) {
                return Ok(At::new(OptionValue::Json(Value::Null), text.span));
            }
            let value = serde_json::from_str(&text).map_err(|_| {
                SyntaxError::invalid(SqlState::InvalidParameterValue, "value is not valid JSON", text.span)
            })?;
            OptionValue::Json(value)
        }
        TokenKind::Word => word(c)?,
        _ if c.is_string() => OptionValue::Text(c.string()?.value),
        _ => return Err(c.unexpected()),
    };
    Ok(At::new(value, c.since(start)))
}

/// `true`, `on`, a bare word.
fn word(c: &mut Cursor<'_>) -> Parse<OptionValue> {
    if c.accept_one(&["TRUE", "ON"]).is_some() {
        return Ok(OptionValue::Boolean(true));
    }
    if c.accept_one(&["FALSE", "OFF"]).is_some() {
        return Ok(OptionValue::Boolean(false));
    }
    if c.is("NULL") {
        let span = c.peek().span();
        return Err(SyntaxError::invalid(SqlState::InvalidParameterValue, "an option must not be null", span)
            .with_hint("Leave the option out, or RESET it."));
    }
    Ok(OptionValue::Text(c.ident()?.value))
}

/// `SECRET name [AS FILE]`
fn secret(c: &mut Cursor<'_>) -> Parse<OptionValue> {
    c.expect(&["SECRET"])?;
    let name = c.name()?.value;
    if c.is_mark(b'.') {
        return Err(SyntaxError::unsupported("a field of a secret", "A secret has one value.", c.peek().span()));
    }
    if c.is("VERSION") {
        return Err(SyntaxError::unsupported(
            "a reference to a version of a secret",
            "A reference always means the present value.",
            c.peek().span(),
        ));
    }
    let as_file = c.accept(&["AS", "FILE"]);
    Ok(OptionValue::Secret { name, as_file })
}

fn number(c: &mut Cursor<'_>) -> Parse<OptionValue> {
    let negative = c.accept_operator("-");
    if !negative {
        c.accept_operator("+");
    }
    let token = c.peek();
    let sign = if negative { "-" } else { "" };
    let text = match token.kind {
        TokenKind::Integer => token.text(c.sql).trim_start_matches('0'),
        TokenKind::Decimal => token.text(c.sql),
        _ => return Err(c.unexpected()),
    };
    c.bump();
    let text = format!("{sign}{}", if text.is_empty() { "0" } else { text });
    if token.kind == TokenKind::Integer
        && let Ok(integer) = text.parse::<i64>()
    {
        return Ok(OptionValue::Integer(integer));
    }
    Ok(OptionValue::Decimal(text))
}

/// `[…]`, `{…}` and what stands in them. The nesting was checked with the tokens.
fn json(c: &mut Cursor<'_>) -> Parse<Value> {
    if c.accept_mark(b'[') {
        if c.accept_mark(b']') {
            return Ok(Value::Array(Vec::new()));
        }
        let items = c.list(json)?;
        c.expect_mark(b']')?;
        return Ok(Value::Array(items));
    }
    if c.accept_mark(b'{') {
        let mut object = serde_json::Map::new();
        if c.accept_mark(b'}') {
            return Ok(Value::Object(object));
        }
        let mut seen = BTreeSet::new();
        c.list(|c| {
            let key = key(c)?;
            if !c.accept_operator("=") && !c.accept_mark(b':') {
                return Err(c.unexpected());
            }
            let value = json(c)?;
            if !seen.insert(key.value.clone()) {
                return Err(SyntaxError::DuplicateOption { key: key.value.clone(), span: key.span });
            }
            object.insert(key.value, value);
            Ok(())
        })?;
        c.expect_mark(b'}')?;
        return Ok(Value::Object(object));
    }
    if c.accept(&["NULL"]) {
        return Ok(Value::Null);
    }
    let at = value(c)?;
    Ok(match at.value {
        OptionValue::Text(text) => Value::String(text),
        OptionValue::Integer(n) => Value::from(n),
        OptionValue::Boolean(b) => Value::Bool(b),
        OptionValue::Json(value) => value,
        OptionValue::Decimal(text) => match text.parse::<f64>().ok().and_then(serde_json::Number::from_f64) {
            Some(number) => Value::Number(number),
            None => return Err(SyntaxError::invalid(SqlState::NumericValueOutOfRange, "number out of range", at.span)),
        },
        OptionValue::Secret { .. } | OptionValue::Env(_) => {
            return Err(SyntaxError::unsupported("a reference inside a list or object", "", at.span));
        }
    })
}

/// Refuses a literal that would be a credential. Without a connector, what any connector takes as a
/// credential counts as one.
pub(crate) fn refuse_credentials(object: &str, connector: Option<Connector>, entries: &[OptionEntry]) -> Parse<()> {
    entries.iter().try_for_each(|entry| refuse_credential(object, connector, entry))
}

pub(crate) fn refuse_credential(object: &str, connector: Option<Connector>, entry: &OptionEntry) -> Parse<()> {
    let takes_credential = match connector {
        Some(connector) => connector.option(&entry.key).is_some_and(|spec| spec.kind == OptionType::Credential),
        None => Connector::any_takes_credential(&entry.key),
    };
    let refused = match &entry.value.value {
        OptionValue::Secret { .. } | OptionValue::Env(_) => false,
        OptionValue::Text(text) => takes_credential || holds_password(text) || text_holds_credential(text),
        OptionValue::Json(json) => takes_credential || json_holds_credential(json),
        OptionValue::Integer(_) | OptionValue::Decimal(_) | OptionValue::Boolean(_) => takes_credential,
    };
    if refused {
        let (key, object) = (entry.key.value.clone(), object.to_owned());
        return Err(SyntaxError::InlineCredential { key, object, span: entry.value.span });
    }
    Ok(())
}

/// A text that an option of type JSON would read as JSON.
fn text_holds_credential(text: &str) -> bool {
    text.trim_start().starts_with(['[', '{'])
        && serde_json::from_str(text).is_ok_and(|value: Value| json_holds_credential(&value))
}

/// Whether a field that is called like a credential has a value, or a text in it holds a password.
fn json_holds_credential(value: &Value) -> bool {
    match value {
        Value::String(text) => holds_password(text),
        Value::Array(items) => items.iter().any(json_holds_credential),
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            let filled = match value {
                Value::String(text) => !text.is_empty(),
                Value::Number(_) => true,
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
            };
            (filled && names_credential(key)) || json_holds_credential(value)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Keys under which a credential stands inside JSON: those of the connectors, and headers of HTTP.
fn names_credential(key: &str) -> bool {
    const KEYS: &[&str] = &[
        "access_token",
        "apikey",
        "authorization",
        "cookie",
        "passwd",
        "proxy_authorization",
        "pwd",
        "refresh_token",
        "sas_token",
        "secret",
        "secret_key",
        "x_api_key",
    ];
    let key = key.to_ascii_lowercase().replace('-', "_");
    KEYS.contains(&key.as_str()) || Connector::any_takes_credential(&key)
}
