//! `SHOW SECRET PROBLEMS`: what is sealed and does not open, or is not what history last recorded. No row: all is well.

use std::sync::Arc;

use dataglot_planner::Image;

use super::ReadCx;
use crate::engine::Engine;
use crate::error::SessionError;
use crate::seal::{Problem, Recorded, problems};
use crate::value::{Rows, Type, Value};

pub(super) const COLUMNS: &[(&str, Type)] = &[("object", Type::Text), ("problem", Type::Text)];

/// It tells of keys.
pub(crate) fn may_read(cx: ReadCx<'_>) -> Result<(), SessionError> {
    cx.require_superuser("secret keys")
}

/// One row a problem. Everything is opened, so it runs on a thread of its own.
///
/// # Errors
/// None that is not a fault of ours.
pub(crate) async fn rows(engine: &Arc<Engine>, image: &Image, recorded: Recorded) -> Result<Rows, SessionError> {
    let (engine, image) = (Arc::clone(engine), image.clone());
    let found = tokio::task::spawn_blocking(move || problems(&engine, &image, &recorded)).await;
    let found = found.map_err(|_| SessionError::bug("opening what is sealed panicked"))?;
    let mut rows = Rows::new(COLUMNS);
    for Problem { object, problem } in found {
        rows.push(vec![Value::from(object.as_str()), Value::from(problem.as_str())]);
    }
    Ok(rows)
}
