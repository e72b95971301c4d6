//! GRANT and REVOKE, of privileges and of membership.

use dataglot_model::command::{
    GrantMembership, GrantPrivileges, MembershipOption, PrivilegeItem, Privileges, RevokeMembership, RevokePrivileges,
};
use dataglot_model::{At, GrantTarget, PatternScope};

use super::sql::{Sql, boolean};

pub(super) fn print_grant_privileges(sql: &mut Sql, grant: &GrantPrivileges) {
    let GrantPrivileges { privileges, targets, grantees, grant_option, granted_by } = grant;
    sql.word("GRANT");
    print_privileges(sql, privileges);
    print_targets(sql, targets);
    sql.word("TO").grantees(grantees).word_if(*grant_option, "WITH GRANT OPTION").granted_by(granted_by.as_ref());
}

pub(super) fn print_revoke_privileges(sql: &mut Sql, revoke: &RevokePrivileges) {
    let RevokePrivileges { grant_option_only, privileges, targets, grantees, granted_by, behavior } = revoke;
    sql.word("REVOKE").word_if(*grant_option_only, "GRANT OPTION FOR");
    print_privileges(sql, privileges);
    print_targets(sql, targets);
    sql.word("FROM").grantees(grantees).granted_by(granted_by.as_ref()).behavior(*behavior);
}

pub(super) fn print_grant_membership(sql: &mut Sql, grant: &GrantMembership) {
    let GrantMembership { roles, members, admin, inherit, set, granted_by } = grant;
    sql.word("GRANT").roles(roles).word("TO").roles(members);
    let options = [("ADMIN", admin), ("INHERIT", inherit), ("SET", set)];
    let named: Vec<_> = options.into_iter().filter_map(|(word, value)| value.map(|value| (word, value))).collect();
    if !named.is_empty() {
        sql.word("WITH").list(named, |sql, (word, value)| {
            sql.word(word).word(boolean(value));
        });
    }
    sql.granted_by(granted_by.as_ref());
}

pub(super) fn print_revoke_membership(sql: &mut Sql, revoke: &RevokeMembership) {
    let RevokeMembership { option_only, roles, members, granted_by, behavior } = revoke;
    sql.word("REVOKE");
    if let Some(option) = option_only {
        sql.word(match option {
            MembershipOption::Admin => "ADMIN OPTION FOR",
            MembershipOption::Inherit => "INHERIT OPTION FOR",
            MembershipOption::Set => "SET OPTION FOR",
        });
    }
    sql.roles(roles).word("FROM").roles(members).granted_by(granted_by.as_ref()).behavior(*behavior);
}

fn print_privileges(sql: &mut Sql, privileges: &Privileges) {
    match privileges {
        Privileges::All => {
            sql.word("ALL");
        }
        Privileges::List(items) => {
            sql.list(items, |sql, item| {
                let PrivilegeItem { privilege, columns } = &item.value;
                sql.word(privilege.keyword());
                if !columns.is_empty() {
                    sql.word("(").list(columns, |sql, column| {
                        sql.word(column);
                    });
                    sql.raw(")");
                }
            });
        }
    }
}

/// `ON TABLE a, b`: what kind they are is said once, before the first.
fn print_targets(sql: &mut Sql, targets: &[At<GrantTarget>]) {
    sql.word("ON");
    let mut said = None;
    sql.list(targets, |sql, target| {
        let (kind, name) = target_parts(&target.value);
        if said.as_ref() != Some(&kind) {
            sql.word(&kind);
        }
        if let Some(name) = name {
            sql.word(name);
        }
        said = Some(kind);
    });
}

/// What kind of target it is, and which of that kind.
fn target_parts(target: &GrantTarget) -> (String, Option<String>) {
    match target {
        GrantTarget::System | GrantTarget::AllCatalogs | GrantTarget::AllSecrets => (target.to_string(), None),
        GrantTarget::Object(object) => (object.kind().keyword().to_owned(), Some(object.sql_name())),
        GrantTarget::Pattern { of, within, future } => {
            let scope = if *future { "FUTURE" } else { "ALL" };
            let (place, name) = match within {
                PatternScope::Schema(schema) => ("SCHEMA", schema.to_string()),
                PatternScope::Catalog(catalog) => ("CATALOG", catalog.to_string()),
            };
            (format!("{scope} {} IN {place}", of.keyword()), Some(name))
        }
    }
}
