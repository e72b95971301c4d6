//! `SET`, `RESET`, `DISCARD`, `LISTEN`, `UNLISTEN`, `DEALLOCATE`.

use dataglot_model::{At, Name, Sensitive, SessionCommand, SetScope, SqlState, Statement, TransactionCommand};

use super::transaction::modes;
use crate::SyntaxError;
use crate::cursor::{Cursor, Given, Parse};
use crate::lexer::TokenKind;

/// SET is taken.
pub(super) fn set(c: &mut Cursor<'_>) -> Parse<Statement<Sensitive>> {
    if c.accept(&["TRANSACTION"]) {
        if c.is("SNAPSHOT") {
            return Err(SyntaxError::unsupported("SET TRANSACTION SNAPSHOT", "", c.peek().span()));
        }
        if c.at_end() {
            return Err(c.unexpected());
        }
        return modes(c).map(TransactionCommand::SetTransaction).map(Statement::Transaction);
    }
    if c.accept(&["SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"]) {
        return modes(c).map(TransactionCommand::SetCharacteristics).map(Statement::Transaction);
    }
    if c.is("TAG") && c.peek_nth(1).kind == TokenKind::Word && !c.nth_is(1, "TO") {
        return Err(SyntaxError::unsupported("SET TAG", "Tags come with a later version.", c.peek().span()));
    }
    let scope = scope(c);
    if c.accept(&["ROLE"]) {
        if !c.accept_operator("=") {
            c.accept(&["TO"]);
        }
        let role = if c.accept(&["NONE"]) { None } else { Some(role_name(c)?) };
        return Ok(Statement::Session(SessionCommand::SetRole { scope, role }));
    }
    if c.accept(&["SESSION", "AUTHORIZATION"]) {
        let role = if c.accept(&["DEFAULT"]) { None } else { Some(role_name(c)?) };
        return Ok(Statement::Session(SessionCommand::SetAuthorization { scope, role }));
    }
    let span = c.peek().span();
    if c.accept(&["TIME", "ZONE"]) {
        let value = if c.accept_one(&["DEFAULT", "LOCAL"]).is_some() { None } else { Some(setting_value(c)?) };
        return Ok(Statement::Session(SessionCommand::Set {
            scope,
            name: At::new("timezone".to_owned(), span),
            value,
        }));
    }
    if c.accept(&["NAMES"]) {
        let value = if c.at_end() || c.accept(&["DEFAULT"]) { None } else { Some(setting_value(c)?) };
        return Ok(Statement::Session(SessionCommand::Set {
            scope,
            name: At::new("client_encoding".to_owned(), span),
            value,
        }));
    }
    if c.is("SCHEMA") && c.peek_nth(1).kind == TokenKind::String {
        c.bump();
        let value = Some(setting_value(c)?);
        return Ok(Statement::Session(SessionCommand::Set {
            scope,
            name: At::new("search_path".to_owned(), span),
            value,
        }));
    }
    if c.is("CONSTRAINTS") && c.peek_nth(1).kind != TokenKind::Operator && !c.nth_is(1, "TO") {
        return Err(SyntaxError::unsupported("SET CONSTRAINTS", "There are no deferrable constraints.", span));
    }
    let name = setting_name(c)?;
    if !c.accept_operator("=") {
        c.expect(&["TO"])?;
    }
    let value = if c.accept(&["DEFAULT"]) { None } else { Some(setting_value(c)?) };
    Ok(Statement::Session(SessionCommand::Set { scope, name, value }))
}

/// `[SESSION | LOCAL]`; `SESSION AUTHORIZATION` is no scope, but may follow one.
fn scope(c: &mut Cursor<'_>) -> SetScope {
    if c.accept(&["LOCAL"]) {
        return SetScope::Local;
    }
    if c.is("SESSION") && !c.nth_is(1, "AUTHORIZATION") {
        c.bump();
    }
    SetScope::Session
}

/// A role, as a name or a string.
fn role_name(c: &mut Cursor<'_>) -> Parse<At<Name>> {
    if c.is_string() {
        let text = c.string()?;
        return crate::cursor::named(Name::new(&text.value), text.span);
    }
    c.name()
}

