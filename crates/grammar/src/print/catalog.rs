//! Statements on catalogs.

use dataglot_model::command::{AlterCatalog, CatalogAction, CreateCatalog, OptionChange, OptionEntry, ValidateMode};

use super::sql::Sql;

pub(super) fn print_create_catalog(sql: &mut Sql, create: &CreateCatalog) {
    let CreateCatalog { name, on_existing, connector, options, comment, owner, validate } = create;
    sql.create(*on_existing, "CATALOG").word(&name.value).word("USING").word(connector.value);
    if !options.is_empty() {
        sql.word("WITH").options(options, Some(connector.value));
    }
    sql.comment(comment.as_deref());
    if let Some(owner) = owner {
        sql.word("AUTHORIZATION").role(&owner.value);
    }
    match validate {
        ValidateMode::Off => {
            sql.word("VALIDATE OFF");
        }
        ValidateMode::Schema => {}
    }
}

pub(super) fn print_alter_catalog(sql: &mut Sql, alter: &AlterCatalog) {
    let AlterCatalog { name, on_missing, expected, actions } = alter;
    sql.word("ALTER CATALOG").if_exists(*on_missing).word(&name.value).if_version(expected);
    sql.list(actions, print_action);
}

fn print_action(sql: &mut Sql, action: &CatalogAction) {
    match action {
        CatalogAction::Set(options) => sql.word("SET").options(options, None),
        CatalogAction::Reset(keys) => {
            sql.word("RESET (").list(keys, |sql, key| {
                sql.option_key(&key.value);
            });
            sql.raw(")")
        }
        CatalogAction::Options(changes) => sql.word("OPTIONS (").list(changes, print_change).raw(")"),
        CatalogAction::Replace(options) => sql.word("WITH").options(options, None),
        CatalogAction::Rename(to) => sql.word("RENAME TO").word(&to.value),
        CatalogAction::Owner(owner) => sql.word("OWNER TO").role(&owner.value),
        CatalogAction::Enable(enabled) => sql.enable(*enabled),
        CatalogAction::Comment(text) => sql.word("SET COMMENT").comment_text(text),
    };
}

fn print_change(sql: &mut Sql, change: &OptionChange) {
    let (verb, entry) = match change {
        OptionChange::Add(entry) => ("ADD", entry),
        OptionChange::Set(entry) => ("SET", entry),
        OptionChange::Drop(key) => {
            sql.word("DROP").option_key(&key.value);
            return;
        }
    };
    let OptionEntry { key, value } = entry;
    sql.word(verb).option_key(&key.value).option_value(&key.value, &value.value, None);
}
