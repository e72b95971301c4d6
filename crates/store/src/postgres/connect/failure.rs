//! Why no server could be used, in our own words.
//!
//! What a server says goes to the log at debug level. Errors carry its SQLSTATE, never its text.

use std::error::Error;
use std::fmt;
use std::io;

use dataglot_model::{Problem, SqlState};
use tokio_postgres::error::SqlState as Code;

use crate::postgres::tls;

/// Why one server could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectFailure {
    /// The name has no address.
    #[error("the host name could not be resolved")]
    Resolve,
    /// Nothing listens there.
    #[error("connection refused")]
    Refused,
    /// There is no socket in the directory.
    #[error("there is no socket of a server there")]
    NoSocket,
    /// It did not answer in time.
    #[error("timeout expired")]
    Timeout,
    /// The operating system's other reasons.
    #[error("{reason}")]
    Unreachable {
        /// The kind of error.
        reason: String,
    },
    /// TLS is demanded, and the server has none.
    #[error("the server does not support TLS, and sslmode requires it")]
    NoTls,
    /// The handshake failed, or could not be begun.
    #[error("TLS: {reason}")]
    Tls {
        /// Why.
        reason: String,
    },
    /// Login refused.
    #[error("login refused (SQLSTATE {code})")]
    Authentication {
        /// The server's SQLSTATE.
        code: String,
    },
    /// The server wants a password and there is none.
    #[error("no password supplied")]
    NoPassword,
    /// The ways to log in do not match.
    #[error("the server asks for a way to log in that is not supported, or without channel binding")]
    LoginMethod,
    /// There is no such database.
    #[error("the database does not exist")]
    NoDatabase,
    /// The role may not connect to it.
    #[error("permission to connect to the database denied")]
    NotAllowed,
    /// All connections are taken.
    #[error("too many connections")]
    TooManyConnections,
    /// It starts, stops or recovers.
    #[error("the server is starting up or shutting down")]
    NotReady,
    /// It answers only reads, and `target_session_attrs` wants more.
    #[error("the server is a read replica")]
    Standby,
    /// Its sessions are read-only, though it is no replica.
    #[error("the session is read-only")]
    ReadOnly,
    /// It takes writes, and `target_session_attrs` wants none that does.
    #[error("the server is not read-only")]
    Primary,
    /// It refused for another reason.
    #[error("the server refused (SQLSTATE {code})")]
    Rejected {
        /// Its SQLSTATE.
        code: String,
    },
    /// It broke off.
    #[error("the server closed the connection")]
    Closed,
    /// What it said is no PostgreSQL.
    #[error("the answer is not a PostgreSQL server's")]
    NotPostgres,
}

/// That no server could be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectError {
    /// Each server that was tried, and what it met, in order. Never empty.
    pub attempts: Vec<Attempt>,
}

/// One try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The server: `host "x" port 5432`.
    pub server: String,
    /// What happened.
    pub failure: ConnectFailure,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.attempts.as_slice() {
            [] => f.write_str("could not connect to a PostgreSQL server"),
            [Attempt { server, failure }] => {
                write!(f, "could not connect to the PostgreSQL server at {server}: {failure}")
            }
            [.., Attempt { server, failure }] => {
                write!(
                    f,
                    "could not connect to any of {} PostgreSQL servers, at last at {server}: {failure}",
                    self.attempts.len()
                )
            }
        }
    }
}

impl Error for ConnectError {}

impl Problem for ConnectError {
    fn sqlstate(&self) -> SqlState {
        // Whatever the server said to us: to a client of ours, its own login is not what failed.
        SqlState::CannotConnectNow
    }

    fn detail(&self) -> Option<String> {
        let lines: Vec<_> = self.attempts.iter().map(|a| format!("{}: {}", a.server, a.failure)).collect();
        (lines.len() > 1).then(|| lines.join("\n"))
    }

    fn hint(&self) -> Option<String> {
        let hint = match &self.attempts.last()?.failure {
            ConnectFailure::Refused | ConnectFailure::NoSocket => {
                "Is the server running there, and does it accept connections of this kind?"
            }
            ConnectFailure::NoTls => "Turn ssl on at the server, or choose a weaker sslmode.",
            ConnectFailure::Tls { .. } => {
                "sslrootcert names the file of trusted authorities. The certificate needs the host name as a subject alternative name."
            }
            ConnectFailure::Authentication { .. } | ConnectFailure::LoginMethod => {
                "Compare user, password and sslmode with the server's pg_hba.conf; its log says more."
            }
            ConnectFailure::NoPassword => "Give it by a password file, PGPASSWORD or the connection string.",
            ConnectFailure::NoDatabase => "Create the database first.",
            ConnectFailure::NotAllowed => "Grant CONNECT on the database to the role.",
            ConnectFailure::TooManyConnections => "Raise max_connections or the role's connection limit.",
            ConnectFailure::Standby | ConnectFailure::ReadOnly => "Name the primary, or all servers of the cluster.",
            ConnectFailure::Resolve
            | ConnectFailure::Timeout
            | ConnectFailure::Unreachable { .. }
            | ConnectFailure::NotReady
            | ConnectFailure::Primary
            | ConnectFailure::Rejected { .. }
            | ConnectFailure::Closed
            | ConnectFailure::NotPostgres => return None,
        };
        Some(hint.to_owned())
    }
}

