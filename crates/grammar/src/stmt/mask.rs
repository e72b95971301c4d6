//! `CREATE`, `ALTER MASK`.

use dataglot_model::command::{AlterMask, CreateMask, MaskAction, OnExisting};
use dataglot_model::def::{ExpressionText, MaskFunction, MaskTarget, OptionValue};
use dataglot_model::{At, ColumnRef, SqlState, quote_string};

use super::policy::{Principals, audience_change};
use super::{if_exists, if_not_exists, if_version, once, set_comment};
use crate::SyntaxError;
use crate::cursor::{Cursor, Parse};
use crate::options;
use crate::query::{ExpressionUse, expression};

/// The kinds of mask that WITH knows.
const TYPES: &str = "The types are redact, hash, nullify, date_year, show_first, show_last and constant.";

/// `[IF NOT EXISTS] name ON target function ‡{ … }`
pub(super) fn create(c: &mut Cursor<'_>, or: OnExisting) -> Parse<CreateMask> {
    let on_existing = if_not_exists(c, or)?;
    let name = c.name()?;
    if c.is("AS") {
        return Err(SyntaxError::unsupported(
            "a mask without a target",
            "Write CREATE MASK name ON catalog.schema.table (column) AS (expression).",
            c.peek().span(),
        ));
    }
    c.expect(&["ON"])?;
    let target = target(c)?;
    let Some(function) = function(c)? else { return Err(c.unexpected()) };
    let mut principals = Principals::default();
    let (mut when, mut priority, mut comment, mut enabled) = (None, None, None, None);
    while !c.at_end() {
        let span = c.peek().span();
        if principals.take(c, span)? {
            continue;
        }
        if c.accept(&["WHEN"]) {
            let condition = condition(c)?;
            once(&mut when, condition, span)?;
        } else if c.accept(&["PRIORITY"]) {
            let number = c.integer::<i32>()?.value;
            once(&mut priority, number, span)?;
        } else if c.accept(&["COMMENT"]) {
            let text = c.text()?.value;
            once(&mut comment, text, span)?;
        } else if let Some(word) = c.accept_one(&["ENABLE", "DISABLE"]) {
            once(&mut enabled, word == "ENABLE", span)?;
        } else {
            return Err(c.unexpected());
        }
    }
    Ok(CreateMask {
        name,
        on_existing,
        target,
        function,
        when,
        audience: principals.finish(),
        priority: priority.unwrap_or(0),
        enabled: enabled.unwrap_or(true),
        comment,
    })
}

/// `table (column)`, `COLUMN table.column`
pub(super) fn target(c: &mut Cursor<'_>) -> Parse<At<MaskTarget>> {
    let start = c.peek();
    if c.is("TAG") && !matches!(c.peek_nth(1).kind, crate::lexer::TokenKind::Punctuation(_)) {
        return Err(SyntaxError::unsupported("a mask on a tag", "Name the column: ON table (column).", start.span()));
    }
    if c.is("COLUMN") && !matches!(c.peek_nth(1).kind, crate::lexer::TokenKind::Punctuation(_)) {
        c.bump();
        return Ok(c.column_ref()?.map(MaskTarget::Column));
    }
    let table = c.table_ref()?;
    c.expect_mark(b'(')?;
    let column = c.remote_name()?;
    c.expect_mark(b')')?;
    Ok(At::new(MaskTarget::Column(ColumnRef::new(&table, &column)), c.since(start.start)))
}

/// `AS …`, `WITH (…)`, `USING …`; `None`: none of them comes next.
fn function(c: &mut Cursor<'_>) -> Parse<Option<MaskFunction>> {
    if c.accept(&["AS"]) {
        if c.is_mark(b'(') {
            let range = c.parenthesised()?;
            return expression(c.sql, range, c.cx, ExpressionUse::MaskAs).map(MaskFunction::Expression).map(Some);
        }
        return Ok(Some(MaskFunction::Constant(c.text()?.value)));
    }
    if c.accept(&["WITH"]) {
        return with(c).map(Some);
    }
    if c.accept(&["USING"]) {
        let name = c.name()?.value;
        let mut arguments = Vec::new();
        if c.accept_mark(b'(') && !c.accept_mark(b')') {
            arguments = c.list(argument)?;
            c.expect_mark(b')')?;
        }
        return Ok(Some(MaskFunction::Function { name, arguments }));
    }
    Ok(None)
}

/// An argument, as the literal that reads back as the same value.
fn argument(c: &mut Cursor<'_>) -> Parse<String> {
    let value = options::value(c)?;
    match value.value {
        OptionValue::Text(text) => Ok(quote_string(&text)),
        OptionValue::Integer(n) => Ok(n.to_string()),
        OptionValue::Decimal(text) => Ok(text),
        OptionValue::Boolean(b) => Ok(if b { "TRUE" } else { "FALSE" }.to_owned()),
        OptionValue::Json(_) | OptionValue::Secret { .. } | OptionValue::Env(_) => Err(SyntaxError::unsupported(
            "this kind of argument",
            "Arguments are texts, numbers and booleans.",
            value.span,
        )),
    }
}

