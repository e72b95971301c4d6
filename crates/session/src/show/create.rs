//! `SHOW CREATE`: the statement that would make the object again, without any credential.

use dataglot_model::{At, ObjectRef};
use dataglot_planner::recreate;

use super::{ReadCx, undefined};
use crate::error::SessionError;
use crate::value::{Type, Value};

pub(super) const COLUMNS: &[(&str, Type)] = &[("statement", Type::Text)];

pub(super) fn rows(cx: ReadCx<'_>, object: &At<ObjectRef>) -> Result<Vec<Vec<Value>>, SessionError> {
    let command = if cx.may_see(object) { recreate(cx.image, object) } else { None };
    match command {
        Some(command) => Ok(vec![vec![Value::Text(dataglot_grammar::print(&command))]]),
        None => Err(undefined(object).at(object.span)),
    }
}
