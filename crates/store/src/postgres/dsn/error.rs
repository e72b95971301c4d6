//! Why a connection string does not do. No variant holds a value that was given.

use std::fmt;
use std::path::PathBuf;

use dataglot_model::{Problem, SqlState};

/// Where a setting was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The connection string itself.
    Text,
    /// A line of a service file.
    Service {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Text => f.write_str("the connection string"),
            Origin::Service { path, line } => write!(f, "service file \"{}\", line {line}", path.display()),
            Origin::Variable(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// A connection string that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DsnError {
    /// No such keyword. It is `None` where it might be a piece of a password.
    #[error("invalid connection option{}", keyword.as_ref().map(|k| format!(" \"{k}\"")).unwrap_or_default())]
    UnknownKeyword {
        /// What stood where a keyword belongs.
        keyword: Option<String>,
        /// What was probably meant.
        nearest: Option<&'static str>,
        /// Where.
        origin: Origin,
    },
    /// libpq has it, this client does not.
    #[error("connection option \"{keyword}\" is not supported{}", if *value { " with this value" } else { "" })]
    Unsupported {
        /// Which.
        keyword: &'static str,
        /// Whether another value would do.
        value: bool,
        /// What to do instead, as a sentence.
        hint: &'static str,
        /// Where.
        origin: Origin,
    },
    /// A value that the keyword does not take.
    #[error("invalid value for connection option \"{keyword}\"")]
    Invalid {
        /// Which.
        keyword: &'static str,
        /// What it takes, as the end of a sentence.
        expected: &'static str,
        /// Where.
        origin: Origin,
    },
    /// Two options that exclude each other.
    #[error("connection options \"{first}\" and \"{second}\" do not go together")]
    Conflict {
        /// One.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// Why, as a sentence.
        detail: &'static str,
    },
    /// Lists of hosts, addresses and ports of different lengths.
    #[error("could not match {found} values of \"{keyword}\" to {hosts} hosts")]
    Count {
        /// The list that does not fit.
        keyword: &'static str,
        /// Its length.
        found: usize,
        /// How many hosts there are.
        hosts: usize,
    },
    /// The text breaks the syntax of keywords and values.
    #[error("{what} in connection string{}", after.map(|k| format!(", after \"{k}\"")).unwrap_or_default())]
    Syntax {
        /// How.
        what: &'static str,
        /// The last keyword that was read.
        after: Option<&'static str>,
    },
    /// The text breaks the syntax of URIs.
    #[error("invalid connection URI: {what}")]
    Uri {
        /// How.
        what: &'static str,
    },
    /// The service is in none of the files.
    #[error("definition of the service was not found")]
    NoService {
        /// Where it was looked for.
        files: Vec<PathBuf>,
    },
    /// A file that was named or is needed cannot be read.
    #[error("could not read {kind} \"{}\"", path.display())]
    Unreadable {
        /// What it is.
        kind: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        reason: String,
    },
    /// A line of the service file that is none.
    #[error("syntax error in service file \"{}\", line {line}", path.display())]
    ServiceLine {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
    /// No user was named and the account of the process has no name.
    #[error("no user name was given")]
    NoUser,
}

impl Problem for DsnError {
    fn sqlstate(&self) -> SqlState {
        match self {
            DsnError::UnknownKeyword { .. } => SqlState::UndefinedParameter,
            DsnError::Unsupported { .. } => SqlState::FeatureNotSupported,
            DsnError::Invalid { .. } | DsnError::Conflict { .. } | DsnError::Count { .. } | DsnError::NoUser => {
                SqlState::InvalidParameterValue
            }
            DsnError::Syntax { .. } | DsnError::Uri { .. } | DsnError::ServiceLine { .. } => SqlState::SyntaxError,
            DsnError::NoService { .. } => SqlState::UndefinedObject,
            DsnError::Unreadable { .. } => SqlState::IoError,
        }
    }

    fn detail(&self) -> Option<String> {
        let read_from = |origin: &Origin| match origin {
            Origin::Text => None,
            Origin::Service { .. } | Origin::Variable(_) => Some(format!("It was read from {origin}.")),
        };
        match self {
            DsnError::UnknownKeyword { origin, .. } | DsnError::Unsupported { origin, .. } => read_from(origin),
            DsnError::Invalid { expected, origin, .. } => {
                let expected = format!("It takes {expected}.");
                Some(match read_from(origin) {
                    Some(origin) => format!("{expected} {origin}"),
                    None => expected,
                })
            }
            DsnError::Conflict { detail, .. } => Some((*detail).to_owned()),
            DsnError::NoService { files } if files.is_empty() => Some("There is no service file.".to_owned()),
            DsnError::NoService { files } => {
                let files: Vec<_> = files.iter().map(|f| format!("\"{}\"", f.display())).collect();
                Some(format!("It was looked for in {}.", files.join(" and ")))
            }
            DsnError::Unreadable { reason, .. } => Some(format!("The operating system says: {reason}.")),
            DsnError::Count { .. }
            | DsnError::Syntax { .. }
            | DsnError::Uri { .. }
            | DsnError::ServiceLine { .. }
            | DsnError::NoUser => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            DsnError::UnknownKeyword { nearest: Some(nearest), .. } => Some(format!("Did you mean \"{nearest}\"?")),
            DsnError::UnknownKeyword { keyword: None, .. } | DsnError::Syntax { .. } => Some(
                "Put values with blanks in single quotes, with \\' and \\\\ for quotes and backslashes in them."
                    .to_owned(),
            ),
            DsnError::Unsupported { hint, .. } => Some((*hint).to_owned()),
            DsnError::Uri { .. } => {
                Some("Write special characters in any part as %XX, for example @ as %40 and / as %2F.".to_owned())
            }
            DsnError::Count { .. } => Some("Give one value for each host, or a single port for all.".to_owned()),
            DsnError::NoUser => Some("Add user=… to the connection string.".to_owned()),
            DsnError::UnknownKeyword { .. }
            | DsnError::Invalid { .. }
            | DsnError::Conflict { .. }
            | DsnError::NoService { .. }
            | DsnError::Unreadable { .. }
            | DsnError::ServiceLine { .. } => None,
        }
    }
}
