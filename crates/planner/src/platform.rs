//! What is the platform's and no org's: the environment and the files of the processes that serve all orgs.
//!
//! An org has superusers of its own. If they could name a variable or a file, a process that resolves their secrets
//! would read it with its own rights, and hand the value to a host of their choice.

use crate::{Image, PlanError};

/// Whether the org of `image` may name variables and files.
///
/// # Errors
/// [`PlanError::Denied`]: it is not the platform's own.
pub(crate) fn may_name_origins(image: &Image) -> Result<(), PlanError> {
    if image.org().is_default() {
        return Ok(());
    }
    Err(PlanError::Denied {
        action: "refer to the environment or to files of the server".to_owned(),
        detail: "They belong to the platform: only the database \"default\" refers to them.".to_owned(),
    })
}
