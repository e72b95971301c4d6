//! Why a peer was not let in, and all that it is told.
//!
//! The texts are a closed list: no version, path, state of a user or message of the store reaches a
//! peer that has not logged in. What more is known goes to the log.

use dataglot_model::{Problem, Report, SqlState};

/// Why a connection ended before its login did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// A packet's length is out of bounds.
    #[error("invalid length of startup packet")]
    PacketLength,
    /// A StartupMessage is not a list of texts.
    #[error("invalid startup packet layout")]
    PacketLayout,
    /// Neither protocol 3.x nor a known request.
    #[error("unsupported frontend protocol")]
    Protocol,
    /// A request for encryption was made twice.
    #[error("encryption was requested twice")]
    RequestedTwice,
    /// A startup parameter is not UTF-8.
    #[error("startup parameters must be valid UTF-8")]
    NotUtf8,
    /// A startup parameter is there twice.
    #[error("startup parameter specified twice")]
    DuplicateParameter,
    /// No user is named.
    #[error("no user name specified in startup packet")]
    NoUser,
    /// `replication` is set.
    #[error("replication connections are not supported")]
    Replication,
    /// As many connections as there may be in all.
    #[error("too many connections")]
    Full,
    /// As many connections as there may be from one address.
    #[error("too many connections from this address")]
    AddressFull,
    /// Trust is for loopback peers, unless configured otherwise.
    #[error("this server lets in local connections only")]
    NotLocal,
    /// It is in clear where it has to be encrypted. Nothing has been asked yet.
    #[error("this server takes encrypted connections only")]
    Unencrypted,
    /// Another message came where a proof was asked for.
    #[error("expected password response")]
    NotACredential,
    /// A proof is longer than any can be.
    #[error("invalid password packet size")]
    CredentialLength,
    /// The messages of a login by SCRAM are none.
    #[error("malformed SASL exchange")]
    Sasl,
    /// A proof is none: the password is wrong, or there is none, or no such user, or it may not log in.
    #[error("password authentication failed for user \"{}\"", printable(.user))]
    Denied {
        /// As the client named it.
        user: String,
    },
    /// The certificate is not the user's, or there is none.
    #[error("certificate authentication failed for user \"{}\"", printable(.user))]
    Certificate {
        /// As the client named it.
        user: String,
    },
    /// No rule lets it in, or one keeps it out.
    #[error("this server has no rule that lets this connection in")]
    NoRule,
    /// The seats that are left are for superusers.
    #[error("remaining connection slots are reserved for superusers")]
    Reserved,
    /// There is no such user or database, or it may not log in. Which of them is not said.
    #[error("login failed")]
    Login,
    /// The user has as many sessions as its CONNECTION LIMIT allows.
    #[error("too many connections for role")]
    RoleFull,
    /// The session refuses a startup parameter of a user who has been let in: its words are for that user.
    #[error("{}", .0.message)]
    Parameter(Report),
    /// Login took too long.
    #[error("canceling authentication due to timeout")]
    TimedOut,
    /// The server ends.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// A shared store was not reached for so long that it is not known any more who may log in.
    #[error("the server can't reach its store, and lets nobody in until it can")]
    OutOfReach,
    /// Something failed that the peer can't help. The log has it.
    #[error("the server can't start a session now")]
    Unavailable,
}

/// A user's name as it may be printed: it has passed no check yet.
fn printable(user: &str) -> String {
    user.chars().filter(|c| !c.is_control()).take(63).collect()
}

impl Refusal {
    /// What a session's refusal to start is told as.
    pub(crate) fn of_session(report: Report) -> Self {
        let code = report.sqlstate.code();
        match code.get(..2) {
            Some("28" | "3D") => {
                tracing::info!(code, reason = ?report.message, "login failed");
                Refusal::Login
            }
            Some("53") => Refusal::RoleFull,
            Some("22" | "42" | "55" | "0A") => Refusal::Parameter(report.fatal()),
            Some("57") if report.sqlstate == SqlState::CannotConnectNow => Refusal::OutOfReach,
            Some("57") => Refusal::ShuttingDown,
            _ => {
                tracing::error!(code, message = ?report.message, "session not started");
                Refusal::Unavailable
            }
        }
    }

    /// What it is told as that the store can't say who a user is, or what a database means. Of the report nothing is
    /// told: nobody has proved anything yet.
    pub(crate) fn of_store(report: &Report) -> Self {
        if report.sqlstate == SqlState::CannotConnectNow {
            return Refusal::OutOfReach;
        }
        tracing::error!(code = report.sqlstate.code(), message = ?report.message, "the store was not asked");
        Refusal::Unavailable
    }

