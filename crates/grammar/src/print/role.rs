//! Statements on roles and users. A password never comes out.

use dataglot_model::At;
use dataglot_model::command::{
    AlterRole, AlterRoleAction, CreateRole, CreateRoleForm, PasswordChange, RoleAttribute, RoleAttributes,
    RoleSelector, RoleSpec,
};

use super::session::setting;
use super::sql::Sql;

pub(super) fn print_create_role<V>(sql: &mut Sql, create: &CreateRole<V>) {
    let CreateRole { form, name, on_existing, attributes, in_roles, members, admins, comment } = create;
    let implied_login = match form {
        CreateRoleForm::Role => {
            sql.create(*on_existing, "ROLE");
            None
        }
        CreateRoleForm::User => {
            sql.create(*on_existing, "USER");
            Some(true)
        }
    };
    sql.word(&name.value);
    print_attributes(sql, attributes, implied_login);
    print_roles(sql, "IN ROLE", in_roles);
    print_roles(sql, "ROLE", members);
    print_roles(sql, "ADMIN", admins);
    sql.comment(comment.as_deref());
}

pub(super) fn print_alter_role<V>(sql: &mut Sql, alter: &AlterRole<V>) {
    let AlterRole { role, on_missing, expected, action } = alter;
    sql.word("ALTER ROLE").if_exists(*on_missing);
    match role {
        RoleSelector::One(role) => sql.role(&role.value),
        RoleSelector::All => sql.word("ALL"),
    };
    sql.if_version(expected);
    match action {
        AlterRoleAction::Attributes { attributes, comment } => {
            print_attributes(sql, attributes, None);
            sql.comment(comment.as_deref())
        }
        AlterRoleAction::Rename { to, resealed: _ } => sql.word("RENAME TO").word(&to.value),
        AlterRoleAction::Set { name, value } => sql.word("SET").word(setting(&name.value)).word("TO").string(value),
        AlterRoleAction::Reset(name) => sql.word("RESET").word(setting(&name.value)),
        AlterRoleAction::ResetAll => sql.word("RESET ALL"),
    };
}

/// The attributes that are named; `implied_login` is what the statement's first words say already.
fn print_attributes<V>(sql: &mut Sql, attributes: &RoleAttributes<V>, implied_login: Option<bool>) {
    let RoleAttributes {
        superuser,
        createrole,
        login,
        inherit,
        bypassrls,
        connection_limit,
        password,
        valid_until,
        ignored,
    } = attributes;
    print_flag(sql, superuser.as_ref(), "SUPERUSER", "NOSUPERUSER");
    print_flag(sql, createrole.as_ref(), "CREATEROLE", "NOCREATEROLE");
    if login.as_ref().map(|at| at.value) != implied_login {
        print_flag(sql, login.as_ref(), "LOGIN", "NOLOGIN");
    }
    print_flag(sql, inherit.as_ref(), "INHERIT", "NOINHERIT");
    print_flag(sql, bypassrls.as_ref(), "BYPASSRLS", "NOBYPASSRLS");
    for attribute in ignored {
        sql.word(match attribute {
            RoleAttribute::CreateDb(true) => "CREATEDB",
            RoleAttribute::CreateDb(false) => "NOCREATEDB",
            RoleAttribute::Replication(true) => "REPLICATION",
            RoleAttribute::Replication(false) => "NOREPLICATION",
        });
    }
    if let Some(limit) = connection_limit {
        sql.word("CONNECTION LIMIT").word(limit.value);
    }
    if let Some(password) = password {
        print_password(sql, &password.value);
    }
    if let Some(until) = valid_until {
        sql.word("VALID UNTIL").string(&until.value.to_string());
    }
}

fn print_flag(sql: &mut Sql, flag: Option<&At<bool>>, yes: &str, no: &str) {
    if let Some(flag) = flag {
        sql.word(if flag.value { yes } else { no });
    }
}

/// `PASSWORD …`. `REDACTED` is a placeholder, which the parser refuses: a password is not in the text.
pub(super) fn print_password<V>(sql: &mut Sql, password: &PasswordChange<V>) {
    match password {
        PasswordChange::Set(_) => sql.word("PASSWORD REDACTED"),
        PasswordChange::Remove => sql.word("PASSWORD NULL"),
    };
}

fn print_roles(sql: &mut Sql, clause: &str, roles: &[At<RoleSpec>]) {
    if !roles.is_empty() {
        sql.word(clause).roles(roles);
    }
}
