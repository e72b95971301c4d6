//! `SHOW ORGS`, for the superusers of the org `default`.

use super::{ReadCx, comment};
use crate::error::SessionError;
use crate::value::{Type, Value};
use dataglot_model::SqlState;

pub(super) const COLUMNS: &[(&str, Type)] =
    &[("name", Type::Text), ("comment", Type::Text), ("created", Type::Time), ("created_by", Type::Text)];

pub(super) fn rows(cx: ReadCx<'_>) -> Result<Vec<Vec<Value>>, SessionError> {
    if !cx.image.org().is_default() {
        return Err(SessionError::new(SqlState::InsufficientPrivilege, "permission denied to show orgs")
            .with_detail("Only superusers of the org \"default\" may see them."));
    }
    cx.require_superuser("orgs")?;
    // The org `default` is as old as the store, and has no entry of its own.
    let default = vec![Value::from(cx.image.org().as_str()), Value::Null, Value::Null, Value::Null];
    let others = cx
        .image
        .orgs()
        .map(|(name, header)| {
            vec![
                Value::from(name.as_str()),
                comment(header),
                Value::Time(header.created.at),
                Value::from(header.created.by.as_str()),
            ]
        })
        .collect::<Vec<_>>();
    Ok(std::iter::once(default).chain(others).collect())
}
