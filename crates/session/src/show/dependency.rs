//! `SHOW DEPENDENCIES OF | ON`

use dataglot_model::{At, Kind, ObjectRef};
use dataglot_planner::{dependencies, dependents};

use super::{ReadCx, undefined};
use crate::error::SessionError;
use crate::value::{Type, Value};

pub(super) const DEPENDENCY_COLUMNS: &[(&str, Type)] = &[("kind", Type::Text), ("name", Type::Text)];
pub(super) const DEPENDENT_COLUMNS: &[(&str, Type)] = &[("object", Type::Text), ("via", Type::Text)];

pub(super) fn rows(cx: ReadCx<'_>, object: &At<ObjectRef>, of_others: bool) -> Result<Vec<Vec<Value>>, SessionError> {
    // Schemas, tables and columns are not ours: they have no entry of their own, and may be named.
    let ours = match object.kind() {
        Kind::Schema | Kind::Table | Kind::Column => true,
        Kind::Org | Kind::Role | Kind::Secret | Kind::Catalog | Kind::View | Kind::Mask | Kind::RowFilter => {
            cx.exists(object)
        }
    };
    if !ours || !cx.may_see(object) {
        return Err(undefined(object).at(object.span));
    }
    Ok(if of_others {
        dependents(cx.image, object)
            .into_iter()
            .filter(|d| d.about.iter().all(|about| cx.may_see(about)))
            .map(|d| vec![Value::Text(d.object), Value::from(d.via)])
            .collect()
    } else {
        dependencies(cx.image, object)
            .into_iter()
            .map(|o| vec![Value::from(o.kind().noun()), Value::Text(o.sql_name())])
            .collect()
    })
}
