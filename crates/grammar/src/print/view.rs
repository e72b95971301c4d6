//! Statements on views. The query is printed as its author wrote it.

use dataglot_model::command::{AlterView, CreateView, ViewAction, ViewQuery};
use dataglot_model::def::SecurityMode;

use super::sql::Sql;

pub(super) fn print_create_view(sql: &mut Sql, create: &CreateView) {
    let CreateView { name, on_existing, columns, comment, security, options, query } = create;
    sql.create(*on_existing, "VIEW").word(&name.value);
    if let Some(columns) = columns {
        sql.word("(").list(columns, |sql, column| {
            sql.word(column);
        });
        sql.raw(")");
    }
    sql.comment(comment.as_deref());
    if let Some(security) = security {
        print_security(sql, *security);
    }
    if !options.is_empty() {
        sql.word("WITH").options(options, None);
    }
    print_query(sql, &query.value);
}

pub(super) fn print_alter_view(sql: &mut Sql, alter: &AlterView) {
    let AlterView { name, on_missing, expected, action } = alter;
    sql.word("ALTER VIEW").if_exists(*on_missing).word(&name.value).if_version(expected);
    match action {
        ViewAction::Rename(to) => {
            sql.word("RENAME TO").word(&to.value);
        }
        ViewAction::SetSchema(schema) => {
            sql.word("SET SCHEMA").word(&schema.value);
        }
        ViewAction::Owner(owner) => {
            sql.word("OWNER TO").role(&owner.value);
        }
        ViewAction::Query(query) => print_query(sql, &query.value),
        ViewAction::Security(security) => {
            sql.word("SET");
            print_security(sql, *security);
        }
        ViewAction::Options(options) => {
            sql.word("SET").options(options, None);
        }
    }
}

fn print_security(sql: &mut Sql, security: SecurityMode) {
    sql.word(match security {
        SecurityMode::Invoker => "SECURITY INVOKER",
        SecurityMode::Definer => "SECURITY DEFINER",
    });
}

/// `AS query`. The references are found again in the text.
fn print_query(sql: &mut Sql, query: &ViewQuery) {
    let ViewQuery { text, references: _ } = query;
    sql.word("AS").word(text);
}
