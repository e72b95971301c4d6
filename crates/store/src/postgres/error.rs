//! Why a PostgreSQL database does not do as a store.

use dataglot_model::{Problem, SqlState};

use super::connect::ConnectError;
use super::dsn::DsnError;
use super::migrate::MigrationError;

/// What keeps a PostgreSQL database from being a store. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostgresError {
    /// The connection string cannot be used.
    #[error(transparent)]
    Dsn(#[from] DsnError),
    /// No server could be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Its schema is not as it has to be.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// It answers only reads.
    #[error("the server at \"{location}\" is a read replica")]
    Replica {
        /// Where, without any credential.
        location: String,
    },
    /// Between us and the server stands a proxy that gives each transaction another session.
    #[error("there is a transaction-pooling proxy at \"{location}\"")]
    Pooler {
        /// Where, without any credential.
        location: String,
        /// How it showed, as a sentence.
        sign: &'static str,
    },
    /// The server is older than what is supported.
    #[error("the server at \"{location}\" is version {version}, and {oldest} or later is needed")]
    TooOld {
        /// Where, without any credential.
        location: String,
        /// Its version, as it writes it.
        version: String,
        /// The oldest major version that does.
        oldest: u32,
    },
    /// The database cannot hold every text.
    #[error("the database at \"{location}\" has encoding {encoding}, and UTF8 is needed")]
    Encoding {
        /// Where, without any credential.
        location: String,
        /// The name of its encoding.
        encoding: String,
    },
    /// The way leads to another store than it did.
    #[error("the database at \"{location}\" is another store than the one that was opened")]
    AnotherStore {
        /// Where, without any credential.
        location: String,
    },
}

impl Problem for PostgresError {
    fn sqlstate(&self) -> SqlState {
        match self {
            PostgresError::Dsn(error) => error.sqlstate(),
            PostgresError::Connect(error) => error.sqlstate(),
            PostgresError::Migration(error) => error.sqlstate(),
            PostgresError::Replica { .. } | PostgresError::Pooler { .. } => SqlState::CannotConnectNow,
            PostgresError::TooOld { .. } | PostgresError::Encoding { .. } => SqlState::FeatureNotSupported,
            PostgresError::AnotherStore { .. } => SqlState::CannotConnectNow,
        }
    }

    fn detail(&self) -> Option<String> {
        match self {
            PostgresError::Dsn(error) => error.detail(),
            PostgresError::Connect(error) => error.detail(),
            PostgresError::Migration(error) => error.detail(),
            PostgresError::Pooler { sign, .. } => Some((*sign).to_owned()),
            PostgresError::Replica { .. } => Some("A store is written, and a replica takes no writes.".to_owned()),
            PostgresError::TooOld { .. } | PostgresError::Encoding { .. } | PostgresError::AnotherStore { .. } => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            PostgresError::Dsn(error) => error.hint(),
            PostgresError::Connect(error) => error.hint(),
            PostgresError::Migration(error) => error.hint(),
            PostgresError::Replica { .. } => {
                Some("Name the primary, or all servers of the cluster: the one that takes writes is chosen.".to_owned())
            }
            PostgresError::Pooler { .. } => {
                Some("Connect to the server itself, or through a proxy in session mode: locks and notifications belong to a session.".to_owned())
            }
            PostgresError::TooOld { .. } => None,
            PostgresError::AnotherStore { .. } => {
                Some("Lead the connection string back, or restart the coordinator to serve the other store.".to_owned())
            }
            PostgresError::Encoding { .. } => Some("Create the database with ENCODING 'UTF8' TEMPLATE template0.".to_owned()),
        }
    }
}
