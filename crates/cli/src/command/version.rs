//! `dataglot version`

use crate::failure::Failure;
use crate::output;

#[allow(clippy::unnecessary_wraps, reason = "all commands have one form")]
pub(crate) fn run() -> Result<(), Failure> {
    output::line(&format!("dataglot {}", env!("CARGO_PKG_VERSION")));
    Ok(())
}
