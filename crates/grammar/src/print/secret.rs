//! Statements on secrets. Where the value is comes out, the value never.

use dataglot_model::command::{AlterSecret, CreateSecret, SecretAction, SecretValue};

use super::sql::Sql;

pub(super) fn print_create_secret<V>(sql: &mut Sql, create: &CreateSecret<V>) {
    let CreateSecret { name, on_existing, value, comment } = create;
    sql.create(*on_existing, "SECRET").word(&name.value);
    print_value(sql, &value.value);
    sql.comment(comment.as_deref());
}

pub(super) fn print_alter_secret<V>(sql: &mut Sql, alter: &AlterSecret<V>) {
    let AlterSecret { name, on_missing, expected, action } = alter;
    sql.word("ALTER SECRET").if_exists(*on_missing).word(&name.value).if_version(expected);
    match action {
        SecretAction::Value { value, grace } => {
            print_value(sql, &value.value);
            if let Some(grace) = grace {
                sql.word("GRACE").string(&grace.to_string());
            }
        }
        SecretAction::Rename { to, resealed: _, resealed_previous: _ } => {
            sql.word("RENAME TO").word(&to.value);
        }
        SecretAction::Owner(owner) => {
            sql.word("OWNER TO").role(&owner.value);
        }
    }
}

fn print_value<V>(sql: &mut Sql, value: &SecretValue<V>) {
    sql.word("AS");
    match value {
        SecretValue::Value(_) | SecretValue::Redacted => sql.word("REDACTED"),
        SecretValue::Env(variable) => sql.word("ENV").string(variable),
        SecretValue::File(path) => sql.word("FILE").string(path),
    };
}
