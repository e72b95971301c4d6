//! `SHOW MASKS`, `SHOW ROW FILTERS`, `SHOW POLICIES`

use dataglot_model::def::{MaskFunction, MaskTarget, PolicyDef, RowFilterTarget};
use dataglot_model::{Audience, Grantee, Name, ObjectRef, Others, ShowKind, ShowScope, TableRef, quote_string};

use super::{Filter, ReadCx, common, lies_in, with_common};
use crate::error::SessionError;
use crate::value::{Type, Value};

pub(super) const MASK_COLUMNS: &[(&str, Type)] = with_common!(
    "name": Text,
    "target": Text,
    "rule": Text,
    "when": Text,
    "to": Text,
    "except": Text,
    "priority": Int4,
    "enabled": Bool,
);
pub(super) const ROW_FILTER_COLUMNS: &[(&str, Type)] = with_common!(
    "name": Text,
    "target": Text,
    "rule": Text,
    "to": Text,
    "others": Text,
    "except": Text,
    "enabled": Bool,
);
pub(super) const POLICY_COLUMNS: &[(&str, Type)] = with_common!(
    "name": Text,
    "kind": Text,
    "target": Text,
    "rule": Text,
    "to": Text,
    "except": Text,
    "enabled": Bool,
);

pub(super) fn rows(cx: ReadCx<'_>, filter: Filter<'_>, kind: ShowKind) -> Result<Vec<Vec<Value>>, SessionError> {
    let mut rows = Vec::new();
    for (name, policy) in cx.image.policies() {
        let object = object_of(name, policy.def);
        if !filter.likes(name.as_str())? || !is_on(policy.def, filter) || !cx.may_see(&object) {
            continue;
        }
        let target = Value::Text(target(policy.def));
        let rule = Value::Text(rule(policy.def));
        let name = Value::from(name.as_str());
        let mut row = match (kind, &**policy.def) {
            (ShowKind::Masks, PolicyDef::Mask(mask)) => vec![
                name,
                target,
                rule,
                Value::text_or_null(mask.when.as_ref().map(|w| w.text.as_str())),
                Value::Text(to(&mask.audience)),
                except(&mask.audience),
                Value::Int(i64::from(mask.priority)),
                Value::Bool(mask.enabled),
            ],
            (ShowKind::RowFilters, PolicyDef::RowFilter(def)) => vec![
                name,
                target,
                rule,
                Value::Text(to(&def.audience)),
                Value::text_or_null(def.others.map(others)),
                except(&def.audience),
                Value::Bool(def.enabled),
            ],
            (ShowKind::Policies, def) => {
                let (audience, enabled) = match def {
                    PolicyDef::Mask(mask) => (&mask.audience, mask.enabled),
                    PolicyDef::RowFilter(def) => (&def.audience, def.enabled),
                };
                vec![
                    name,
                    Value::from(object.kind().noun()),
                    target,
                    rule,
                    Value::Text(to(audience)),
                    except(audience),
                    Value::Bool(enabled),
                ]
            }
            (ShowKind::Masks, PolicyDef::RowFilter(_)) | (ShowKind::RowFilters, PolicyDef::Mask(_)) => continue,
            (ShowKind::Catalogs | ShowKind::Secrets | ShowKind::Roles | ShowKind::Users | ShowKind::Views, _) => {
                continue;
            }
        };
        row.extend(common(policy.header));
        rows.push(row);
    }
    Ok(rows)
}

pub(super) fn object_of(name: &Name, def: &PolicyDef) -> ObjectRef {
    match def {
        PolicyDef::Mask(_) => ObjectRef::Mask(name.clone()),
        PolicyDef::RowFilter(_) => ObjectRef::RowFilter(name.clone()),
    }
}

/// What it is on, as its CREATE statement says it.
pub(super) fn target(def: &PolicyDef) -> String {
    match def {
        PolicyDef::Mask(mask) => match &mask.target {
            MaskTarget::Column(column) => format!("COLUMN {column}"),
        },
        PolicyDef::RowFilter(def) => match &def.target {
            RowFilterTarget::Table(table) => format!("TABLE {table}"),
            RowFilterTarget::Schema(schema) => format!("SCHEMA {schema}"),
            RowFilterTarget::Catalog(catalog) => format!("CATALOG {catalog}"),
        },
    }
}

/// What it does.
pub(super) fn rule(def: &PolicyDef) -> String {
    match def {
        PolicyDef::Mask(mask) => match &mask.function {
            MaskFunction::Constant(text) => quote_string(text),
            MaskFunction::Expression(expression) => format!("({})", expression.text),
            MaskFunction::Redact => "redact".to_owned(),
            MaskFunction::Hash => "hash".to_owned(),
            MaskFunction::Nullify => "nullify".to_owned(),
            MaskFunction::DateYear => "date_year".to_owned(),
            MaskFunction::ShowFirst(keep) => format!("show_first({keep})"),
            MaskFunction::ShowLast(keep) => format!("show_last({keep})"),
            MaskFunction::Function { name, arguments } => format!("{name}({})", arguments.join(", ")),
        },
        PolicyDef::RowFilter(def) => format!("({})", def.using.text),
    }
}

/// Whom it names; without a TO, everyone.
pub(super) fn to(audience: &Audience<Grantee, Name>) -> String {
    match &audience.to {
        None => "PUBLIC".to_owned(),
        Some(list) => list.iter().map(Grantee::to_string).collect::<Vec<_>>().join(", "),
    }
}

pub(super) fn except(audience: &Audience<Grantee, Name>) -> Value {
    let names: Vec<String> = audience.except.iter().map(Name::to_string).collect();
    if names.is_empty() { Value::Null } else { Value::Text(names.join(", ")) }
}

pub(super) const fn others(others: Others) -> &'static str {
    match others {
        Others::AllRows => "ALL ROWS",
        Others::NoRows => "NO ROWS",
    }
}

/// Whether it touches what `IN` and `ON` name.
fn is_on(def: &PolicyDef, filter: Filter<'_>) -> bool {
    let touches = |table: &TableRef| match def {
        PolicyDef::Mask(mask) => match &mask.target {
            MaskTarget::Column(column) => column.table() == *table,
        },
        PolicyDef::RowFilter(def) => match &def.target {
            RowFilterTarget::Table(of) => of == table,
            RowFilterTarget::Schema(of) => *of == table.schema(),
            RowFilterTarget::Catalog(of) => *of == table.catalog(),
        },
    };
    filter.on.is_none_or(touches) && within(def, filter.within)
}

fn within(def: &PolicyDef, scope: Option<&ShowScope>) -> bool {
    match def {
        PolicyDef::Mask(mask) => match &mask.target {
            MaskTarget::Column(column) => lies_in(&column.table(), scope),
        },
        PolicyDef::RowFilter(def) => match (&def.target, scope) {
            (_, None) => true,
            (RowFilterTarget::Table(table), _) => lies_in(table, scope),
            (RowFilterTarget::Schema(schema), Some(ShowScope::Catalog(catalog))) => schema.catalog() == *catalog,
            (RowFilterTarget::Schema(schema), Some(ShowScope::Schema(wanted))) => schema == wanted,
            (RowFilterTarget::Catalog(name), Some(ShowScope::Catalog(catalog))) => name == catalog,
            (RowFilterTarget::Catalog(name), Some(ShowScope::Schema(schema))) => *name == schema.catalog(),
        },
    }
}
