//! What a session says: the answers of PostgreSQL's protocol, before they are bytes.

use std::sync::Arc;

use dataglot_model::{Notice, Report};

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type: an OID that every driver knows.
    pub oid: u32,
    /// The type's length in bytes; -1: it varies.
    pub type_len: i16,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// The types of a prepared statement's parameters.
    ParameterDescription(Vec<u32>),
    /// The columns of the rows that follow, and the format of each: 0 text, 1 binary.
    RowDescription(Arc<[Column]>, Vec<i16>),
    /// The statement or portal answers no rows.
    NoData,
    /// A row; each value is encoded in its column's format. `None`: NULL.
    Row(Vec<Option<Vec<u8>>>),
    /// A statement is done; its tag.
    Complete(String),
    /// The query string held no statement.
    EmptyQuery,
    /// Parse is done.
    ParseComplete,
    /// Bind is done.
    BindComplete,
    /// Close is done.
    CloseComplete,
    /// Execute stopped at its row limit.
    PortalSuspended,
    /// A notice or a warning.
    Notice(Notice),
    /// A statement failed.
    Error {
        /// How. Severity `Fatal` ends the connection.
        report: Report,
        /// Where in the query string, 1-based, in characters.
        position: Option<usize>,
    },
    /// A reported setting has a new value.
    ParameterStatus(String, String),
}

/// Where answers go, in order.
pub trait Sink: Send {
    /// Takes the next answer.
    fn send(&mut self, response: Response);
}

impl Sink for Vec<Response> {
    fn send(&mut self, response: Response) {
        self.push(response);
    }
}
