//! `CREATE`, `ALTER ROW FILTER`.

use dataglot_model::command::{AlterRowFilter, CreateRowFilter, OnExisting, RowFilterAction};
use dataglot_model::def::{ExpressionText, RowFilterTarget};
use dataglot_model::{At, SqlState};

use super::policy::{Principals, audience_change, others};
use super::{if_exists, if_not_exists, if_version, once, set_comment};
use crate::SyntaxError;
use crate::cursor::{Cursor, Parse};
use crate::lexer::TokenKind;
use crate::query::{ExpressionUse, expression};

/// `[IF NOT EXISTS] name ON target ‡{ USING (…) | TO … ELSE … | EXCEPT … | … }`
pub(super) fn create(c: &mut Cursor<'_>, or: OnExisting) -> Parse<CreateRowFilter> {
    let on_existing = if_not_exists(c, or)?;
    let name = c.name()?;
    c.expect(&["ON"])?;
    let target = target(c)?;
    let mut principals = Principals::default();
    let (mut using, mut rest, mut comment, mut enabled, mut to_span) = (None, None, None, None, None);
    while !c.at_end() {
        let span = c.peek().span();
        let is_to = c.is("TO");
        if principals.take(c, span)? {
            if is_to {
                to_span = Some(span);
            }
            continue;
        }
        if c.accept(&["USING"]) {
            let condition = condition(c)?;
            once(&mut using, condition, span)?;
        } else if let Some(value) = others(c)? {
            if principals.to.is_none() {
                return Err(SyntaxError::Unexpected {
                    found: crate::Found::Text("ELSE".to_owned()),
                    hint: Some(
                        "ELSE says what those see whom TO does not name; without TO the filter applies to everyone."
                            .into(),
                    ),
                    span,
                });
            }
            once(&mut rest, value, span)?;
        } else if c.accept(&["COMMENT"]) {
            let text = c.text()?.value;
            once(&mut comment, text, span)?;
        } else if let Some(word) = c.accept_one(&["ENABLE", "DISABLE"]) {
            once(&mut enabled, word == "ENABLE", span)?;
        } else {
            return Err(c.unexpected());
        }
    }
    let Some(using) = using else {
        return Err(c.unexpected().with_hint("A row filter needs USING (condition)."));
    };
    if let (Some(span), None) = (to_span, rest) {
        return Err(SyntaxError::invalid(SqlState::SyntaxError, "TO needs ELSE ALL ROWS or ELSE NO ROWS", span)
            .with_hint("Say what those see whom TO does not name: ELSE ALL ROWS or ELSE NO ROWS."));
    }
    Ok(CreateRowFilter {
        name,
        on_existing,
        target,
        using,
        audience: principals.finish(),
        others: rest,
        enabled: enabled.unwrap_or(true),
        comment,
    })
}

/// `[TABLE] table`, `SCHEMA schema`, `CATALOG name`
pub(super) fn target(c: &mut Cursor<'_>) -> Parse<At<RowFilterTarget>> {
    let start = c.peek();
    // A table may be called like one of these words, and what follows one like a clause.
    let clause = ["USING", "TO", "EXCEPT", "COMMENT", "ENABLE", "DISABLE"].iter().any(|w| c.nth_is(1, w));
    let dotted = matches!(c.peek_nth(2).kind, TokenKind::Punctuation(b'.'));
    let names_follow = !matches!(c.peek_nth(1).kind, TokenKind::Punctuation(_) | TokenKind::End) && (dotted || !clause);
    if names_follow {
        if c.accept(&["SCHEMA"]) {
            return Ok(c.schema_ref()?.map(RowFilterTarget::Schema));
        }
        if c.accept(&["CATALOG"]) {
            return Ok(c.name()?.map(RowFilterTarget::Catalog));
        }
        if c.is("TAG") {
            return Err(SyntaxError::unsupported(
                "a row filter on a tag",
                "Name the table, schema or catalog.",
                start.span(),
            ));
        }
        c.accept(&["TABLE"]);
    }
    Ok(c.table_ref()?.map(RowFilterTarget::Table))
}

fn condition(c: &mut Cursor<'_>) -> Parse<ExpressionText> {
    let range = c.parenthesised()?;
    expression(c.sql, range, c.cx, ExpressionUse::RowFilter)
}

/// `[IF EXISTS] name [ON target] [IF VERSION n] action {"," action}`
pub(super) fn alter(c: &mut Cursor<'_>) -> Parse<AlterRowFilter> {
    let on_missing = if_exists(c);
    let name = c.name()?;
    let on = if c.accept(&["ON"]) { Some(target(c)?) } else { None };
    let expected = if_version(c)?;
    let actions = c.list(action)?;
    Ok(AlterRowFilter { name, on, on_missing, expected, actions })
}

fn action(c: &mut Cursor<'_>) -> Parse<RowFilterAction> {
    if c.accept(&["RENAME", "TO"]) {
        return c.name().map(RowFilterAction::Rename);
    }
    if c.accept(&["OWNER", "TO"]) {
        return c.role_spec().map(RowFilterAction::Owner);
    }
    let Some(verb) = c.accept_one(&["SET", "ADD", "DROP", "ENABLE", "DISABLE"]) else { return Err(c.unexpected()) };
    if verb == "ENABLE" || verb == "DISABLE" {
        return Ok(RowFilterAction::Enable(verb == "ENABLE"));
    }
    if let Some(change) = audience_change(c, verb)? {
        return Ok(RowFilterAction::Audience(change));
    }
    if verb == "SET" && c.accept(&["USING"]) {
        return condition(c).map(RowFilterAction::Using);
    }
    if verb == "SET"
        && let Some(comment) = set_comment(c)?
    {
        return Ok(RowFilterAction::Comment(comment));
    }
    Err(c.unexpected())
}