impl ConnectError {
    /// Whether every server that answered takes no writes.
    pub(crate) fn only_replicas(&self) -> bool {
        let read_only = |a: &Attempt| matches!(a.failure, ConnectFailure::Standby | ConnectFailure::ReadOnly);
        self.attempts.last().is_some_and(read_only)
    }
}

impl ConnectFailure {
    /// Whether another server is worth a try. As in libpq, a login that was refused counts for all.
    pub(super) fn is_of_this_server(&self) -> bool {
        match self {
            ConnectFailure::Authentication { .. }
            | ConnectFailure::NoPassword
            | ConnectFailure::LoginMethod
            | ConnectFailure::NoDatabase
            | ConnectFailure::NotAllowed => false,
            ConnectFailure::Resolve
            | ConnectFailure::Refused
            | ConnectFailure::NoSocket
            | ConnectFailure::Timeout
            | ConnectFailure::Unreachable { .. }
            | ConnectFailure::NoTls
            | ConnectFailure::Tls { .. }
            | ConnectFailure::TooManyConnections
            | ConnectFailure::NotReady
            | ConnectFailure::Standby
            | ConnectFailure::ReadOnly
            | ConnectFailure::Primary
            | ConnectFailure::Rejected { .. }
            | ConnectFailure::Closed
            | ConnectFailure::NotPostgres => true,
        }
    }

    /// What the driver's error comes down to.
    pub(in crate::postgres) fn from_driver(error: &tokio_postgres::Error) -> Self {
        if let Some(said) = error.as_db_error() {
            tracing::debug!(code = said.code().code(), message = said.message(), "the server refused a connection");
            return Self::from_code(said.code());
        }
        // The driver keeps the kind of its errors to itself; a test holds it to these words.
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        match error.to_string().as_str() {
            "error performing TLS handshake" if cause == "server does not support TLS" => return ConnectFailure::NoTls,
            "error performing TLS handshake" => {
                let io = error.source().and_then(|e| e.downcast_ref::<io::Error>());
                let inner = io.and_then(io::Error::get_ref).and_then(|e| e.downcast_ref::<rustls::Error>());
                let reason = match (inner, io) {
                    (Some(inner), _) => tls::reason(inner),
                    (None, Some(io)) => io.kind().to_string(),
                    (None, None) => "the handshake failed".to_owned(),
                };
                return ConnectFailure::Tls { reason };
            }
            "invalid configuration" if cause == "password missing" => return ConnectFailure::NoPassword,
            "authentication error" => return ConnectFailure::LoginMethod,
            "connection closed" => return ConnectFailure::Closed,
            "unexpected message from server" | "error parsing response from server" => {
                return ConnectFailure::NotPostgres;
            }
            _ => {}
        }
        match error.source().and_then(|e| e.downcast_ref::<io::Error>()) {
            Some(io) => Self::from_io(io),
            None => ConnectFailure::Closed,
        }
    }

    /// What an error of the operating system comes down to. What the driver throws into the same type is a
    /// TLS alert that came after the handshake, or a message that it could not read.
    fn from_io(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        if let Some(inner) = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
            return ConnectFailure::Tls { reason: tls::reason(inner) };
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "the operating system's kinds, which grow")]
        match error.kind() {
            Kind::ConnectionRefused => ConnectFailure::Refused,
            Kind::NotFound => ConnectFailure::NoSocket,
            Kind::TimedOut => ConnectFailure::Timeout,
            Kind::UnexpectedEof | Kind::ConnectionReset | Kind::BrokenPipe | Kind::ConnectionAborted => {
                ConnectFailure::Closed
            }
            Kind::InvalidData | Kind::InvalidInput => ConnectFailure::NotPostgres,
            kind => ConnectFailure::Unreachable { reason: kind.to_string() },
        }
    }

    fn from_code(code: &Code) -> Self {
        match code.code() {
            "3D000" => ConnectFailure::NoDatabase,
            "42501" => ConnectFailure::NotAllowed,
            "53300" => ConnectFailure::TooManyConnections,
            "57P01" | "57P02" | "57P03" => ConnectFailure::NotReady,
            code if code.starts_with("28") => ConnectFailure::Authentication { code: code.to_owned() },
            code => ConnectFailure::Rejected { code: code.to_owned() },
        }
    }
}
