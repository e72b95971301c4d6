//! `GRANT` and `REVOKE`, of privileges and of membership.
//!
//! PostgreSQL's way to tell the two apart: read the list of words, then `ON` means privileges, `TO` or
//! `FROM` means membership.

use dataglot_model::command::{
    GrantMembership, GrantPrivileges, GranteeSpec, MembershipOption, PrivilegeItem, Privileges, RevokeMembership,
    RevokePrivileges, RoleSpec,
};
use dataglot_model::{
    At, Command, GrantTarget, ObjectRef, PatternKind, PatternScope, Privilege, PrivilegeSet, Sensitive, SqlState,
    TargetClass,
};

use super::drop::behavior;
use crate::SyntaxError;
use crate::cursor::{Cursor, Parse};
use crate::lexer::TokenKind;

pub(super) fn grant(c: &mut Cursor<'_>) -> Parse<Command<Sensitive>> {
    if !on_comes_first(c) {
        return membership(c).map(Command::GrantMembership);
    }
    let privileges = privileges(c)?;
    c.expect(&["ON"])?;
    let targets = targets(c)?;
    check(&privileges, &targets)?;
    c.expect(&["TO"])?;
    let grantees = c.grantee_list()?;
    let mut grant_option = false;
    while c.is("WITH") {
        let at = c.peek();
        if c.accept(&["WITH", "REPLACE", "OPTION"]) {
            return Err(SyntaxError::unsupported("WITH REPLACE OPTION", "REVOKE what is not wanted first.", at.span()));
        }
        c.expect(&["WITH", "GRANT", "OPTION"])?;
        if grant_option {
            return Err(SyntaxError::Redundant { span: at.span() });
        }
        grant_option = true;
    }
    if grant_option && let Some(public) = grantees.iter().find(|g| g.value == GranteeSpec::Public) {
        let message = "grant options can only be granted to roles";
        return Err(SyntaxError::invalid(SqlState::InvalidGrantOperation, message, public.span));
    }
    let granted_by = granted_by(c)?;
    Ok(Command::GrantPrivileges(GrantPrivileges { privileges, targets, grantees, grant_option, granted_by }))
}

pub(super) fn revoke(c: &mut Cursor<'_>) -> Parse<Command<Sensitive>> {
    if !on_comes_first(c) {
        return revoke_membership(c).map(Command::RevokeMembership);
    }
    let grant_option_only = c.accept(&["GRANT", "OPTION", "FOR"]);
    let privileges = privileges(c)?;
    c.expect(&["ON"])?;
    let targets = targets(c)?;
    check(&privileges, &targets)?;
    c.expect(&["FROM"])?;
    let grantees = c.grantee_list()?;
    let granted_by = granted_by(c)?;
    let behavior = behavior(c);
    Ok(Command::RevokePrivileges(RevokePrivileges {
        grant_option_only,
        privileges,
        targets,
        grantees,
        granted_by,
        behavior,
    }))
}

/// Whether ON comes before TO and FROM, outside parentheses. A text with none of them is read as a
/// grant of privileges, whose error says that ON is missing.
fn on_comes_first(c: &Cursor<'_>) -> bool {
    let mut depth = 0usize;
    for n in 0.. {
        let token = c.peek_nth(n);
        match token.kind {
            TokenKind::Punctuation(b'(') => depth += 1,
            TokenKind::Punctuation(b')') => depth = depth.saturating_sub(1),
            TokenKind::Word if depth == 0 && c.nth_is(n, "ON") => return true,
            TokenKind::Word if depth == 0 && (c.nth_is(n, "TO") || c.nth_is(n, "FROM")) => return false,
            TokenKind::End => return true,
            _ => {}
        }
    }
    true
}

fn granted_by(c: &mut Cursor<'_>) -> Parse<Option<At<RoleSpec>>> {
    if c.accept(&["GRANTED", "BY"]) { c.role_spec().map(Some) } else { Ok(None) }
}

fn privileges(c: &mut Cursor<'_>) -> Parse<Privileges> {
    if c.accept(&["ALL"]) {
        c.accept(&["PRIVILEGES"]);
        return Ok(Privileges::All);
    }
    c.list(privilege).map(Privileges::List)
}

