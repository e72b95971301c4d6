//! `REASSIGN OWNED`, `DROP OWNED`.

use dataglot_model::command::{DropOwned, ReassignOwned};

use super::drop::behavior;
use crate::cursor::{Cursor, Parse};

/// `OWNED BY roles TO role`; REASSIGN is taken.
pub(super) fn reassign(c: &mut Cursor<'_>) -> Parse<ReassignOwned> {
    c.expect(&["OWNED", "BY"])?;
    let from = c.role_list()?;
    c.expect(&["TO"])?;
    Ok(ReassignOwned { from, to: c.role_spec()? })
}

/// `OWNED BY roles [CASCADE | RESTRICT]`; DROP is taken.
pub(super) fn drop(c: &mut Cursor<'_>) -> Parse<DropOwned> {
    c.expect(&["OWNED", "BY"])?;
    let by = c.role_list()?;
    Ok(DropOwned { by, behavior: behavior(c) })
}
