//! The backend for several coordinators: a PostgreSQL database.

mod connect;
mod dsn;
mod error;
pub mod migrate;
mod tls;

pub use connect::{Attempt, ConnectError, ConnectFailure};
pub use dsn::{Dsn, DsnError, Origin};
pub use error::PostgresError;
