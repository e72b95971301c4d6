//! The backend for several coordinators: a PostgreSQL database.

mod error;

pub use error::PostgresError;
