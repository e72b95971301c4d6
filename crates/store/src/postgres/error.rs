//! Why a PostgreSQL database does not do as a store.

use dataglot_model::{Problem, SqlState};

/// What keeps a PostgreSQL database from being a store. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostgresError {
    /// It answers only reads.
    #[error("the server at \"{location}\" is a read replica")]
    Replica {
        /// Where, without any credential.
        location: String,
    },
}

impl Problem for PostgresError {
    fn sqlstate(&self) -> SqlState {
        match self {
            PostgresError::Replica { .. } => SqlState::CannotConnectNow,
        }
    }
}
