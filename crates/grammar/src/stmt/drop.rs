//! `DROP` and `COMMENT` of any kind.

use dataglot_model::command::{Behavior, Comment, DropObjects};
use dataglot_model::def::{MaskTarget, RowFilterTarget};
use dataglot_model::{At, Command, Kind, ObjectRef, Sensitive, Statement};

use super::{if_exists, mask, org, owned, row_filter, unsupported};
use crate::SyntaxError;
use crate::cursor::{Cursor, Parse};

/// `kind [IF EXISTS] name {"," name} [ON target] [CASCADE | RESTRICT]`; DROP is taken.
pub(super) fn parse(c: &mut Cursor<'_>) -> Parse<Statement<Sensitive>> {
    if c.is("OWNED") {
        return owned::drop(c).map(Command::DropOwned).map(Statement::Change);
    }
    if c.accept(&["ORG"]) {
        return org::drop(c).map(Statement::Org);
    }
    let kind = match c.accept_one(&["CATALOG", "SECRET", "ROLE", "USER", "GROUP", "VIEW", "MASK", "ROW"]) {
        Some("CATALOG") => Kind::Catalog,
        Some("SECRET") => Kind::Secret,
        Some("USER") if c.is("MAPPING") => return Err(unsupported::drop(c)),
        Some("ROLE" | "USER" | "GROUP") => Kind::Role,
        Some("VIEW") => Kind::View,
        Some("MASK") => Kind::Mask,
        Some("ROW") if c.accept(&["FILTER"]) => Kind::RowFilter,
        Some(_) => {
            c.step_back();
            return Err(unsupported::drop(c));
        }
        None => return Err(unsupported::drop(c)),
    };
    let on_missing = if_exists(c);
    let objects = c.list(|c| object(c, kind))?;
    let on = if c.accept(&["ON"]) { Some(policy_target(c, kind)?) } else { None };
    let behavior = behavior(c);
    Ok(Statement::Change(Command::Drop(DropObjects { kind, objects, on, on_missing, behavior })))
}

/// `[CASCADE | RESTRICT]`
pub(super) fn behavior(c: &mut Cursor<'_>) -> Behavior {
    match c.accept_one(&["CASCADE", "RESTRICT"]) {
        Some("CASCADE") => Behavior::Cascade,
        _ => Behavior::Restrict,
    }
}

/// The name of an object of a known kind.
pub(super) fn object(c: &mut Cursor<'_>, kind: Kind) -> Parse<At<ObjectRef>> {
    Ok(match kind {
        Kind::Role => {
            let token = c.peek();
            if c.is("CURRENT_USER") || c.is("CURRENT_ROLE") || c.is("SESSION_USER") {
                return Err(SyntaxError::unsupported(
                    "CURRENT_USER as the name of an object",
                    "Write the role's name.",
                    token.span(),
                ));
            }
            c.name()?.map(ObjectRef::Role)
        }
        Kind::Secret => c.name()?.map(ObjectRef::Secret),
        Kind::Catalog => c.name()?.map(ObjectRef::Catalog),
        Kind::Mask => c.name()?.map(ObjectRef::Mask),
        Kind::RowFilter => c.name()?.map(ObjectRef::RowFilter),
        Kind::Schema => c.schema_ref()?.map(ObjectRef::Schema),
        Kind::Table => c.table_ref()?.map(ObjectRef::Table),
        Kind::View => c.table_ref()?.map(ObjectRef::View),
        Kind::Column => c.column_ref()?.map(ObjectRef::Column),
        Kind::Org => org::name(c)?.map(ObjectRef::Org),
    })
}

fn policy_target(c: &mut Cursor<'_>, kind: Kind) -> Parse<At<ObjectRef>> {
    match kind {
        Kind::Mask => Ok(mask::target(c)?.map(|MaskTarget::Column(column)| ObjectRef::Column(column))),
        Kind::RowFilter => Ok(row_filter::target(c)?.map(|target| match target {
            RowFilterTarget::Table(table) => ObjectRef::Table(table),
            RowFilterTarget::Schema(schema) => ObjectRef::Schema(schema),
            RowFilterTarget::Catalog(catalog) => ObjectRef::Catalog(catalog),
        })),
        Kind::Org
        | Kind::Role
        | Kind::Secret
        | Kind::Catalog
        | Kind::Schema
        | Kind::Table
        | Kind::Column
        | Kind::View => {
            c.step_back();
            Err(c.unexpected())
        }
    }
}

/// A kind, by its key words.
pub(super) fn kind(c: &mut Cursor<'_>) -> Parse<Kind> {
    if c.accept(&["ROW", "FILTER"]) {
        return Ok(Kind::RowFilter);
    }
    if c.is("TAG") {
        return Err(SyntaxError::unsupported("a tag", "Tags come with a later version.", c.peek().span()));
    }
    for kind in
        [Kind::Catalog, Kind::Schema, Kind::Table, Kind::View, Kind::Column, Kind::Secret, Kind::Role, Kind::Mask]
    {
        if c.accept(&[kind.keyword()]) {
            return Ok(kind);
        }
    }
    if c.accept_one(&["USER", "GROUP"]).is_some() {
        return Ok(Kind::Role);
    }
    Err(c.unexpected())
}

/// `[IF EXISTS] ON kind name IS 'text' | NULL`; COMMENT is taken.
pub(super) fn comment(c: &mut Cursor<'_>) -> Parse<Comment> {
    let on_missing = if_exists(c);
    c.expect(&["ON"])?;
    unsupported::comment(c)?;
    let kind = kind(c)?;
    let object = object(c, kind)?;
    c.expect(&["IS"])?;
    let text = c.comment_text()?;
    Ok(Comment { object, on_missing, text })
}
