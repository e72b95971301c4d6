//! `CREATE`, `ALTER CATALOG`.

use std::borrow::Cow;

use dataglot_model::command::{
    AlterCatalog, CatalogAction, CreateCatalog, OnExisting, OptionChange, OptionEntry, ValidateMode,
};
use dataglot_model::connector::{Connector, nearest};
use dataglot_model::def::OptionValue;
use dataglot_model::{At, Name, Span, SqlState};

use super::{if_exists, if_not_exists, if_version, no_tags, once, set_comment};
use crate::SyntaxError;
use crate::cursor::{Cursor, Parse};
use crate::options::{self, refuse_credential, refuse_credentials};

/// `[IF NOT EXISTS] name ‡{ USING ident | options | COMMENT … | AUTHORIZATION … | VALIDATE … }`
pub(super) fn create(c: &mut Cursor<'_>, or: OnExisting) -> Parse<CreateCatalog> {
    let on_existing = if_not_exists(c, or)?;
    let name = c.name()?;
    let (mut connector, mut entries, mut comment, mut owner, mut validate) = (None, None, None, None, None);
    while !c.at_end() {
        let span = c.peek().span();
        no_tags(c)?;
        if c.accept(&["USING"]) {
            let named = connector_name(c)?;
            once(&mut connector, named, span)?;
        } else if c.accept(&["WITH"]) {
            let list = options::entries(c)?;
            once(&mut entries, list, span)?;
        } else if c.accept(&["OPTIONS"]) {
            let list = options::pg_entries(c)?;
            once(&mut entries, list, span)?;
        } else if c.accept(&["COMMENT"]) {
            let text = c.text()?.value;
            once(&mut comment, text, span)?;
        } else if c.accept(&["AUTHORIZATION"]) {
            let role = c.role_spec()?;
            once(&mut owner, role, span)?;
        } else if c.accept(&["VALIDATE"]) {
            let mode = validate_mode(c)?;
            once(&mut validate, mode, span)?;
        } else {
            return Err(c.unexpected());
        }
    }
    let mut entries = entries.unwrap_or_default();
    if connector.is_none()
        && let Some(at) = entries.iter().position(|e| e.key.eq_ignore_ascii_case("kind"))
    {
        let entry = entries.remove(at);
        let OptionValue::Text(kind) = &entry.value.value else {
            return Err(SyntaxError::invalid(
                SqlState::InvalidParameterValue,
                "option \"kind\" takes a text",
                entry.value.span,
            ));
        };
        connector = Some(if c.is_later(entry.value.span) {
            At::new(Connector::Mock, entry.value.span)
        } else {
            known(kind, "connector does not exist".into(), entry.value.span)?
        });
    }
    let Some(connector) = connector else {
        return Err(c.unexpected().with_hint("Name the connector: CREATE CATALOG name USING postgres WITH (...)."));
    };
    let entries = compatible(c, entries)?;
    refuse_credentials(name.as_str(), Some(connector.value), &entries)?;
    Ok(CreateCatalog {
        name,
        on_existing,
        connector,
        options: entries,
        comment,
        owner,
        validate: validate.unwrap_or(ValidateMode::Schema),
    })
}

fn connector_name(c: &mut Cursor<'_>) -> Parse<At<Connector>> {
    if c.is_string() {
        let text = c.string()?;
        return known(&text, "connector does not exist".into(), text.span);
    }
    let word = c.ident()?;
    let message = format!("connector \"{}\" does not exist", word.value);
    known(&word, message.into(), word.span)
}

fn known(word: &str, message: Cow<'static, str>, span: Span) -> Parse<At<Connector>> {
    if let Some(connector) = Connector::from_name(word) {
        return Ok(At::new(connector, span));
    }
    let all: Vec<&str> = Connector::ALL.iter().map(|c| c.as_str()).collect();
    let hint = match nearest(word, all.iter().copied()) {
        Some(near) => format!("Perhaps you meant \"{near}\"."),
        None => format!("The connectors are: {}.", all.join(", ")),
    };
    Err(SyntaxError::invalid(SqlState::UndefinedObject, message, span).with_hint(hint))
}

fn validate_mode(c: &mut Cursor<'_>) -> Parse<ValidateMode> {
    match c.accept_one(&["OFF", "SCHEMA"]) {
        Some("OFF") => Ok(ValidateMode::Off),
        Some(_) => Ok(ValidateMode::Schema),
        None if c.is("CONNECT") => Err(SyntaxError::unsupported(
            "VALIDATE CONNECT",
            "Options are checked against the connector's schema; sources are not contacted.",
            c.peek().span(),
        )),
        None => Err(c.unexpected()),
    }
}

