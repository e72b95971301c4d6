//! What masks and row filters have in common: whom they apply to.

use dataglot_model::command::{AudienceChange, GranteeSpec, RoleSpec};
use dataglot_model::{At, Audience, Others, Span, SqlState};

use super::once;
use crate::SyntaxError;
use crate::cursor::{Cursor, Parse};

/// The clauses that name principals, as far as they were read.
#[derive(Default)]
pub(super) struct Principals {
    pub(super) to: Option<Vec<At<GranteeSpec>>>,
    pub(super) except: Option<Vec<At<RoleSpec>>>,
}

impl Principals {
    /// `TO …`, `EXCEPT …`; false: neither comes next.
    pub(super) fn take(&mut self, c: &mut Cursor<'_>, span: Span) -> Parse<bool> {
        if c.accept(&["TO"]) {
            let list = if none(c) { Vec::new() } else { c.grantee_list()? };
            once(&mut self.to, list, span)?;
        } else if c.accept(&["EXCEPT"]) {
            let list = c.list(except_item)?;
            once(&mut self.except, list, span)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    pub(super) fn finish(self) -> Audience<At<GranteeSpec>, At<RoleSpec>> {
        Audience { to: self.to, except: self.except.unwrap_or_default() }
    }
}

/// `NONE` instead of a list: nobody is left of it. No role can be called so.
fn none(c: &mut Cursor<'_>) -> bool {
    c.accept(&["NONE"])
}

/// PUBLIC cannot be excepted: the policy would apply to nobody.
fn except_item(c: &mut Cursor<'_>) -> Parse<At<RoleSpec>> {
    if c.is("PUBLIC") {
        return Err(SyntaxError::invalid(SqlState::SyntaxError, "EXCEPT cannot name PUBLIC", c.peek().span())
            .with_hint("A policy that applies to nobody is one to DISABLE or DROP."));
    }
    c.skip_role_word();
    c.role_spec()
}

/// `ELSE ALL ROWS | ELSE NO ROWS`, if it comes next.
pub(super) fn others(c: &mut Cursor<'_>) -> Parse<Option<Others>> {
    if !c.accept(&["ELSE"]) {
        return Ok(None);
    }
    let others = match c.accept_one(&["ALL", "NO"]) {
        Some("ALL") => Others::AllRows,
        Some(_) => Others::NoRows,
        None => return Err(c.unexpected()),
    };
    c.expect(&["ROWS"])?;
    Ok(Some(others))
}

/// `SET TO`, `ADD TO`, `DROP TO`, `SET EXCEPT`; `verb` is taken. A list goes on for as long as what
/// follows a comma is no other action.
pub(super) fn audience_change(c: &mut Cursor<'_>, verb: &str) -> Parse<Option<AudienceChange>> {
    Ok(Some(match verb {
        "SET" if c.accept(&["TO"]) => {
            let list = action_list(c, |c| c.grantee())?;
            AudienceChange::SetTo(list, others(c)?)
        }
        "ADD" if c.accept(&["TO"]) => AudienceChange::AddTo(action_list(c, |c| c.grantee())?),
        "DROP" if c.accept(&["TO"]) => AudienceChange::DropTo(action_list(c, |c| c.grantee())?),
        "SET" if c.accept(&["EXCEPT"]) => AudienceChange::SetExcept(action_list(c, except_item)?),
        _ => return Ok(None),
    }))
}

/// A list inside a list of actions: `SET TO a, b, ENABLE`.
fn action_list<T>(c: &mut Cursor<'_>, mut item: impl FnMut(&mut Cursor<'_>) -> Parse<T>) -> Parse<Vec<T>> {
    if none(c) {
        return Ok(Vec::new());
    }
    let mut items = vec![item(c)?];
    while c.is_mark(b',') && !action_follows(c) {
        c.bump();
        items.push(item(c)?);
    }
    Ok(items)
}

/// Whether an action follows the comma. A role called like one has to be quoted here.
fn action_follows(c: &Cursor<'_>) -> bool {
    let two = |first: &str, second: &[&str]| c.nth_is(1, first) && second.iter().any(|w| c.nth_is(2, w));
    let ends = |n: usize| {
        matches!(c.peek_nth(n).kind, crate::lexer::TokenKind::End | crate::lexer::TokenKind::Punctuation(b','))
    };
    two("RENAME", &["TO"])
        || two("OWNER", &["TO"])
        || two("ADD", &["TO"])
        || two("DROP", &["TO", "WHEN"])
        || two("SET", &["TO", "EXCEPT", "WHEN", "USING", "PRIORITY", "COMMENT", "AS", "WITH"])
        || ((c.nth_is(1, "ENABLE") || c.nth_is(1, "DISABLE")) && ends(2))
}
