//! Why the schema of a store is not as it has to be, or cannot be made so.

use std::sync::Arc;

use dataglot_model::{Problem, SqlState};

/// Why the schema of a store does not do, or could not be brought up to date. A migration that failed
/// has left nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MigrationError {
    /// A later version has been here.
    #[error(
        "the meta store is of a later version: it has migration {found}, and this version knows migrations up to {known}"
    )]
    Newer {
        /// Its last migration.
        found: i32,
        /// Our last one.
        known: i32,
    },
    /// What was applied is not what this version would apply.
    #[error("migration {number} ({name}) of the meta store is not the one that this version has")]
    Edited {
        /// Which.
        number: i32,
        /// Its name.
        name: String,
    },
    /// A migration was applied that this version does not have, though it has later ones.
    #[error("the meta store has a migration {number} ({name}), which this version does not have")]
    Missing {
        /// Which.
        number: i32,
        /// Its name.
        name: String,
    },
    /// A later migration was applied without this one.
    #[error("the meta store lacks migration {number} ({name}), though a later one has been applied")]
    Gap {
        /// Which.
        number: i32,
        /// Its name.
        name: String,
    },
    /// Migrations are to be applied, and the role may not.
    #[error("role \"{role}\" may not bring the schema of the meta store up to date: {denied}")]
    NoRights {
        /// The role that was used.
        role: String,
        /// What it may not do.
        denied: &'static str,
        /// What an administrator runs to let it.
        statement: String,
        /// What an administrator runs to do it for the role.
        command: String,
    },
    /// The expected schema cannot be built beside the store's.
    #[error("role \"{role}\" may not create a schema to compare with")]
    NoScratch {
        /// The role that was used.
        role: String,
        /// What an administrator runs to let it.
        statement: String,
    },
    /// The schema is as it has to be, but the role may not work with it.
    #[error("role \"{role}\" lacks privileges on the meta store")]
    NotGranted {
        /// The role.
        role: String,
        /// What it lacks: `UPDATE on heads`.
        missing: Vec<String>,
        /// What an administrator runs.
        command: String,
    },
    /// The role that was to be granted the use of the store is not there.
    #[error("role \"{role}\" does not exist")]
    NoSuchRole {
        /// Which.
        role: String,
        /// What an administrator runs to make it.
        statement: String,
    },
    /// Another process is at it, and did not end in time.
    #[error("another process is changing the schema of the meta store")]
    Busy {
        /// Its backend.
        pid: Option<i32>,
    },
    /// Names and texts of any language have to fit.
    #[error("the database of the meta store has encoding {found}")]
    Encoding {
        /// Its encoding.
        found: String,
    },
    /// The schema uses what this server does not have.
    #[error("the server of the meta store has version {found}")]
    Server {
        /// Its version.
        found: String,
    },
    /// It was to be made as a copy of another store, and is one already.
    #[error("the database holds another store")]
    OtherStore,
    /// A migration failed.
    #[error("migration {number} ({name}) failed")]
    Failed {
        /// Which.
        number: i32,
        /// Its name.
        name: &'static str,
        /// What the server said.
        reason: ServerError,
    },
    /// Another statement failed.
    #[error("could not {doing}")]
    Statement {
        /// A verb and its object.
        doing: &'static str,
        /// What the server said.
        reason: ServerError,
    },
    /// The connection was lost. What had begun has left nothing, or all.
    #[error("the connection to the meta store was lost")]
    ConnectionLost,
    /// A fault of ours, or of the operating system.
    #[error("internal error in the migration of the meta store")]
    Internal,
}

/// An error of the server, as far as it can be shown: these statements hold no value of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// Its SQLSTATE.
    pub code: Arc<str>,
    /// Its message.
    pub message: Arc<str>,
}

impl MigrationError {
    /// An error while `doing` something.
    pub(super) fn statement(doing: &'static str, error: &tokio_postgres::Error) -> Self {
        match server_error(error) {
            Some(reason) => MigrationError::Statement { doing, reason },
            None => MigrationError::ConnectionLost,
        }
    }
}