/// `dsn_secret = 's'` is `dsn = SECRET s`, `dsn_env = 'V'` is `dsn = ENV 'V'`: the older form.
fn compatible(c: &Cursor<'_>, entries: Vec<OptionEntry>) -> Parse<Vec<OptionEntry>> {
    let mut dsn = 0;
    let mut out = Vec::with_capacity(entries.len());
    for OptionEntry { key, value } in entries {
        let lower = key.to_ascii_lowercase();
        dsn += usize::from(matches!(lower.as_str(), "dsn" | "dsn_secret" | "dsn_env"));
        if dsn > 1 {
            let message = "at most one of the options dsn, dsn_secret and dsn_env may be given";
            return Err(SyntaxError::invalid(SqlState::InvalidParameterValue, message, key.span));
        }
        let value = match (lower.as_str(), &value.value) {
            ("dsn_secret", OptionValue::Text(text)) => {
                let text = if c.is_later(value.span) { "later" } else { text };
                let name = crate::cursor::named(Name::new(text), value.span)?;
                name.map(|name| OptionValue::Secret { name, as_file: false })
            }
            ("dsn_env", OptionValue::Text(text)) => At::new(OptionValue::Env(text.clone()), value.span),
            _ => value,
        };
        let key = if lower.starts_with("dsn_") { key.map(|_| "dsn".to_owned()) } else { key };
        out.push(OptionEntry { key, value });
    }
    Ok(out)
}

/// `[IF EXISTS] name [IF VERSION n] action {"," action}`
pub(super) fn alter(c: &mut Cursor<'_>) -> Parse<AlterCatalog> {
    let on_missing = if_exists(c);
    let name = c.name()?;
    let expected = if_version(c)?;
    let object = name.as_str().to_owned();
    let actions = c.list(|c| action(c, &object))?;
    Ok(AlterCatalog { name, on_missing, expected, actions })
}

fn action(c: &mut Cursor<'_>, object: &str) -> Parse<CatalogAction> {
    if c.accept(&["SET"]) {
        if let Some(comment) = set_comment(c)? {
            return Ok(CatalogAction::Comment(comment));
        }
        let entries = options::entries(c)?;
        let entries = compatible(c, entries)?;
        refuse_credentials(object, None, &entries)?;
        return Ok(CatalogAction::Set(entries));
    }
    if c.accept(&["RESET"]) {
        c.expect_mark(b'(')?;
        let keys = c.list(options::key)?;
        c.expect_mark(b')')?;
        return Ok(CatalogAction::Reset(keys));
    }
    if c.accept(&["OPTIONS"]) {
        c.expect_mark(b'(')?;
        let changes = c.list(|c| option_change(c, object))?;
        c.expect_mark(b')')?;
        return Ok(CatalogAction::Options(changes));
    }
    if c.accept(&["WITH"]) {
        let entries = options::entries(c)?;
        let entries = compatible(c, entries)?;
        refuse_credentials(object, None, &entries)?;
        return Ok(CatalogAction::Replace(entries));
    }
    if c.accept(&["RENAME", "TO"]) {
        return c.name().map(CatalogAction::Rename);
    }
    if c.accept(&["OWNER", "TO"]) {
        return c.role_spec().map(CatalogAction::Owner);
    }
    match c.accept_one(&["ENABLE", "DISABLE"]) {
        Some(word) => Ok(CatalogAction::Enable(word == "ENABLE")),
        None if c.is("ROTATE") => Err(SyntaxError::unsupported(
            "ROTATE CREDENTIAL",
            "Give the secret a new value: ALTER SECRET name AS ...",
            c.peek().span(),
        )),
        None => Err(c.unexpected()),
    }
}

fn option_change(c: &mut Cursor<'_>, object: &str) -> Parse<OptionChange> {
    // ADD, SET and DROP may be keys themselves: `OPTIONS (add 'x')`.
    let is_verb = !crate::literal::is_string(c.peek_nth(1).kind);
    let verb = if is_verb { c.accept_one(&["ADD", "SET", "DROP"]) } else { None };
    if verb == Some("DROP") {
        return options::key(c).map(OptionChange::Drop);
    }
    let entry = options::pg_entry(c)?;
    refuse_credential(object, None, &entry)?;
    Ok(if verb == Some("SET") { OptionChange::Set(entry) } else { OptionChange::Add(entry) })
}
