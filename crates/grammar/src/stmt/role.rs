//! `CREATE`, `ALTER ROLE | USER | GROUP`.

use dataglot_model::command::{
    AlterRole, AlterRoleAction, CreateRole, CreateRoleForm, OnExisting, PasswordChange, RoleAttribute, RoleAttributes,
    RoleSelector,
};
use dataglot_model::{At, Notice, Sensitive, Span, SqlState};

use super::{if_exists, if_not_exists, if_version, once, session};
use crate::SyntaxError;
use crate::cursor::{Cursor, Given, Parse};

/// `[IF NOT EXISTS] name [WITH] { option }`
pub(super) fn create(c: &mut Cursor<'_>, or: OnExisting, user: bool, at: Span) -> Parse<CreateRole<Sensitive>> {
    match or {
        OnExisting::Replace => {
            return Err(SyntaxError::unsupported(
                "CREATE OR REPLACE ROLE",
                "It would drop the role's grants. Use CREATE OR ALTER ROLE.",
                at,
            ));
        }
        OnExisting::Error | OnExisting::Skip | OnExisting::Alter => {}
    }
    let on_existing = if_not_exists(c, or)?;
    let name = c.name()?;
    c.accept(&["WITH"]);
    let mut clauses = Clauses::default();
    while !c.at_end() {
        clauses.take(c, true)?;
    }
    let Clauses { mut attributes, in_roles, members, admins, comment, .. } = clauses;
    if user && attributes.login.is_none() {
        attributes.login = Some(At::new(true, at));
    }
    let form = if user { CreateRoleForm::User } else { CreateRoleForm::Role };
    Ok(CreateRole {
        form,
        name,
        on_existing,
        attributes,
        in_roles: in_roles.unwrap_or_default(),
        members,
        admins: admins.unwrap_or_default(),
        comment,
    })
}

type Roles = Vec<At<dataglot_model::command::RoleSpec>>;

/// The options of a role, as far as they were read.
#[derive(Default)]
struct Clauses {
    attributes: RoleAttributes<Sensitive>,
    in_roles: Option<Roles>,
    members: Roles,
    by_role: Option<()>,
    by_user: Option<()>,
    admins: Option<Roles>,
    comment: Option<String>,
    createdb: bool,
    replication: bool,
}

impl Clauses {
    /// Takes one option. Memberships go with CREATE only.
    fn take(&mut self, c: &mut Cursor<'_>, creating: bool) -> Parse<()> {
        let span = c.peek().span();
        let attributes = &mut self.attributes;
        for (yes, no, slot) in [
            ("SUPERUSER", "NOSUPERUSER", &mut attributes.superuser),
            ("CREATEROLE", "NOCREATEROLE", &mut attributes.createrole),
            ("LOGIN", "NOLOGIN", &mut attributes.login),
            ("INHERIT", "NOINHERIT", &mut attributes.inherit),
            ("BYPASSRLS", "NOBYPASSRLS", &mut attributes.bypassrls),
        ] {
            if let Some(word) = c.accept_one(&[yes, no]) {
                return once(slot, At::new(word == yes, span), span);
            }
        }
        if let Some(word) = c.accept_one(&["CREATEDB", "NOCREATEDB", "REPLICATION", "NOREPLICATION"]) {
            return self.ignore(c, word, span);
        }
        if c.accept(&["CONNECTION", "LIMIT"]) {
            let limit = c.integer::<i32>()?;
            return once(&mut self.attributes.connection_limit, limit, span);
        }
        if c.is("PASSWORD") || c.are(&["ENCRYPTED", "PASSWORD"]) {
            c.accept(&["ENCRYPTED"]);
            c.expect(&["PASSWORD"])?;
            let change = password(c)?;
            return once(&mut self.attributes.password, change, span);
        }
        if c.are(&["UNENCRYPTED", "PASSWORD"]) {
            return Err(SyntaxError::unsupported(
                "UNENCRYPTED PASSWORD",
                "Leave UNENCRYPTED out; a verifier is stored.",
                span,
            ));
        }
        if c.accept(&["VALID", "UNTIL"]) {
            let at = c.timestamp()?;
            return once(&mut self.attributes.valid_until, at, span);
        }
        if c.accept(&["COMMENT"]) {
            let text = c.text()?.value;
            return once(&mut self.comment, text, span);
        }
        if creating && c.is("IN") && (c.nth_is(1, "ROLE") || c.nth_is(1, "GROUP")) {
            c.bump();
            c.bump();
            let roles = c.role_list()?;
            return once(&mut self.in_roles, roles, span);
        }
        if creating && let Some(word) = c.accept_one(&["ROLE", "USER"]) {
            // Two words for the same list, each of them once.
            let seen = if word == "ROLE" { &mut self.by_role } else { &mut self.by_user };
            once(seen, (), span)?;
            let roles = c.role_list()?;
            self.members.extend(roles);
            return Ok(());
        }
        if creating && c.accept(&["ADMIN"]) {
            let roles = c.role_list()?;
            return once(&mut self.admins, roles, span);
        }
        if !creating && (c.is("IN") || c.is("ROLE") || c.is("USER") || c.is("ADMIN")) {
            return Err(SyntaxError::unsupported(
                "a change of memberships by ALTER ROLE",
                "Use GRANT role TO role and REVOKE role FROM role.",
                span,
            ));
        }
        if c.are(&["DEFAULT", "ROLE"]) {
            return Err(SyntaxError::unsupported("DEFAULT ROLE", "GRANT the role to the user.", span));
        }
        Err(c.unexpected())
    }

