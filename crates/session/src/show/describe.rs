//! `DESCRIBE`: one object, a property a row.

use std::sync::Arc;

use dataglot_model::def::{CatalogDef, Header, OptionValue, PolicyDef, RoleDef, SecretMeta, SecretOrigin, ViewDef};
use dataglot_model::{Describe, DescribeName, Kind, Name, ObjectRef, SqlState, TableRef, quote_string};

use super::{ReadCx, catalog, policy, secret, stamp, undefined, view};
use crate::error::SessionError;
use crate::response::Column;
use crate::value::{Rows, Type, Value, columns_of};

const COLUMNS: &[(&str, Type)] = &[("property", Type::Text), ("value", Type::Text)];

pub(crate) fn columns() -> Arc<[Column]> {
    columns_of(COLUMNS)
}

pub(crate) fn rows(cx: ReadCx<'_>, describe: &Describe) -> Result<Rows, SessionError> {
    let object = match &describe.object.value {
        DescribeName::Object(object) => {
            let object = as_view(cx, object);
            if cx.may_see(&object) { Some(object) } else { None }.ok_or_else(|| undefined_at(describe))?
        }
        DescribeName::Any { name, table } => {
            first_named(cx, name.as_ref(), table).ok_or_else(|| undefined_at(describe))?
        }
    };
    let mut list = List(Vec::new());
    if !fill(cx, &object, &mut list) {
        return Err(undefined_at(describe));
    }
    Ok(Rows { columns: columns(), rows: list.0 })
}

fn undefined_at(describe: &Describe) -> SessionError {
    let span = describe.object.span;
    match &describe.object.value {
        DescribeName::Object(object) => undefined(object).at(span),
        DescribeName::Any { name, table } => {
            let name = name.as_ref().map_or_else(|| table.parts().join("."), |n| n.as_str().to_owned());
            SessionError::new(SqlState::UndefinedObject, format!("object \"{name}\" does not exist")).at(span)
        }
    }
}

/// A table that is a view is described as one.
fn as_view(cx: ReadCx<'_>, object: &ObjectRef) -> ObjectRef {
    match object {
        ObjectRef::Table(name) if cx.image.view(name).is_some() => ObjectRef::View(name.clone()),
        ObjectRef::Org(_)
        | ObjectRef::Role(_)
        | ObjectRef::Secret(_)
        | ObjectRef::Catalog(_)
        | ObjectRef::Schema(_)
        | ObjectRef::Table(_)
        | ObjectRef::Column(_)
        | ObjectRef::View(_)
        | ObjectRef::Mask(_)
        | ObjectRef::RowFilter(_) => object.clone(),
    }
}

/// The first of catalog, view, secret, role, mask and row filter that has the name.
fn first_named(cx: ReadCx<'_>, name: Option<&Name>, table: &TableRef) -> Option<ObjectRef> {
    let view = ObjectRef::View(table.clone());
    let candidates = match name {
        Some(name) => vec![
            ObjectRef::Catalog(name.clone()),
            view,
            ObjectRef::Secret(name.clone()),
            ObjectRef::Role(name.clone()),
            ObjectRef::Mask(name.clone()),
            ObjectRef::RowFilter(name.clone()),
        ],
        None => vec![view],
    };
    candidates.into_iter().find(|object| cx.exists(object))
}

struct List(Vec<Vec<Value>>);

impl List {
    fn add(&mut self, property: &str, value: impl Into<String>) {
        self.0.push(vec![Value::from(property), Value::Text(value.into())]);
    }

    fn maybe(&mut self, property: &str, value: Option<impl Into<String>>) {
        self.0.push(vec![Value::from(property), Value::text_or_null(value)]);
    }
}

/// Whether the object is there; if so, what is to be said of it.
fn fill(cx: ReadCx<'_>, object: &ObjectRef, list: &mut List) -> bool {
    list.add("kind", object.kind().noun());
    list.add("name", object.sql_name());
    let image = cx.image;
    let header = match object {
        ObjectRef::Catalog(name) => image.catalog(name).map(|o| {
            catalog_properties(cx, o.def, list);
            o.header
        }),
        ObjectRef::Secret(name) => image.secret(name).map(|o| {
            secret_properties(cx, name, o.meta, list);
            o.header
        }),
        ObjectRef::Role(name) => image.role(name).map(|o| {
            role_properties(cx, name, o.def, list);
            o.header
        }),
        ObjectRef::Mask(name) | ObjectRef::RowFilter(name) => {
            image.policy(name).filter(|o| policy::object_of(name, o.def) == *object).map(|o| {
                policy_properties(o.def, list);
                o.header
            })
        }
        ObjectRef::View(name) => image.view(name).map(|o| {
            view_properties(o.def, list);
            o.header
        }),
        ObjectRef::Org(_) | ObjectRef::Schema(_) | ObjectRef::Table(_) | ObjectRef::Column(_) => image.header(object),
    };
    let Some(header) = header else { return false };
    header_properties(object.kind(), header, list);
    true
}

