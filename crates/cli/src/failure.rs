//! How a command ends when it cannot do what it was asked: an exit code and a text for a person.

use std::fmt;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use dataglot_model::{Problem, Report};
use dataglot_server::config::ConfigError;
use dataglot_server::keycommand::KeyCommandError;
use dataglot_server::keyfile::KeyFileError;
use dataglot_server::{ServeError, TlsError};
use dataglot_session::OpenError;
use dataglot_session::resolve::ResolveError;
use dataglot_store::StoreError;
use dataglot_store::copy::CopyError;
use dataglot_vault::VaultError;
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};

/// The exit codes; `--help` and `docs/cli.md` list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// A fault of ours, or a server that failed while running.
    Internal = 1,
    /// Command line or configuration. (clap uses the same.)
    Usage = 2,
    /// The store cannot be opened.
    Store = 3,
    /// The secret key.
    Key = 4,
    /// The address cannot be listened on.
    Listen = 5,
    /// The schema of the store is not as it should be, or not yet.
    Schema = 6,
    /// There is no copy: the target is as it was, or empty.
    NotCopied = 7,
    /// There is no good copy, and what was written is still there.
    BadCopy = 8,
    /// A new store, and no password for its superuser.
    NoAdmin = 9,
    /// Some secrets could not be resolved.
    Unresolved = 10,
    /// Something that is sealed does not open, or a key is still needed.
    Rekey = 11,
    /// The server that was to change its keys cannot be reached, or has refused.
    RekeyServer = 12,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    report: Box<dyn Diagnostic + Send + Sync>,
}

/// A diagnostic without a source text.
#[derive(Debug)]
struct Plain {
    message: String,
    help: Option<String>,
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Plain {}

impl Diagnostic for Plain {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>, help: Option<String>) -> Self {
        Failure { exit, report: Box::new(Plain { message: message.into(), help }) }
    }

    /// An operation of the operating system that failed.
    pub(crate) fn io(exit: Exit, doing: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::new(exit, format!("{doing}: {error}"), None)
    }

    /// A key in a variable that is no key.
    pub(crate) fn of_variable(variable: &str, error: &VaultError) -> Self {
        Self::new(Exit::Key, format!("variable {variable}: {error}"), error.hint())
    }

    pub(crate) fn problem(exit: Exit, problem: &dyn Problem) -> Self {
        let help = [problem.detail(), problem.hint()].into_iter().flatten().collect::<Vec<_>>().join(" ");
        Self::new(exit, problem.to_string(), Some(help).filter(|h| !h.is_empty()))
    }

    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }

    /// Prints one line that says what is wrong, then what to do about it; where the fault is in a file,
    /// the place too.
    pub(crate) fn print(&self) {
        let mut text = String::new();
        if self.report.source_code().is_some() && self.report.labels().is_some() {
            let fancy = std::io::stderr().is_terminal();
            let theme = if fancy { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
            let handler = GraphicalReportHandler::new_themed(theme);
            if handler.render_report(&mut text, self.report.as_ref()).is_ok() {
                let _ = write!(std::io::stderr(), "error:\n{text}");
                return;
            }
        }
        text = format!("error: {}\n", self.report);
        if let Some(help) = self.report.help() {
            text.push_str(&format!("help: {help}\n"));
        }
        let _ = write!(std::io::stderr(), "{text}");
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let exit = if matches!(error, ConfigError::AdminPassword { .. }) { Exit::NoAdmin } else { Exit::Usage };
        Failure { exit, report: Box::new(error) }
    }
}

impl From<KeyFileError> for Failure {
    fn from(error: KeyFileError) -> Self {
        Failure { exit: Exit::Key, report: Box::new(error) }
    }
}

impl From<KeyCommandError> for Failure {
    fn from(error: KeyCommandError) -> Self {
        Failure { exit: Exit::Key, report: Box::new(error) }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::problem(Exit::Store, &error)
    }
}

impl From<CopyError> for Failure {
    fn from(error: CopyError) -> Self {
        let exit = match &error {
            CopyError::NotRemoved { .. } => Exit::BadCopy,
            CopyError::Source(_)
            | CopyError::Target(_)
            | CopyError::TargetNotEmpty { .. }
            | CopyError::Exists(_)
            | CopyError::OtherIdentity
            | CopyError::SourceMoved
            | CopyError::Differs { .. } => Exit::NotCopied,
        };
        Self::problem(exit, &error)
    }
}

impl From<VaultError> for Failure {
    fn from(error: VaultError) -> Self {
        Self::problem(Exit::Key, &error)
    }
}

impl From<ResolveError> for Failure {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Store(error) => error.into(),
            ResolveError::Key(error) => error.into(),
            error @ ResolveError::NoOrg { .. } => Self::problem(Exit::Usage, &error),
            error @ (ResolveError::NoSecret { .. }
            | ResolveError::Gone { .. }
            | ResolveError::Sealed { .. }
            | ResolveError::NotOfPlatform { .. }
            | ResolveError::Variable { .. }
            | ResolveError::File { .. }) => Self::problem(Exit::Unresolved, &error),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Store(error) => error.into(),
            OpenError::Key(error) => error.into(),
            error @ (OpenError::NoCanary | OpenError::RetiredKey(_)) => Self::problem(Exit::Key, &error),
        }
    }
}

impl From<Report> for Failure {
    fn from(report: Report) -> Self {
        Self::new(Exit::Internal, report.message, report.hint)
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Tls(error) => error.into(),
            error @ (ServeError::Issuer(_) | ServeError::Directory(_)) => {
                Self::new(Exit::Usage, error.to_string(), None)
            }
            error @ (ServeError::Listen { .. } | ServeError::Http(_)) => {
                Self::new(Exit::Listen, error.to_string(), None)
            }
        }
    }
}

impl From<TlsError> for Failure {
    fn from(error: TlsError) -> Self {
        Self::new(Exit::Usage, error.to_string(), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_do_not_move() {
        let first = [Exit::Internal, Exit::Usage, Exit::Store, Exit::Key, Exit::Listen];
        let later = [Exit::Schema, Exit::NotCopied, Exit::BadCopy, Exit::NoAdmin, Exit::Unresolved];
        let rekey = [Exit::Rekey, Exit::RekeyServer];
        let codes: Vec<u8> = first.into_iter().chain(later).chain(rekey).map(|e| e as u8).collect();
        assert_eq!(codes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    }

    #[test]
    fn errors_of_other_crates_keep_their_texts() {
        let missing = StoreError::Missing { path: "/x".into() };
        let failure = Failure::from(missing.clone());
        assert_eq!((failure.exit(), failure.report.to_string()), (Exit::Store, missing.to_string()));
        assert_eq!(Failure::from(OpenError::Store(missing)).exit(), Exit::Store);
        assert_eq!(Failure::from(OpenError::Key(VaultError::NoKey)).exit(), Exit::Key);
    }
}