    fn ignore(&mut self, c: &mut Cursor<'_>, word: &'static str, span: Span) -> Parse<()> {
        let replication = word.ends_with("REPLICATION");
        let seen = if replication { &mut self.replication } else { &mut self.createdb };
        if std::mem::replace(seen, true) {
            return Err(SyntaxError::Redundant { span });
        }
        let on = !word.starts_with("NO");
        self.attributes.ignored.push(if replication {
            RoleAttribute::Replication(on)
        } else {
            RoleAttribute::CreateDb(on)
        });
        c.notices.push(Notice::warning(format!("role attribute {word} is ignored")));
        Ok(())
    }
}

/// `'text' | $n | NULL`
pub(super) fn password(c: &mut Cursor<'_>) -> Parse<At<PasswordChange<Sensitive>>> {
    let span = c.peek().span();
    if c.accept(&["NULL"]) {
        return Ok(At::new(PasswordChange::Remove, span));
    }
    if c.is("SECRET") {
        return Err(SyntaxError::unsupported(
            "PASSWORD SECRET",
            "Give the password itself; only a verifier is stored.",
            span,
        ));
    }
    if c.is("REDACTED") {
        return Err(SyntaxError::invalid(
            SqlState::InvalidParameterValue,
            "REDACTED stands for a password and is none",
            span,
        )
        .with_hint("Write the password as a string, or leave the clause out."));
    }
    c.expect_credential()?;
    Ok(c.given()?.map(|given| match given {
        Given::Text(text) => PasswordChange::Set(Sensitive::new(text)),
        Given::Later => PasswordChange::Set(Sensitive::new(String::new())),
        Given::Null => PasswordChange::Remove,
    }))
}

/// `[IF EXISTS] role | ALL [IF VERSION n] …`
pub(super) fn alter(c: &mut Cursor<'_>) -> Parse<AlterRole<Sensitive>> {
    let on_missing = if_exists(c);
    let role = if c.accept(&["ALL"]) { RoleSelector::All } else { RoleSelector::One(c.role_spec()?) };
    let expected = if_version(c)?;
    let action = if c.accept(&["RENAME", "TO"]) {
        AlterRoleAction::Rename { to: c.name()?, resealed: None }
    } else if c.are(&["IN", "DATABASE"]) {
        return Err(SyntaxError::unsupported(
            "IN DATABASE",
            "A role belongs to one org; leave the clause out.",
            c.peek().span(),
        ));
    } else if c.accept(&["SET"]) {
        let name = session::setting_name(c)?;
        if c.are(&["FROM", "CURRENT"]) {
            return Err(SyntaxError::unsupported("SET ... FROM CURRENT", "Write the value.", c.peek().span()));
        }
        if !c.accept_operator("=") {
            c.expect(&["TO"])?;
        }
        if c.accept(&["DEFAULT"]) {
            AlterRoleAction::Reset(name)
        } else {
            AlterRoleAction::Set { name, value: session::setting_value(c)? }
        }
    } else if c.accept(&["RESET"]) {
        if c.accept(&["ALL"]) { AlterRoleAction::ResetAll } else { AlterRoleAction::Reset(session::setting_name(c)?) }
    } else {
        c.accept(&["WITH"]);
        let mut clauses = Clauses::default();
        clauses.take(c, false)?;
        while !c.at_end() {
            clauses.take(c, false)?;
        }
        AlterRoleAction::Attributes { attributes: clauses.attributes, comment: clauses.comment }
    };
    if role == RoleSelector::All
        && matches!(action, AlterRoleAction::Attributes { .. } | AlterRoleAction::Rename { .. })
    {
        return Err(c.unexpected());
    }
    Ok(AlterRole { role, on_missing, expected, action })
}
