//! Mutations as people read them: in EXPLAIN and in golden files.
//!
//! What differs from run to run is left out: ids, sequence numbers, the time of a change. What must
//! not be seen has a placeholder.

use dataglot_model::def::{GrantKey, MembershipKey};
use dataglot_model::{Mutation, ObjectRef, Row, RowKey};
use serde::Serialize;
use serde_json::{Map, Value};

use super::catalog::CatalogRecord;
use super::grant::{StoredGrantRecord, StoredMembershipRecord};
use super::header::HeaderRecord;
use super::policy::{self, PolicyRecord};
use super::role::{RoleRecord, VERIFIER_PLACEHOLDER};
use super::view::ViewRecord;
use crate::Table;

/// Stands for a ciphertext.
const SEALED_PLACEHOLDER: &str = "<sealed>";

/// A mutation in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// `put` or `delete`.
    pub action: &'static str,
    /// The table.
    pub table: &'static str,
    /// The key: `catalog pg`, `TABLE c.s.t TO r BY admin`.
    pub key: String,
    /// JSON with sorted keys; `<sealed>` for a ciphertext. `None`: a delete.
    pub value: Option<String>,
}

/// The mutation in words.
pub fn render(mutation: &Mutation) -> Rendered {
    match mutation {
        Mutation::Delete(row_key) => {
            let (table, key) = address(row_key);
            Rendered { action: "delete", table: table.as_str(), key, value: None }
        }
        Mutation::Put(row) => {
            let (table, key) = address(&row.key());
            let json = value(row);
            let value = if let Value::String(placeholder) = json { placeholder } else { json.to_string() };
            Rendered { action: "put", table: table.as_str(), key, value: Some(value) }
        }
    }
}

/// The same as JSON: an object with `action`, `table`, `key` and, for a put, `value`.
pub fn render_json(mutation: &Mutation) -> Value {
    let (action, row_key, value) = match mutation {
        Mutation::Delete(row_key) => ("delete", row_key.clone(), None),
        Mutation::Put(row) => ("put", row.key(), Some(value(row))),
    };
    let (table, key) = address(&row_key);
    let fields = [("action", Some(action.into())), ("key", Some(key.into())), ("table", Some(table.as_str().into()))];
    let fields = fields.into_iter().chain([("value", value)]);
    Value::Object(fields.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

fn address(row_key: &RowKey) -> (Table, String) {
    match row_key {
        RowKey::Header(object) => (Table::Objects, object_text(object)),
        RowKey::Catalog(name) => (Table::Entries, name.to_string()),
        RowKey::Secret(name) => (Table::Secrets, name.to_string()),
        RowKey::Role { name, login: true } => (Table::Users, name.to_string()),
        RowKey::Role { name, login: false } => (Table::Roles, name.to_string()),
        RowKey::Membership(MembershipKey { role, member }) => (Table::RoleMembers, format!("{role} TO {member}")),
        RowKey::Policy(name) => (Table::Policies, name.to_string()),
        RowKey::Grant(GrantKey { target, grantee, grantor }) => {
            (Table::Grants, format!("{target} TO {grantee} BY {grantor}"))
        }
        RowKey::View(name) => (Table::DerivedProducts, name.to_string()),
        RowKey::PreviousSecret(name) => (Table::PreviousSecrets, name.to_string()),
        RowKey::DataKey(no) => (Table::DataKeys, no.to_string()),
    }
}

fn object_text(object: &ObjectRef) -> String {
    format!("{} {}", object.kind().noun(), object.sql_name())
}

/// The value, sorted, without what differs from run to run.
fn value(row: &Row) -> Value {
    let (record, extra) = match row {
        Row::Header(_, header) => (json(&HeaderRecord::from(header.as_ref())), header.extra.clone()),
        Row::Catalog(_, def) => (json(&CatalogRecord::from(def.as_ref())), def.extra.clone()),
        Row::Secret(..) | Row::PreviousSecret(..) | Row::DataKey(..) => {
            return Value::String(SEALED_PLACEHOLDER.to_owned());
        }
        Row::Role(_, def) => (json(&RoleRecord::from(def.as_ref())), def.extra.clone()),
        Row::Membership(_, record) => (json(&StoredMembershipRecord::from(record.as_ref())), record.extra.clone()),
        Row::Policy(_, def) => (json(&PolicyRecord::from(def.as_ref())), policy::extra(def).clone()),
        Row::Grant(_, record) => (json(&StoredGrantRecord::from(record.as_ref())), record.extra.clone()),
        Row::View(_, def) => (json(&ViewRecord::from(def.as_ref())), def.extra.clone()),
    };
    let Value::Object(mut fields) = record else { return record };
    fields.extend(extra.map(|e| *e).unwrap_or_default());
    match row {
        Row::Header(..) => {
            ["id", "created", "changed"].into_iter().for_each(|volatile| drop(fields.remove(volatile)));
            if let Some(Value::Object(secret)) = fields.get_mut("secret") {
                secret.remove("set_at");
                hide_value(secret);
                if let Some(Value::Object(previous)) = secret.get_mut("previous") {
                    previous.remove("until");
                    hide_value(previous);
                }
            }
        }
        Row::Role(_, def) => {
            if let Some(verifier) = fields.get_mut("verifier") {
                *verifier = Value::String(VERIFIER_PLACEHOLDER.to_owned());
            }
            if let Some(until) = def.valid_until {
                fields.insert("valid_until".to_owned(), Value::String(until.to_string()));
            }
        }
        Row::Catalog(..)
        | Row::Secret(..)
        | Row::PreviousSecret(..)
        | Row::Membership(..)
        | Row::Policy(..)
        | Row::Grant(..)
        | Row::View(..)
        | Row::DataKey(..) => {}
    }
    sorted(Value::Object(fields))
}

/// Puts a placeholder in the place of the hash of a ciphertext.
fn hide_value(of: &mut Map<String, Value>) {
    if let Some(hash) = of.get_mut("origin").and_then(|origin| origin.get_mut("sealed")) {
        *hash = Value::String(SEALED_PLACEHOLDER.to_owned());
    }
}

/// A record always has a JSON form; if it had none, `null` would say so.
fn json<R: Serialize>(record: &R) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}

/// The same value with the keys of every object in order, whatever map serde_json was built with.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(fields.into_iter().map(|(key, value)| (key, sorted(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar,
    }
}