    /// As it is sent: FATAL always.
    pub(crate) fn report(&self) -> Report {
        if let Refusal::Parameter(report) = self { report.clone().fatal() } else { Report::from(self).fatal() }
    }
}

impl Problem for Refusal {
    fn hint(&self) -> Option<String> {
        match self {
            Refusal::Login => Some("Check the name of the user and that of the database.".to_owned()),
            Refusal::Protocol => Some("This server speaks protocol 3.0 to 3.2.".to_owned()),
            Refusal::NoRule => Some("The operator lists addresses, databases and users under [[hba]].".to_owned()),
            Refusal::NotLocal => Some("Connect from the machine that the server runs on.".to_owned()),
            Refusal::Unencrypted => Some("Connect with sslmode=require, or better verify-full.".to_owned()),
            Refusal::OutOfReach => Some("Try another server, or again later.".to_owned()),
            Refusal::PacketLength
            | Refusal::PacketLayout
            | Refusal::RequestedTwice
            | Refusal::NotUtf8
            | Refusal::DuplicateParameter
            | Refusal::NoUser
            | Refusal::Replication
            | Refusal::Full
            | Refusal::AddressFull
            | Refusal::NotACredential
            | Refusal::CredentialLength
            | Refusal::Sasl
            | Refusal::Denied { .. }
            | Refusal::Certificate { .. }
            | Refusal::Reserved
            | Refusal::RoleFull
            | Refusal::Parameter(_)
            | Refusal::TimedOut
            | Refusal::ShuttingDown
            | Refusal::Unavailable => None,
        }
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            Refusal::PacketLength
            | Refusal::PacketLayout
            | Refusal::RequestedTwice
            | Refusal::DuplicateParameter
            | Refusal::NotACredential
            | Refusal::CredentialLength
            | Refusal::Sasl => SqlState::ProtocolViolation,
            Refusal::TimedOut => SqlState::QueryCanceled,
            Refusal::Protocol | Refusal::Replication => SqlState::FeatureNotSupported,
            Refusal::NotUtf8 => SqlState::CharacterNotInRepertoire,
            Refusal::Denied { .. } => SqlState::InvalidPassword,
            Refusal::NoUser
            | Refusal::NotLocal
            | Refusal::NoRule
            | Refusal::Unencrypted
            | Refusal::Certificate { .. }
            | Refusal::Login => SqlState::InvalidAuthorization,
            Refusal::Full | Refusal::AddressFull | Refusal::Reserved | Refusal::RoleFull => {
                SqlState::TooManyConnections
            }
            Refusal::Parameter(report) => report.sqlstate,
            Refusal::ShuttingDown | Refusal::OutOfReach => SqlState::CannotConnectNow,
            Refusal::Unavailable => SqlState::SystemError,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_14_a_missing_org_looks_like_a_missing_user() {
        let of = |state| Refusal::of_session(Report::error(state, "role \"x\" does not exist")).report();
        assert_eq!(of(SqlState::InvalidAuthorization), of(SqlState::UndefinedDatabase));
        assert_eq!(of(SqlState::InvalidPassword), of(SqlState::UndefinedDatabase));
        assert_eq!(of(SqlState::IoError).message, "the server can't start a session now");
        assert_eq!(of(SqlState::InternalError).message, "the server can't start a session now");
    }

    #[test]
    fn w_14_before_the_proof_nobody_learns_what_the_store_said() {
        let of = |state| Refusal::of_store(&Report::error(state, "CANARY-7Q"));
        for state in [
            SqlState::UndefinedParameter,
            SqlState::FeatureNotSupported,
            SqlState::InvalidParameterValue,
            SqlState::ObjectInUse,
            SqlState::DiskFull,
            SqlState::AdminShutdown,
            SqlState::InvalidAuthorization,
            SqlState::InternalError,
        ] {
            assert_eq!(of(state), Refusal::Unavailable, "{state:?}");
        }
        assert_eq!(of(SqlState::CannotConnectNow), Refusal::OutOfReach);
    }

    #[test]
    fn a_store_out_of_reach_is_no_shutdown() {
        let of = |state| Refusal::of_session(Report::error(state, "x"));
        assert_eq!(of(SqlState::CannotConnectNow), Refusal::OutOfReach);
        assert_eq!(of(SqlState::AdminShutdown), Refusal::ShuttingDown);
    }

    #[test]
    fn w_03_all_of_them_are_fatal() {
        for refusal in [Refusal::Login, Refusal::Parameter(Report::error(SqlState::UndefinedParameter, "x"))] {
            assert_eq!(refusal.report().severity, dataglot_model::Severity::Fatal);
        }
    }
}
