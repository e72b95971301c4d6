//! Values that are not in the store: read by the process that resolves, from its environment and its files.

use std::fs::File;
use std::io::Read as _;

use dataglot_model::{Name, Sensitive};
use dataglot_vault::VALUE_BYTES_MAX;
use zeroize::Zeroize as _;

use super::ResolveError;

/// What the names of the variables begin with by which dataglot itself is configured.
const OURS: &str = "DATAGLOT_";

/// The value of an environment variable, as it is.
#[allow(clippy::disallowed_methods, reason = "that the value is in the environment is what the secret says")]
pub(super) fn variable(secret: &Name, variable: &str) -> Result<Sensitive, ResolveError> {
    let failed = |why| ResolveError::Variable { secret: secret.clone(), variable: variable.to_owned(), why };
    // Among them are the key of all secrets and the password of the store.
    if variable.starts_with(OURS) {
        return Err(failed("is one of dataglot's own"));
    }
    // The system has no variable of such a name, and would panic when asked.
    if variable.is_empty() || variable.contains(['=', '\0']) {
        return Err(failed("is not set"));
    }
    match std::env::var(variable) {
        Ok(value) if value.len() > VALUE_BYTES_MAX => Err(failed("is too long")),
        Ok(value) => Ok(Sensitive::new(value)),
        Err(std::env::VarError::NotPresent) => Err(failed("is not set")),
        Err(std::env::VarError::NotUnicode(_)) => Err(failed("is not UTF-8")),
    }
}

/// The content of a file, without one line end at its end: most tools leave one.
pub(super) fn file(secret: &Name, path: &str) -> Result<Sensitive, ResolveError> {
    let failed = |why: String| ResolveError::File { secret: secret.clone(), path: path.to_owned(), why };
    let unread = |e: std::io::Error| failed(format!("cannot be read: {e}"));
    // A pipe would make it wait for ever.
    if !std::fs::metadata(path).map_err(unread)?.is_file() {
        return Err(failed("is not a regular file".to_owned()));
    }
    let most = u64::try_from(VALUE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(3);
    let mut bytes = Vec::new();
    File::open(path).map_err(unread)?.take(most).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    if bytes.len() > VALUE_BYTES_MAX {
        bytes.zeroize();
        return Err(failed("is too long".to_owned()));
    }
    String::from_utf8(bytes).map(Sensitive::new).map_err(|error| {
        error.into_bytes().zeroize();
        failed("is not UTF-8".to_owned())
    })
}