/// `(type = '…' [, keep = n] [, value = '…'])`
fn with(c: &mut Cursor<'_>) -> Parse<MaskFunction> {
    let open = c.peek().span();
    let invalid = |message: String, span| SyntaxError::invalid(SqlState::InvalidParameterValue, message, span);
    let (mut kind, mut keep, mut constant) = (None, None, None);
    for entry in options::entries(c)? {
        let (key, span) = (entry.key.to_ascii_lowercase(), entry.value.span);
        match (key.as_str(), entry.value.value) {
            ("type", OptionValue::Text(_)) if c.is_later(span) => kind = Some(At::new("later".to_owned(), span)),
            ("type", OptionValue::Text(text)) => kind = Some(At::new(text.to_ascii_lowercase(), span)),
            ("type", _) => return Err(invalid("option \"type\" takes a text".to_owned(), span).with_hint(TYPES)),
            ("keep", _) if c.is_later(span) => keep = Some(At::new(0, entry.key.span)),
            ("keep", value) => {
                let count = match value {
                    OptionValue::Integer(n) => u32::try_from(n).ok(),
                    OptionValue::Text(text) => text.parse().ok(),
                    OptionValue::Decimal(_)
                    | OptionValue::Boolean(_)
                    | OptionValue::Json(_)
                    | OptionValue::Secret { .. }
                    | OptionValue::Env(_) => None,
                };
                let wrong = || invalid("option \"keep\" takes a whole number of at least 0".to_owned(), span);
                keep = Some(At::new(count.ok_or_else(wrong)?, entry.key.span));
            }
            ("value", OptionValue::Text(text)) => constant = Some(At::new(text, entry.key.span)),
            ("value", _) => return Err(invalid("option \"value\" takes a text".to_owned(), span)),
            _ => {
                let message = format!("mask option \"{}\" does not exist", entry.key.value);
                return Err(SyntaxError::invalid(SqlState::UndefinedObject, message, entry.key.span)
                    .with_hint("The options are type, keep and value."));
            }
        }
    }
    let Some(kind) = kind else {
        return Err(invalid("option \"type\" is required".to_owned(), open).with_hint(TYPES));
    };
    if kind.as_str() == "later" && c.is_later(kind.span) {
        return Ok(MaskFunction::Redact);
    }
    let missing = |key: &str| invalid(format!("option \"{key}\" is required for this type of mask"), kind.span);
    let function = match kind.as_str() {
        "redact" => MaskFunction::Redact,
        "hash" => MaskFunction::Hash,
        "nullify" => MaskFunction::Nullify,
        "date_year" => MaskFunction::DateYear,
        "show_first" => MaskFunction::ShowFirst(keep.take().ok_or_else(|| missing("keep"))?.value),
        "show_last" => MaskFunction::ShowLast(keep.take().ok_or_else(|| missing("keep"))?.value),
        "constant" => MaskFunction::Constant(constant.take().ok_or_else(|| missing("value"))?.value),
        _ => return Err(invalid("mask type does not exist".to_owned(), kind.span).with_hint(TYPES)),
    };
    if let Some(span) = keep.map(|k| k.span).or(constant.map(|v| v.span)) {
        return Err(invalid("this option does not go with this type of mask".to_owned(), span));
    }
    Ok(function)
}

fn condition(c: &mut Cursor<'_>) -> Parse<ExpressionText> {
    let range = c.parenthesised()?;
    expression(c.sql, range, c.cx, ExpressionUse::MaskWhen)
}

/// `[IF EXISTS] name [ON target] [IF VERSION n] action {"," action}`
pub(super) fn alter(c: &mut Cursor<'_>) -> Parse<AlterMask> {
    let on_missing = if_exists(c);
    let name = c.name()?;
    let on = if c.accept(&["ON"]) { Some(target(c)?) } else { None };
    let expected = if_version(c)?;
    let actions = c.list(action)?;
    Ok(AlterMask { name, on, on_missing, expected, actions })
}

fn action(c: &mut Cursor<'_>) -> Parse<MaskAction> {
    if c.accept(&["RENAME", "TO"]) {
        return c.name().map(MaskAction::Rename);
    }
    if c.accept(&["OWNER", "TO"]) {
        return c.role_spec().map(MaskAction::Owner);
    }
    let Some(verb) = c.accept_one(&["SET", "ADD", "DROP", "ENABLE", "DISABLE"]) else { return Err(c.unexpected()) };
    if verb == "ENABLE" || verb == "DISABLE" {
        return Ok(MaskAction::Enable(verb == "ENABLE"));
    }
    if let Some(change) = audience_change(c, verb)? {
        return Ok(MaskAction::Audience(change));
    }
    match verb {
        "DROP" if c.accept(&["WHEN"]) => Ok(MaskAction::When(None)),
        "SET" if c.accept(&["WHEN"]) => condition(c).map(Some).map(MaskAction::When),
        "SET" if c.accept(&["PRIORITY"]) => Ok(MaskAction::Priority(c.integer::<i32>()?.value)),
        "SET" => match (set_comment(c)?, function(c)?) {
            (Some(comment), _) => Ok(MaskAction::Comment(comment)),
            (None, Some(function)) => Ok(MaskAction::Function(function)),
            (None, None) => Err(c.unexpected()),
        },
        _ => Err(c.unexpected()),
    }
}
