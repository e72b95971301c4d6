//! What of the process's surroundings a connection string depends on.

use std::ffi::OsString;
use std::path::PathBuf;

/// The variables and the account of the process, or what a test says they are.
pub(crate) trait Environment {
    /// A variable.
    fn variable(&self, name: &str) -> Option<OsString>;
    /// The home directory of the account.
    fn home(&self) -> Option<PathBuf>;
    /// The name of the account.
    fn user(&self) -> Option<String>;
}

/// This process.
pub(super) struct Process;

impl Environment for Process {
    #[expect(clippy::disallowed_methods, reason = "libpq's variables are part of what a connection string means")]
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn home(&self) -> Option<PathBuf> {
        std::env::home_dir()
    }

    fn user(&self) -> Option<String> {
        whoami::username().ok()
    }
}