fn header_properties(kind: Kind, header: &Header, list: &mut List) {
    match kind {
        Kind::Role | Kind::Org | Kind::Schema | Kind::Table | Kind::Column => {}
        Kind::Secret | Kind::Catalog | Kind::View | Kind::Mask | Kind::RowFilter => {
            list.maybe("owner", header.owner.as_ref().map(|o| o.as_str()));
        }
    }
    list.maybe("comment", header.comment.as_deref());
    list.add("version", header.version.to_string());
    list.add("created", stamp(&header.created));
    list.add("changed", stamp(&header.changed));
}

fn catalog_properties(cx: ReadCx<'_>, def: &CatalogDef, list: &mut List) {
    list.add("connector", def.connector.as_str());
    list.add("enabled", def.enabled.to_string());
    list.add("status", catalog::status(cx, def));
    for (key, value) in &def.options {
        list.add(&format!("option {key}"), option_text(value));
    }
}

/// An option's value. A credential is never among them: those are references.
fn option_text(value: &OptionValue) -> String {
    match value {
        OptionValue::Text(text) => quote_string(text),
        OptionValue::Integer(n) => n.to_string(),
        OptionValue::Decimal(digits) => digits.clone(),
        OptionValue::Boolean(truth) => truth.to_string(),
        OptionValue::Json(json) => format!("JSON {}", quote_string(&json.to_string())),
        OptionValue::Secret { name, as_file: false } => format!("SECRET {name}"),
        OptionValue::Secret { name, as_file: true } => format!("SECRET {name} AS FILE"),
        OptionValue::Env(name) => format!("ENV {}", quote_string(name)),
    }
}

fn secret_properties(cx: ReadCx<'_>, name: &Name, meta: &SecretMeta, list: &mut List) {
    list.add("source", secret::source(&meta.origin));
    match &meta.origin {
        SecretOrigin::Sealed(_) => {}
        SecretOrigin::Env(variable) => list.add("variable", variable.as_str()),
        SecretOrigin::File(path) => list.add("file", path.as_str()),
    }
    list.add("status", cx.secret_status(name));
    list.add("value version", meta.value_version.to_string());
    list.maybe("fingerprint", secret::fingerprint(meta));
    list.add("age", secret::age(meta.set_at, cx.now));
    list.maybe("last rotation", secret::last_rotation(meta).map(|t| t.to_string()));
    if let Some(previous) = meta.previous_at(cx.now) {
        list.add("previous version", previous.value_version.to_string());
        list.add("previous source", secret::source(&previous.origin));
        list.add("previous status", if cx.image.is_previous_unreadable(name) { "unreadable" } else { "ok" });
        list.add("previous until", previous.until.to_string());
    }
}

fn role_properties(cx: ReadCx<'_>, name: &Name, def: &RoleDef, list: &mut List) {
    list.add("login", def.login.to_string());
    list.add("superuser", def.superuser.to_string());
    list.add("createrole", def.createrole.to_string());
    list.add("inherit", def.inherit.to_string());
    list.add("bypassrls", def.bypassrls.to_string());
    list.add("connection limit", def.connection_limit.to_string());
    list.maybe("valid until", def.valid_until.map(|t| t.to_string()));
    list.add("has password", def.verifier.is_some().to_string());
    for (setting, value) in def.settings.iter().flat_map(|s| s.iter()) {
        list.add(&format!("setting {setting}"), value.as_str());
    }
    let sees = |role: &Name| cx.may_see(&ObjectRef::Role(role.clone()));
    for (key, _) in cx.image.roles_of(name).filter(|(key, _)| sees(&key.role)) {
        list.add("member of", key.role.to_string());
    }
    for (key, _) in cx.image.members_of(name).filter(|(key, _)| sees(&key.member)) {
        list.add("member", key.member.to_string());
    }
}

fn policy_properties(def: &PolicyDef, list: &mut List) {
    list.add("target", policy::target(def));
    list.add("rule", policy::rule(def));
    let audience = match def {
        PolicyDef::Mask(mask) => {
            list.maybe("when", mask.when.as_ref().map(|w| w.text.as_str()));
            list.add("priority", mask.priority.to_string());
            list.add("enabled", mask.enabled.to_string());
            &mask.audience
        }
        PolicyDef::RowFilter(def) => {
            list.maybe("others", def.others.map(policy::others));
            list.add("enabled", def.enabled.to_string());
            &def.audience
        }
    };
    list.add("to", policy::to(audience));
    list.maybe("except", policy::except(audience).to_text());
}

fn view_properties(def: &ViewDef, list: &mut List) {
    list.add("security", view::security(def.security));
    list.maybe(
        "columns",
        def.columns.as_ref().map(|c| c.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    );
    for (key, value) in &def.options {
        list.add(&format!("option {key}"), option_text(value));
    }
    let mut tables: Vec<&TableRef> = def.references.iter().map(|r| &r.table).collect();
    tables.sort();
    tables.dedup();
    for table in tables {
        list.add("reads", table.to_string());
    }
    list.add("query", &*def.query);
}
