//! `CREATE ORG`, `DROP ORG`.

use dataglot_model::command::OnExisting;
use dataglot_model::{At, OrgCommand, OrgName, Sensitive};

use super::drop::behavior;
use super::role::password;
use super::{if_exists, if_not_exists};
use crate::cursor::{Cursor, Parse, named};

/// An org's name: an identifier, never repaired.
pub(super) fn name(c: &mut Cursor<'_>) -> Parse<At<OrgName>> {
    let token = c.peek();
    // `default`, the one org that is always there, is a reserved word elsewhere.
    if c.accept(&["DEFAULT"]) {
        return Ok(At::new(OrgName::default_org(), token.span()));
    }
    let ident = c.ident()?;
    named(OrgName::new(&ident.value), ident.span)
}

/// `[IF NOT EXISTS] name [ADMIN user [PASSWORD …]]`
pub(super) fn create(c: &mut Cursor<'_>) -> Parse<OrgCommand<Sensitive>> {
    let on_existing = if_not_exists(c, OnExisting::Error)?;
    let name = name(c)?;
    let admin = if c.accept(&["ADMIN"]) { Some(c.name()?) } else { None };
    let password = if admin.is_some() && c.accept(&["PASSWORD"]) { Some(password(c)?) } else { None };
    Ok(OrgCommand::Create { name, on_existing, admin, password })
}

/// `[IF EXISTS] name [CASCADE | RESTRICT]`
pub(super) fn drop(c: &mut Cursor<'_>) -> Parse<OrgCommand<Sensitive>> {
    let on_missing = if_exists(c);
    let name = name(c)?;
    Ok(OrgCommand::Drop { name, on_missing, behavior: behavior(c) })
}
