//! `SHOW CATALOGS`

use dataglot_model::def::{CatalogDef, OptionValue};
use dataglot_model::{Kind, Name, ObjectRef};

use super::{Filter, ReadCx, common, with_common};
use crate::error::SessionError;
use crate::value::{Type, Value};

pub(super) const COLUMNS: &[(&str, Type)] =
    with_common!("name": Text, "connector": Text, "enabled": Bool, "status": Text);

pub(super) fn rows(cx: ReadCx<'_>, filter: Filter<'_>) -> Result<Vec<Vec<Value>>, SessionError> {
    filter.no_place(Kind::Catalog)?;
    let mut rows = Vec::new();
    for (name, catalog) in cx.image.catalogs() {
        if !filter.likes(name.as_str())? || !cx.may_see(&ObjectRef::Catalog(name.clone())) {
            continue;
        }
        let mut row = vec![
            Value::from(name.as_str()),
            Value::from(catalog.def.connector.as_str()),
            Value::Bool(catalog.def.enabled),
            Value::Text(status(cx, catalog.def)),
        ];
        row.extend(common(catalog.header));
        rows.push(row);
    }
    Ok(rows)
}

/// The secrets that a catalog's options name, in the order of the keys.
pub(super) fn secrets(def: &CatalogDef) -> impl Iterator<Item = &Name> {
    def.options.values().filter_map(|value| match value {
        OptionValue::Secret { name, .. } => Some(name),
        OptionValue::Text(_)
        | OptionValue::Integer(_)
        | OptionValue::Decimal(_)
        | OptionValue::Boolean(_)
        | OptionValue::Json(_)
        | OptionValue::Env(_) => None,
    })
}

/// `ok`, or what stands in the way. No source is asked: this is about the store alone.
pub(super) fn status(cx: ReadCx<'_>, def: &CatalogDef) -> String {
    match secrets(def).find(|name| cx.is_unreadable(name)) {
        Some(name) => format!("error: secret \"{}\" is {}", name.as_str(), cx.secret_status(name)),
        None => "ok".to_owned(),
    }
}