/// `ident {"." ident}`, lower case.
pub(super) fn setting_name(c: &mut Cursor<'_>) -> Parse<At<String>> {
    let start = c.peek().start;
    let mut name = c.ident()?.value;
    while c.accept_mark(b'.') {
        name.push('.');
        name.push_str(&c.ident()?.value);
    }
    Ok(At::new(name.to_ascii_lowercase(), c.since(start)))
}

/// `value {"," value}`, joined.
pub(super) fn setting_value(c: &mut Cursor<'_>) -> Parse<String> {
    Ok(c.list(one_value)?.join(", "))
}

fn one_value(c: &mut Cursor<'_>) -> Parse<String> {
    if c.is_string() || c.peek().kind == TokenKind::Parameter {
        let given = c.given()?;
        return match given.value {
            Given::Text(text) => Ok(text),
            Given::Later => Ok(String::new()),
            Given::Null => Err(SyntaxError::invalid(
                SqlState::InvalidParameterValue,
                "parameter must not be null here",
                given.span,
            )),
        };
    }
    let sign = if c.accept_operator("-") {
        "-"
    } else {
        c.accept_operator("+");
        ""
    };
    let token = c.peek();
    match token.kind {
        TokenKind::Integer | TokenKind::Decimal => {
            c.bump();
            Ok(format!("{sign}{}", token.text(c.sql)))
        }
        TokenKind::Word if sign.is_empty() => {
            // `on`, `true` and the like are values, reserved or not. A dotted name is one value.
            let mut value = c.label()?.value;
            while c.accept_mark(b'.') {
                value.push('.');
                value.push_str(&c.label()?.value);
            }
            Ok(value)
        }
        TokenKind::QuotedIdent | TokenKind::UnicodeIdent if sign.is_empty() => {
            let name = c.ident()?.value;
            let bare = dataglot_model::quote_ident(&name);
            Ok(if c.is_mark(b'.') { bare } else { name })
        }
        _ => Err(c.unexpected()),
    }
}

/// RESET is taken.
pub(super) fn reset(c: &mut Cursor<'_>) -> Parse<SessionCommand> {
    let scope = SetScope::Session;
    if c.accept(&["ALL"]) {
        return Ok(SessionCommand::ResetAll);
    }
    if c.accept(&["ROLE"]) {
        return Ok(SessionCommand::SetRole { scope, role: None });
    }
    if c.accept(&["SESSION", "AUTHORIZATION"]) {
        return Ok(SessionCommand::SetAuthorization { scope, role: None });
    }
    let span = c.peek().span();
    if c.accept(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
        return Ok(SessionCommand::Reset(At::new("transaction_isolation".to_owned(), span)));
    }
    if c.accept(&["TIME", "ZONE"]) {
        return Ok(SessionCommand::Reset(At::new("timezone".to_owned(), span)));
    }
    setting_name(c).map(SessionCommand::Reset)
}

/// DISCARD is taken.
pub(super) fn discard(c: &mut Cursor<'_>) -> Parse<SessionCommand> {
    match c.accept_one(&["ALL", "PLANS", "SEQUENCES", "TEMPORARY", "TEMP"]) {
        Some("ALL") => Ok(SessionCommand::DiscardAll),
        Some("PLANS") => Ok(SessionCommand::DiscardNothing("PLANS")),
        Some("SEQUENCES") => Ok(SessionCommand::DiscardNothing("SEQUENCES")),
        Some(_) => Ok(SessionCommand::DiscardNothing("TEMP")),
        None => Err(c.unexpected()),
    }
}

/// LISTEN is taken.
pub(super) fn listen(c: &mut Cursor<'_>) -> Parse<SessionCommand> {
    c.name().map(SessionCommand::Listen)
}

/// UNLISTEN is taken.
pub(super) fn unlisten(c: &mut Cursor<'_>) -> Parse<SessionCommand> {
    if c.accept_operator("*") {
        return Ok(SessionCommand::Unlisten(None));
    }
    c.name().map(Some).map(SessionCommand::Unlisten)
}

/// DEALLOCATE is taken.
pub(super) fn deallocate(c: &mut Cursor<'_>) -> Parse<SessionCommand> {
    c.accept(&["PREPARE"]);
    if c.accept(&["ALL"]) {
        return Ok(SessionCommand::Deallocate(None));
    }
    c.name().map(Some).map(SessionCommand::Deallocate)
}
