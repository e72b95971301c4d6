//! `CREATE`, `ALTER SECRET`.

use dataglot_model::command::{AlterSecret, CreateSecret, Grace, OnExisting, SecretAction, SecretValue};
use dataglot_model::{At, Sensitive, SqlState};

use super::{if_exists, if_not_exists, if_version};
use crate::SyntaxError;
use crate::cursor::{Cursor, Parse};
use crate::interval;

/// `[IF NOT EXISTS] name AS value [COMMENT 'text']`
pub(super) fn create(c: &mut Cursor<'_>, or: OnExisting) -> Parse<CreateSecret<Sensitive>> {
    let on_existing = if_not_exists(c, or)?;
    let name = c.name()?;
    let at = c.peek();
    if c.is("TYPE") || c.is_mark(b'(') {
        return Err(SyntaxError::unsupported(
            "a secret of several fields",
            "Make one secret a field: CREATE SECRET name AS '...'.",
            at.span(),
        ));
    }
    if c.is("WITH") {
        return Err(SyntaxError::unsupported(
            "a secret in another backend",
            "Use CREATE SECRET name AS '...', AS ENV '...' or AS FILE '...'.",
            at.span(),
        ));
    }
    c.expect(&["AS"])?;
    let value = value(c)?;
    let comment = if c.accept(&["COMMENT"]) { Some(c.text()?.value) } else { None };
    Ok(CreateSecret { name, on_existing, value, comment })
}

/// A string or placeholder; never a bare word, never a name in double quotes.
fn value(c: &mut Cursor<'_>) -> Parse<At<SecretValue<Sensitive>>> {
    let start = c.peek().start;
    let value = match c.accept_one(&["ENV", "FILE", "REDACTED"]) {
        Some("ENV") => SecretValue::Env(c.string()?.value),
        Some("FILE") => SecretValue::File(c.string()?.value),
        Some(_) => SecretValue::Redacted,
        None => SecretValue::Value(c.sensitive()?.value),
    };
    Ok(At::new(value, c.since(start)))
}

/// `[IF EXISTS] name [IF VERSION n] AS … [GRACE 'interval'] | RENAME TO … | OWNER TO …`
pub(super) fn alter(c: &mut Cursor<'_>) -> Parse<AlterSecret<Sensitive>> {
    let on_missing = if_exists(c);
    let name = c.name()?;
    let expected = if_version(c)?;
    let action = if c.accept(&["AS"]) {
        let value = value(c)?;
        let grace = if c.accept(&["GRACE"]) { Some(grace(c)?) } else { None };
        SecretAction::Value { value, grace }
    } else if c.accept(&["RENAME", "TO"]) {
        SecretAction::Rename { to: c.name()?, resealed: None, resealed_previous: None }
    } else if c.accept(&["OWNER", "TO"]) {
        SecretAction::Owner(c.role_spec()?)
    } else if (c.is("SET") || c.is("DROP"))
        && (c.nth_is(1, "VERSION") || c.peek_nth(1).kind == crate::lexer::TokenKind::Punctuation(b'('))
    {
        return Err(SyntaxError::unsupported(
            "a change of the versions or fields of a secret",
            "Give it a new value: ALTER SECRET name AS '...'.",
            c.peek().span(),
        ));
    } else {
        return Err(c.unexpected());
    };
    Ok(AlterSecret { name, on_missing, expected, action })
}

/// The interval after GRACE.
fn grace(c: &mut Cursor<'_>) -> Parse<Grace> {
    let text = c.text()?;
    if c.is_later(text.span) {
        return Ok(Grace::MAX);
    }
    let seconds = interval::seconds(&text.value).map_err(|error| error.at(text.span))?;
    Grace::from_seconds(seconds).ok_or_else(|| {
        let message = format!("GRACE must be between {} and {}", Grace::MIN, Grace::MAX);
        SyntaxError::invalid(SqlState::InvalidParameterValue, message, text.span)
    })
}