/// What the server said; `None`: it was not the server.
pub(super) fn server_error(error: &tokio_postgres::Error) -> Option<ServerError> {
    let Some(db) = error.as_db_error() else {
        tracing::error!(%error, "meta store: the connection failed in a migration");
        return None;
    };
    Some(ServerError { code: db.code().code().into(), message: db.message().into() })
}

impl Problem for MigrationError {
    fn sqlstate(&self) -> SqlState {
        match self {
            MigrationError::Newer { .. } | MigrationError::Encoding { .. } | MigrationError::Server { .. } => {
                SqlState::FeatureNotSupported
            }
            MigrationError::Edited { .. }
            | MigrationError::Missing { .. }
            | MigrationError::Gap { .. }
            | MigrationError::OtherStore => SqlState::ObjectNotInPrerequisiteState,
            MigrationError::NoRights { .. } | MigrationError::NoScratch { .. } | MigrationError::NotGranted { .. } => {
                SqlState::InsufficientPrivilege
            }
            MigrationError::NoSuchRole { .. } => SqlState::UndefinedObject,
            MigrationError::Busy { .. } => SqlState::LockNotAvailable,
            MigrationError::Failed { .. } | MigrationError::Statement { .. } => SqlState::SystemError,
            MigrationError::ConnectionLost => SqlState::ConnectionFailure,
            MigrationError::Internal => SqlState::InternalError,
        }
    }

    fn detail(&self) -> Option<String> {
        match self {
            MigrationError::Edited { .. } => {
                Some("The checksum that was recorded when it was applied is another one.".to_owned())
            }
            MigrationError::NotGranted { missing, .. } => Some(format!("It lacks {}.", missing.join(", "))),
            MigrationError::Busy { pid } => pid.map(|pid| format!("Process {pid} of the server holds the lock.")),
            MigrationError::Failed { reason, .. } | MigrationError::Statement { reason, .. } => {
                let ServerError { code, message } = reason;
                Some(format!("The server says: {message} ({code})."))
            }
            MigrationError::Newer { .. }
            | MigrationError::Missing { .. }
            | MigrationError::Gap { .. }
            | MigrationError::NoRights { .. }
            | MigrationError::NoScratch { .. }
            | MigrationError::NoSuchRole { .. }
            | MigrationError::Encoding { .. }
            | MigrationError::Server { .. }
            | MigrationError::OtherStore
            | MigrationError::ConnectionLost
            | MigrationError::Internal => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            MigrationError::Newer { .. } => {
                Some("Run the version that made it, or a later one; the store was left as it is.".to_owned())
            }
            MigrationError::Edited { .. } | MigrationError::Missing { .. } | MigrationError::Gap { .. } => Some(
                "The schema was made by another program than a release of this one. \"dataglot migrate status\" \
                 shows what was applied, by whom and when; the store was left as it is."
                    .to_owned(),
            ),
            MigrationError::NoRights { statement, command, .. } => {
                Some(format!("An administrator runs\n{command}\nor lets the role do it:\n{statement}"))
            }
            MigrationError::NoScratch { statement, .. } => {
                Some(format!("Nothing of it stays. An administrator runs\n{statement}"))
            }
            MigrationError::NotGranted { command, .. } => Some(format!("The owner of the schema runs\n{command}")),
            MigrationError::NoSuchRole { statement, .. } => Some(format!("An administrator runs\n{statement}")),
            MigrationError::Busy { .. } => Some("Wait for it to end, and try again.".to_owned()),
            MigrationError::Encoding { .. } => Some(
                "Use a database that was made with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0.".to_owned(),
            ),
            MigrationError::Server { .. } => Some("PostgreSQL 14 or later is needed.".to_owned()),
            MigrationError::OtherStore => Some("Copy into a database of its own.".to_owned()),
            MigrationError::Failed { .. } => {
                Some("It left nothing behind. Try again when the cause is gone.".to_owned())
            }
            MigrationError::ConnectionLost => Some("Try again; what is done is not done twice.".to_owned()),
            MigrationError::Statement { .. } | MigrationError::Internal => None,
        }
    }
}
