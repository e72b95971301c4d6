//! Names and texts, plain ones and those that are hard to quote.

use dataglot_model::command::{
    CommentText, ExpectedVersion, GranteeSpec, OnExisting, OnMissing, OptionEntry, RoleSpec,
};
use dataglot_model::def::OptionValue;
use dataglot_model::{At, ColumnRef, Name, OrgName, RemoteName, SchemaRef, TableRef};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub fn at<T>(value: T) -> At<T> {
    At::nowhere(value)
}

pub fn at_of<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> impl Strategy<Value = At<T>> {
    strategy.prop_map(at)
}

/// Words of the language, reserved and not: each is a name when it is quoted, and most without.
const WORDS: &[&str] = &[
    "add",
    "admin",
    "all",
    "as",
    "cascade",
    "catalog",
    "catalogs",
    "column",
    "comment",
    "create",
    "current_user",
    "default",
    "dataglot",
    "disable",
    "drop",
    "effective",
    "else",
    "enable",
    "env",
    "except",
    "exists",
    "filter",
    "future",
    "grant",
    "granted",
    "group",
    "if",
    "in",
    "is",
    "json",
    "key",
    "limit",
    "login",
    "mask",
    "masks",
    "none",
    "not",
    "null",
    "of",
    "on",
    "option",
    "options",
    "or",
    "owned",
    "owner",
    "password",
    "priority",
    "public",
    "redacted",
    "rename",
    "replace",
    "role",
    "roles",
    "row",
    "rows",
    "schema",
    "secret",
    "select",
    "session",
    "set",
    "since",
    "system",
    "table",
    "tables",
    "tag",
    "to",
    "transaction",
    "type",
    "update",
    "user",
    "users",
    "using",
    "validate",
    "values",
    "version",
    "view",
    "views",
    "when",
    "with",
    "Public",
    "SELECT",
    "u&",
];

/// A text that is a name; not one that has a meaning of its own as a role.
fn name_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z_][a-z0-9_$]{0,9}",
        2 => "[aB1 .\"';,()$*/é日ß\\\\-]{1,9}",
        3 => proptest::sample::select(WORDS).prop_map(str::to_owned),
    ]
}

pub fn name() -> impl Strategy<Value = Name> {
    name_text().prop_filter_map("reserved for roles", |text| {
        let reserved = ["public", "none"].contains(&text.as_str()) || text.starts_with("pg_");
        if reserved { None } else { Name::new(&text).ok() }
    })
}

pub fn remote_name() -> impl Strategy<Value = RemoteName> {
    name_text().prop_filter_map("a name", |text| RemoteName::new(&text).ok())
}

pub fn org_name() -> impl Strategy<Value = OrgName> {
    "[a-z0-9][a-z0-9_-]{0,9}".prop_map(|text| OrgName::new(&text).unwrap())
}

pub fn schema_ref() -> impl Strategy<Value = SchemaRef> {
    (name(), remote_name()).prop_map(|(catalog, schema)| SchemaRef::new(&catalog, &schema))
}

pub fn table_ref() -> impl Strategy<Value = TableRef> {
    (schema_ref(), name()).prop_map(|(schema, table)| TableRef::within(&schema, &table.into()))
}

pub fn column_ref() -> impl Strategy<Value = ColumnRef> {
    (table_ref(), remote_name()).prop_map(|(table, column)| ColumnRef::new(&table, &column))
}

pub fn role_spec() -> impl Strategy<Value = RoleSpec> {
    prop_oneof![
        5 => name().prop_map(RoleSpec::Name),
        1 => Just(RoleSpec::CurrentUser),
        1 => Just(RoleSpec::CurrentRole),
        1 => Just(RoleSpec::SessionUser),
    ]
}

pub fn grantee() -> impl Strategy<Value = GranteeSpec> {
    prop_oneof![1 => Just(GranteeSpec::Public), 5 => role_spec().prop_map(GranteeSpec::Role)]
}

pub fn roles(least: usize) -> impl Strategy<Value = Vec<At<RoleSpec>>> {
    vec(at_of(role_spec()), least..4)
}

pub fn grantees(least: usize) -> impl Strategy<Value = Vec<At<GranteeSpec>>> {
    vec(at_of(grantee()), least..4)
}

/// Any text that a string literal can hold.
pub fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[a-z ]{0,8}", 2 => "[a'\"\\\\$;\n\r\té日\u{1}/*-]{0,8}"]
}

pub fn comment() -> impl Strategy<Value = Option<String>> {
    option::of(text())
}

pub fn comment_text() -> impl Strategy<Value = CommentText> {
    prop_oneof![Just(CommentText::Remove), text().prop_map(CommentText::Set)]
}

pub fn on_missing() -> impl Strategy<Value = OnMissing> {
    prop_oneof![Just(OnMissing::Error), Just(OnMissing::Skip)]
}

pub fn expected() -> impl Strategy<Value = ExpectedVersion> {
    option::of((0..=i64::MAX as u64).prop_map(at))
}

/// One of those that the kind has.
pub fn on_existing(all: &'static [OnExisting]) -> impl Strategy<Value = OnExisting> {
    proptest::sample::select(all)
}

/// A key that no connector keeps a credential under.
pub fn option_key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z][a-z0-9_]{0,5}x",
        1 => "[aB. \"'é$-]{1,6}y",
        1 => proptest::sample::select(&["user", "add", "set", "drop", "select", "secret", "json", "host"][..])
            .prop_map(str::to_owned),
    ]
}

pub fn option_value() -> impl Strategy<Value = OptionValue> {
    prop_oneof![
        text().prop_map(OptionValue::Text),
        any::<i64>().prop_map(OptionValue::Integer),
        "-?[1-9][0-9]{0,4}\\.[0-9]{0,3}[1-9]".prop_map(OptionValue::Decimal),
        any::<bool>().prop_map(OptionValue::Boolean),
        json().prop_map(OptionValue::Json),
        (name(), any::<bool>()).prop_map(|(name, as_file)| OptionValue::Secret { name, as_file }),
        "[A-Z_' ]{1,6}".prop_map(OptionValue::Env),
    ]
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    (text(), any::<i64>(), any::<bool>())
        .prop_map(|(text, number, yes)| serde_json::json!([{ "a": text, "b": [number, null] }, yes]))
}

pub fn option_entry() -> impl Strategy<Value = OptionEntry> {
    (option_key(), option_value()).prop_map(|(key, value)| OptionEntry { key: at(key), value: at(value) })
}

/// Options in canonical order, each key once.
pub fn options(least: usize) -> impl Strategy<Value = Vec<OptionEntry>> {
    vec(option_entry(), least..5).prop_map(|mut list| {
        list.sort_by(|a, b| a.key.value.cmp(&b.key.value));
        list.dedup_by(|a, b| a.key.eq_ignore_ascii_case(&b.key));
        list
    })
}