/// Words up to a comma, a parenthesis or ON.
fn privilege(c: &mut Cursor<'_>) -> Parse<At<PrivilegeItem>> {
    let start = c.peek();
    let mut words = String::new();
    while c.peek().kind == TokenKind::Word && !c.is("ON") && words.len() < 64 {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(&c.bump().text(c.sql).to_ascii_uppercase());
    }
    if words.is_empty() {
        return Err(c.unexpected());
    }
    let span = c.since(start.start);
    let Some(privilege) = Privilege::from_keyword(&words) else {
        let message = format!("unrecognized privilege type \"{}\"", words.to_lowercase());
        return Err(SyntaxError::invalid(SqlState::SyntaxError, message, span));
    };
    let mut columns = Vec::new();
    if c.is_mark(b'(') {
        if privilege != Privilege::Select {
            let message = format!("a column list goes with SELECT only, not with {}", privilege.keyword());
            return Err(SyntaxError::invalid(SqlState::InvalidGrantOperation, message, c.peek().span()));
        }
        c.expect_mark(b'(')?;
        columns = c.list(Cursor::remote_name)?.into_iter().map(|column| column.value).collect();
        c.expect_mark(b')')?;
    }
    Ok(At::new(PrivilegeItem { privilege, columns }, span))
}

/// What stands after ON: always at least one.
pub(super) fn targets(c: &mut Cursor<'_>) -> Parse<Vec<At<GrantTarget>>> {
    let start = c.peek();
    let at = |c: &Cursor<'_>, target| vec![At::new(target, c.since(start.start))];
    // A table may be called `system` or `future`.
    if c.is("SYSTEM") && c.peek_nth(1).kind != TokenKind::Punctuation(b'.') {
        c.bump();
        return Ok(at(c, GrantTarget::System));
    }
    let pattern_follows = ["TABLES", "VIEWS", "SCHEMAS"].iter().any(|w| c.nth_is(1, w));
    let words: &[&str] = if pattern_follows { &["ALL", "FUTURE"] } else { &["ALL"] };
    if let Some(word) = c.accept_one(words) {
        let future = word == "FUTURE";
        if !future && c.accept(&["CATALOGS"]) {
            return Ok(at(c, GrantTarget::AllCatalogs));
        }
        if !future && c.accept(&["SECRETS"]) {
            return Ok(at(c, GrantTarget::AllSecrets));
        }
        let of = match c.accept_one(&["TABLES", "VIEWS", "SCHEMAS"]) {
            Some("TABLES") => PatternKind::Tables,
            Some("VIEWS") => PatternKind::Views,
            Some(_) => PatternKind::Schemas,
            None => return Err(c.unexpected()),
        };
        c.expect(&["IN"])?;
        let pattern = |within| GrantTarget::Pattern { of, within, future };
        if of != PatternKind::Schemas && c.accept(&["SCHEMA"]) {
            return c.list(|c| Ok(c.schema_ref()?.map(|schema| pattern(PatternScope::Schema(schema)))));
        }
        c.expect(&["CATALOG"])?;
        return c.list(|c| Ok(c.name()?.map(|catalog| pattern(PatternScope::Catalog(catalog)))));
    }
    let name_follows = matches!(c.peek_nth(1).kind, TokenKind::Word | TokenKind::QuotedIdent | TokenKind::UnicodeIdent)
        && !c.nth_is(1, "TO")
        && !c.nth_is(1, "FROM");
    if name_follows {
        if c.accept(&["ROW", "FILTER"]) {
            return c.list(|c| Ok(c.name()?.map(|n| GrantTarget::Object(ObjectRef::RowFilter(n)))));
        }
        if c.is("TAG") {
            return Err(SyntaxError::unsupported("a grant on a tag", "Tags come with a later version.", start.span()));
        }
        if ["DATABASE", "SEQUENCE", "FUNCTION", "LANGUAGE", "TYPE", "DOMAIN", "PARAMETER", "LARGE", "FOREIGN"]
            .iter()
            .any(|w| c.is(w))
        {
            return Err(SyntaxError::unsupported(
                "a grant on this kind of object",
                "Grants are on SYSTEM, CATALOG, SCHEMA, TABLE, VIEW, SECRET, MASK and ROW FILTER.",
                start.span(),
            ));
        }
        match c.accept_one(&["CATALOG", "SCHEMA", "SECRET", "MASK", "VIEW", "TABLE"]) {
            Some("CATALOG") => return c.list(|c| Ok(c.name()?.map(|n| GrantTarget::Object(ObjectRef::Catalog(n))))),
            Some("SCHEMA") => {
                return c.list(|c| Ok(c.schema_ref()?.map(|n| GrantTarget::Object(ObjectRef::Schema(n)))));
            }
            Some("SECRET") => return c.list(|c| Ok(c.name()?.map(|n| GrantTarget::Object(ObjectRef::Secret(n))))),
            Some("MASK") => return c.list(|c| Ok(c.name()?.map(|n| GrantTarget::Object(ObjectRef::Mask(n))))),
            Some("VIEW") => return c.list(|c| Ok(c.table_ref()?.map(|n| GrantTarget::Object(ObjectRef::View(n))))),
            _ => {}
        }
    }
    c.list(|c| Ok(c.table_ref()?.map(|n| GrantTarget::Object(ObjectRef::Table(n)))))
}

