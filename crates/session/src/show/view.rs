//! `SHOW VIEWS`

use dataglot_model::def::SecurityMode;
use dataglot_model::{ObjectRef, SqlState};

use super::{Filter, ReadCx, common, lies_in, with_common};
use crate::error::SessionError;
use crate::value::{Type, Value};

pub(super) const COLUMNS: &[(&str, Type)] =
    with_common!("catalog": Text, "schema": Text, "name": Text, "security": Text);

pub(super) fn rows(cx: ReadCx<'_>, filter: Filter<'_>) -> Result<Vec<Vec<Value>>, SessionError> {
    if filter.on.is_some() {
        return Err(SessionError::new(SqlState::FeatureNotSupported, "SHOW VIEWS ON a table is not supported")
            .with_hint("Use SHOW DEPENDENCIES ON TABLE."));
    }
    let mut rows = Vec::new();
    for (name, view) in cx.image.views() {
        let [catalog, schema, table] = name.parts();
        let wanted = lies_in(name, filter.within) && filter.likes(table)?;
        if !wanted || !cx.may_see(&ObjectRef::View(name.clone())) {
            continue;
        }
        let mut row = vec![
            Value::from(catalog),
            Value::from(schema),
            Value::from(table),
            Value::from(security(view.def.security)),
        ];
        row.extend(common(view.header));
        rows.push(row);
    }
    Ok(rows)
}

pub(super) const fn security(mode: SecurityMode) -> &'static str {
    match mode {
        SecurityMode::Invoker => "invoker",
        SecurityMode::Definer => "definer",
    }
}
