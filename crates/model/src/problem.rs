//! What can go wrong, as a client is told of it.
//!
//! Each crate has error enums of its own that implement [`Problem`]; [`Report`] is the flat form in
//! which one of them reaches a client. Texts follow PostgreSQL's manner: the message in lower case
//! without a full stop, DETAIL and HINT as sentences. None of them ever holds a literal of the
//! client's SQL.

use std::fmt;

use crate::{Span, SqlState};

/// An error that a client may see.
pub trait Problem: std::error::Error {
    /// Its SQLSTATE.
    fn sqlstate(&self) -> SqlState;
    /// What else is to be known, in sentences or one fact a line.
    fn detail(&self) -> Option<String> {
        None
    }
    /// What to do about it, in sentences.
    fn hint(&self) -> Option<String> {
        None
    }
    /// Where in the client's text it was found.
    fn span(&self) -> Option<Span> {
        None
    }
}

/// How bad it is. Only `Fatal` ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "PostgreSQL's own words")]
pub enum Severity {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Error,
    Fatal,
}

impl Severity {
    /// The word that goes over the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Debug => "DEBUG",
            Severity::Log => "LOG",
            Severity::Info => "INFO",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
        }
    }
}

/// A [`Problem`] in its last form: nothing is left to be computed but the character position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How bad it is.
    pub severity: Severity,
    /// Its SQLSTATE.
    pub sqlstate: SqlState,
    /// First line, stable text.
    pub message: String,
    /// See [`Problem::detail`].
    pub detail: Option<String>,
    /// See [`Problem::hint`].
    pub hint: Option<String>,
    /// See [`Problem::span`].
    pub span: Option<Span>,
}

impl Report {
    /// An error without detail, hint or place.
    pub fn error(sqlstate: SqlState, message: impl Into<String>) -> Self {
        Report { severity: Severity::Error, sqlstate, message: message.into(), detail: None, hint: None, span: None }
    }

    /// The same report, ending the connection.
    #[must_use]
    pub fn fatal(mut self) -> Self {
        self.severity = Severity::Fatal;
        self
    }

    /// The same report with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same report with a detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same report, pointing at `span`.
    #[must_use]
    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }
}

impl<P: Problem> From<&P> for Report {
    fn from(problem: &P) -> Self {
        Report {
            severity: Severity::Error,
            sqlstate: problem.sqlstate(),
            message: problem.to_string(),
            detail: problem.detail(),
            hint: problem.hint(),
            span: problem.span(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity.as_str(), self.sqlstate.code(), self.message)
    }
}

/// Something that a client is told besides the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// `Notice` or `Warning`.
    pub severity: Severity,
    /// Its SQLSTATE.
    pub sqlstate: SqlState,
    /// First line.
    pub message: String,
    /// What else is to be known.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Notice {
    /// A NOTICE of class 00000.
    pub fn note(message: impl Into<String>) -> Self {
        Self::new(Severity::Notice, SqlState::Successful, message)
    }

    /// A WARNING of class 01000.
    pub fn warning(message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, SqlState::Warning, message)
    }

    /// A notice of any severity and SQLSTATE.
    pub fn new(severity: Severity, sqlstate: SqlState, message: impl Into<String>) -> Self {
        Notice { severity, sqlstate, message: message.into(), detail: None, hint: None }
    }

    /// The same notice with a detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same notice with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
