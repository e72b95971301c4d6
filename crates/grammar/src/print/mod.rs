//! Typed statements back to SQL: one canonical text a statement, which parses to the same statement.
//!
//! Key words are upper case, clauses stand in one fixed order, options are sorted by key, strings come
//! from one quoter, and what is a default is left out. What is printed ends up in SHOW CREATE, in
//! dumps and in the history, so no credential may come out: the printer works for every form `V` of a
//! credential, and therefore cannot read one. A secret's value prints as `REDACTED`, a password as
//! `PASSWORD REDACTED`.
//!
//! Structs are taken apart in full and enums without a wildcard: what is not printed is not forgotten,
//! it is left out by name.

mod catalog;
mod drop;
mod grant;
mod policy;
mod read;
mod role;
mod secret;
mod select;
mod session;
mod sql;
#[cfg(test)]
mod tests;
mod view;

use dataglot_model::{Command, OrgCommand, Statement};

use self::sql::Sql;

/// The canonical SQL of `command`, without a semicolon.
pub fn print<V>(command: &Command<V>) -> String {
    let mut sql = Sql::default();
    print_command(&mut sql, command);
    sql.finish()
}

/// The canonical SQL of `statement`, without a semicolon.
pub fn print_statement<V>(statement: &Statement<V>) -> String {
    let mut sql = Sql::default();
    match statement {
        Statement::Change(command) => print_command(&mut sql, command),
        Statement::Org(command) => print_org(&mut sql, command),
        Statement::Read(read) => read::print_read(&mut sql, read),
        Statement::Transaction(command) => session::print_transaction(&mut sql, command),
        Statement::Session(command) => session::print_session(&mut sql, command),
        Statement::Select(query) => select::print_select(&mut sql, query),
        Statement::Rewrap => {
            sql.word("REWRAP SECRETS");
        }
    }
    sql.finish()
}

fn print_command<V>(sql: &mut Sql, command: &Command<V>) {
    match command {
        Command::CreateCatalog(c) => catalog::print_create_catalog(sql, c),
        Command::AlterCatalog(c) => catalog::print_alter_catalog(sql, c),
        Command::CreateSecret(c) => secret::print_create_secret(sql, c),
        Command::AlterSecret(c) => secret::print_alter_secret(sql, c),
        Command::CreateRole(c) => role::print_create_role(sql, c),
        Command::AlterRole(c) => role::print_alter_role(sql, c),
        Command::CreateMask(c) => policy::print_create_mask(sql, c),
        Command::AlterMask(c) => policy::print_alter_mask(sql, c),
        Command::CreateRowFilter(c) => policy::print_create_row_filter(sql, c),
        Command::AlterRowFilter(c) => policy::print_alter_row_filter(sql, c),
        Command::CreateView(c) => view::print_create_view(sql, c),
        Command::AlterView(c) => view::print_alter_view(sql, c),
        Command::Drop(c) => drop::print_drop(sql, c),
        Command::GrantPrivileges(c) => grant::print_grant_privileges(sql, c),
        Command::RevokePrivileges(c) => grant::print_revoke_privileges(sql, c),
        Command::GrantMembership(c) => grant::print_grant_membership(sql, c),
        Command::RevokeMembership(c) => grant::print_revoke_membership(sql, c),
        Command::Comment(c) => drop::print_comment(sql, c),
        Command::ReassignOwned(c) => drop::print_reassign_owned(sql, c),
        Command::DropOwned(c) => drop::print_drop_owned(sql, c),
    }
}

fn print_org<V>(sql: &mut Sql, command: &OrgCommand<V>) {
    match command {
        OrgCommand::Create { name, on_existing, admin, password } => {
            sql.create(*on_existing, "ORG");
            sql.word(&name.value);
            if let Some(admin) = admin {
                sql.word("ADMIN").word(&admin.value);
            }
            if let Some(password) = password {
                role::print_password(sql, &password.value);
            }
        }
        OrgCommand::Drop { name, on_missing, behavior } => {
            sql.word("DROP ORG").if_exists(*on_missing).word(&name.value).behavior(*behavior);
        }
    }
}