/// Each privilege has to fit each target.
fn check(privileges: &Privileges, targets: &[At<GrantTarget>]) -> Parse<()> {
    let Privileges::List(list) = privileges else { return Ok(()) };
    let has_columns = |target: &At<GrantTarget>| {
        matches!(target.value, GrantTarget::Object(ObjectRef::Table(_) | ObjectRef::View(_)))
    };
    if let Some(item) = list.iter().find(|item| !item.columns.is_empty())
        && targets.iter().any(|t| !has_columns(t) && t.class().is_some_and(|c| c.all().contains(item.privilege)))
    {
        let message = "column privileges are only valid for a table or view that is named";
        return Err(SyntaxError::invalid(SqlState::InvalidGrantOperation, message, item.span));
    }
    for class in targets.iter().filter_map(|target| target.class()) {
        for item in list {
            if !class.all().contains(item.privilege) {
                return Err(mismatch(item, class));
            }
        }
    }
    Ok(())
}

fn mismatch(item: &At<PrivilegeItem>, class: TargetClass) -> SyntaxError {
    let message = format!("invalid privilege type {} for {}", item.privilege.keyword(), class.noun());
    let all: Vec<&str> = PrivilegeSet::iter(class.all()).map(Privilege::keyword).collect();
    SyntaxError::invalid(SqlState::InvalidGrantOperation, message, item.span).with_hint(format!(
        "The privileges on a {} are: {}.",
        class.noun(),
        all.join(", ")
    ))
}

/// `[ROLE] roles TO roles [WITH …] [GRANTED BY role]`
fn membership(c: &mut Cursor<'_>) -> Parse<GrantMembership> {
    c.skip_role_word();
    let roles = c.role_list()?;
    c.expect(&["TO"])?;
    let members = members(c)?;
    let (mut admin, mut inherit, mut set) = (None, None, None);
    if c.accept(&["WITH"]) {
        c.list(|c| {
            let span = c.peek().span();
            let word = c.accept_one(&["ADMIN", "INHERIT", "SET"]).ok_or_else(|| c.unexpected())?;
            let value = match c.accept_one(&["OPTION", "TRUE", "FALSE"]) {
                Some(value) => value != "FALSE",
                None => return Err(c.unexpected()),
            };
            let slot = match word {
                "ADMIN" => &mut admin,
                "INHERIT" => &mut inherit,
                _ => &mut set,
            };
            super::once(slot, value, span)
        })?;
    }
    let granted_by = granted_by(c)?;
    Ok(GrantMembership { roles, members, admin, inherit, set, granted_by })
}

fn members(c: &mut Cursor<'_>) -> Parse<Vec<At<RoleSpec>>> {
    c.list(|c| {
        c.skip_role_word();
        c.role_spec()
    })
}

/// `[ADMIN | INHERIT | SET OPTION FOR] [ROLE] roles FROM roles [GRANTED BY role] [CASCADE | RESTRICT]`
fn revoke_membership(c: &mut Cursor<'_>) -> Parse<RevokeMembership> {
    let mut option_only = None;
    for (word, option) in
        [("ADMIN", MembershipOption::Admin), ("INHERIT", MembershipOption::Inherit), ("SET", MembershipOption::Set)]
    {
        if c.accept(&[word, "OPTION", "FOR"]) {
            option_only = Some(option);
        }
    }
    c.skip_role_word();
    let roles = c.role_list()?;
    c.expect(&["FROM"])?;
    let members = members(c)?;
    let granted_by = granted_by(c)?;
    let behavior = behavior(c);
    Ok(RevokeMembership { option_only, roles, members, granted_by, behavior })
}
