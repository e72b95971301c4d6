//! `CREATE`, `ALTER VIEW`.

use std::collections::BTreeSet;

use dataglot_model::command::{AlterView, CreateView, OnExisting, ViewAction};
use dataglot_model::def::SecurityMode;
use dataglot_model::{RemoteName, SqlState};

use super::{if_exists, if_not_exists, if_version, no_tags, once};
use crate::SyntaxError;
use crate::cursor::{Cursor, Parse};
use crate::options;
use crate::query::view_query;

/// `[IF NOT EXISTS] name [(columns)] ‡{ COMMENT … | SECURITY … | WITH (…) } AS query`
pub(super) fn create(c: &mut Cursor<'_>, or: OnExisting) -> Parse<CreateView> {
    let on_existing = if_not_exists(c, or)?;
    let name = c.view_ref()?;
    let columns = if c.is_mark(b'(') { Some(columns(c)?) } else { None };
    let (mut comment, mut security, mut entries) = (None, None, None);
    while !c.accept(&["AS"]) {
        let span = c.peek().span();
        no_tags(c)?;
        if c.accept(&["COMMENT"]) {
            let text = c.text()?.value;
            once(&mut comment, text, span)?;
        } else if c.accept(&["SECURITY"]) {
            let mode = security_mode(c)?;
            once(&mut security, mode, span)?;
        } else if c.accept(&["WITH"]) {
            let list = options::entries(c)?;
            options::refuse_credentials(name.table().as_str(), None, &list)?;
            once(&mut entries, list, span)?;
        } else {
            return Err(c.unexpected());
        }
    }
    let query = query(c)?;
    Ok(CreateView { name, on_existing, columns, comment, security, options: entries.unwrap_or_default(), query })
}

fn columns(c: &mut Cursor<'_>) -> Parse<Vec<RemoteName>> {
    c.expect_mark(b'(')?;
    let mut seen = BTreeSet::new();
    let columns = c.list(|c| {
        let column = c.remote_name()?;
        if seen.insert(column.value.clone()) {
            return Ok(column.value);
        }
        let message = format!("column \"{}\" specified more than once", column.value.as_str());
        Err(SyntaxError::invalid(SqlState::DuplicateColumn, message, column.span))
    })?;
    c.expect_mark(b')')?;
    Ok(columns)
}

fn security_mode(c: &mut Cursor<'_>) -> Parse<SecurityMode> {
    match c.accept_one(&["INVOKER", "DEFINER"]) {
        Some("DEFINER") => Ok(SecurityMode::Definer),
        Some(_) => Ok(SecurityMode::Invoker),
        None => Err(c.unexpected()),
    }
}

fn query(c: &mut Cursor<'_>) -> Parse<dataglot_model::At<dataglot_model::command::ViewQuery>> {
    if c.at_end() {
        return Err(c.unexpected());
    }
    no_check_option(c)?;
    let range = c.rest();
    view_query(c.sql, range, c.cx)
}

/// `WITH [LOCAL | CASCADED] CHECK OPTION` at the end belongs to updatable views.
fn no_check_option(c: &mut Cursor<'_>) -> Parse<()> {
    let mark = c.mark();
    let mut found = None;
    while !c.at_end() {
        let check = c.are(&["WITH", "CHECK", "OPTION"])
            || c.are(&["WITH", "LOCAL", "CHECK", "OPTION"])
            || c.are(&["WITH", "CASCADED", "CHECK", "OPTION"]);
        if check {
            found = Some(c.peek().span());
        }
        c.bump();
    }
    c.rewind(mark);
    match found {
        Some(span) => {
            Err(SyntaxError::unsupported("WITH CHECK OPTION", "Views are read only; leave the clause out.", span))
        }
        None => Ok(()),
    }
}

/// `[IF EXISTS] name [IF VERSION n] action`
pub(super) fn alter(c: &mut Cursor<'_>) -> Parse<AlterView> {
    let on_missing = if_exists(c);
    let name = c.view_ref()?;
    let expected = if_version(c)?;
    let action = if c.accept(&["RENAME", "TO"]) {
        let to = c.name()?;
        ViewAction::Rename(to.map(RemoteName::from))
    } else if c.accept(&["SET", "SCHEMA"]) {
        ViewAction::SetSchema(c.schema_ref()?)
    } else if c.accept(&["OWNER", "TO"]) {
        ViewAction::Owner(c.role_spec()?)
    } else if c.accept(&["AS"]) {
        ViewAction::Query(query(c)?)
    } else if c.accept(&["SET", "SECURITY"]) {
        ViewAction::Security(security_mode(c)?)
    } else if c.accept(&["SET"]) {
        let list = options::entries(c)?;
        options::refuse_credentials(name.table().as_str(), None, &list)?;
        ViewAction::Options(list)
    } else {
        return Err(c.unexpected());
    };
    Ok(AlterView { name, on_missing, expected, action })
}
