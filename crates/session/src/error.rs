//! What can go wrong in a session, in the one form in which it reaches a client.
//!
//! Errors of other crates arrive here as [`Problem`]s and keep their texts. A bug of ours becomes
//! `XX000` with an id; what is known of it is logged under that id and not sent.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use dataglot_model::{Problem, Report, Span, SqlState};

/// An error of a statement. Boxed: results that carry it stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionError(Box<Report>);

impl SessionError {
    /// An error without detail, hint or place.
    pub(crate) fn new(sqlstate: SqlState, message: impl Into<String>) -> Self {
        SessionError(Box::new(Report::error(sqlstate, message)))
    }

    /// The same, as a problem of another crate tells it.
    pub(crate) fn of(problem: &impl Problem) -> Self {
        SessionError(Box::new(Report::from(problem)))
    }

    /// A bug: XX000, with an id under which the log has `what` and where. `what` is our own text.
    pub(crate) fn bug(what: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let id = format!("{:x}-{:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        tracing::error!(id, what, "internal error");
        Self::new(SqlState::InternalError, format!("internal error {id}"))
            .with_hint("This is a fault of dataglot's. The server's log says more under this number.")
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        SessionError(Box::new(self.0.with_hint(hint)))
    }

    pub(crate) fn with_detail(self, detail: impl Into<String>) -> Self {
        SessionError(Box::new(self.0.with_detail(detail)))
    }

    pub(crate) fn at(self, span: Span) -> Self {
        SessionError(Box::new(self.0.at(span)))
    }

    /// The same without a place: the text that it points into is not the one that the client sent.
    pub(crate) fn nowhere(mut self) -> Self {
        self.0.span = None;
        self
    }

    /// The same, ending the connection.
    pub(crate) fn fatal(self) -> Self {
        SessionError(Box::new(self.0.fatal()))
    }

    /// Its SQLSTATE.
    pub(crate) fn code(&self) -> SqlState {
        self.0.sqlstate
    }

    /// As it is sent.
    pub(crate) fn into_report(self) -> Report {
        *self.0
    }

    /// `what` is of the language, and not (yet) of ours.
    pub(crate) fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(SqlState::FeatureNotSupported, format!("{what} is not supported"))
    }

    /// The transaction has failed, and waits for its end.
    pub(crate) fn in_failed_transaction() -> Self {
        Self::new(
            SqlState::InFailedTransaction,
            "current transaction is aborted, commands ignored until end of transaction block",
        )
    }

    /// `tag` changes something, and the transaction is read-only.
    pub(crate) fn read_only(tag: &str) -> Self {
        Self::new(SqlState::ReadOnlyTransaction, format!("cannot execute {tag} in a read-only transaction"))
    }

    /// `tag` is for transaction blocks.
    pub(crate) fn needs_block(tag: &str) -> Self {
        Self::new(SqlState::NoActiveTransaction, format!("{tag} can only be used in transaction blocks"))
    }

    /// The client asked for it.
    pub(crate) fn canceled() -> Self {
        Self::new(SqlState::QueryCanceled, "canceling statement due to user request")
    }

    /// `statement_timeout` is over.
    pub(crate) fn timed_out() -> Self {
        Self::new(SqlState::QueryCanceled, "canceling statement due to statement timeout")
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for SessionError {}

impl Problem for SessionError {
    fn sqlstate(&self) -> SqlState {
        self.0.sqlstate
    }
    fn detail(&self) -> Option<String> {
        self.0.detail.clone()
    }
    fn hint(&self) -> Option<String> {
        self.0.hint.clone()
    }
    fn span(&self) -> Option<Span> {
        self.0.span
    }
}

/// Makes a panic say where it happened, and nothing else: its text may hold a piece of a statement.
/// For the process to call once, before it serves anybody.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        let location = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(location, "panic");
    }));
}
