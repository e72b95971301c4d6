//! What can go wrong with a store.
//!
//! The text of a driver or of the operating system goes to the log, not to a client.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use dataglot_model::{OrgName, Problem, Seq, SqlState};

use crate::{Damage, PostgresError};

/// Who has a store open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// The machine that it runs on.
    pub host: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        if self.host.is_empty() { Ok(()) } else { write!(f, " on {}", self.host) }
    }
}

/// A store that cannot do what it was asked. Nothing was written, unless a variant says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk or the link to the server failed.
    #[error("could not {doing} the meta store")]
    Io {
        /// A verb: `read`, `write`, `open`.
        doing: &'static str,
        /// What the operating system said, without any content.
        reason: Option<Arc<str>>,
    },
    /// No room left. Reads go on.
    #[error("could not write the meta store: no space left on device")]
    DiskFull,
    /// Another process has the file open.
    #[error("store \"{}\" is in use{}", path.display(), holder.as_ref().map(|h| format!(" by {h}")).unwrap_or_default())]
    Locked {
        /// The file.
        path: PathBuf,
        /// Who it is, if known.
        holder: Option<Holder>,
    },
    /// A later version wrote it.
    #[error("store \"{}\" has format {found}, and this version knows formats up to {known}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that we know.
        known: u32,
    },
    /// It is no store of ours. It was left as it was.
    #[error("\"{}\" is not a meta store: {why}", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is no such file, and it was not to be made.
    #[error("store \"{}\" does not exist", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// Others than its owner may open the file.
    #[error("store \"{}\" has mode {mode:04o}: others than its owner may read or write it", path.display())]
    Permissions {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Records whose checksum is wrong, or that do not decode.
    #[error("meta store is damaged: {} unreadable", if damage.len() == 1 { "1 record is".to_owned() } else { format!("{} records are", damage.len()) })]
    Damaged {
        /// Which.
        damage: Vec<Damage>,
    },
    /// An earlier failure left it in doubt what is on disk, and that could not be found out since.
    #[error("the meta store is not available after an earlier I/O error")]
    Poisoned,
    /// Other writers were faster again and again.
    #[error("could not serialize access to the meta store")]
    Contended,
    /// The org is not there (any more).
    #[error("database \"{}\" does not exist", _0.as_str())]
    NoSuchOrg(OrgName),
    /// The server that holds it cannot be reached. Nothing was written.
    #[error("the meta store cannot be reached")]
    Unavailable {
        /// What the last try met, without any content or credential.
        reason: Arc<str>,
    },
    /// The connection to the server was lost before anything was written.
    #[error("the connection to the meta store was lost")]
    ConnectionLost,
    /// Its history is not the one that was seen before: a restored backup, or a replica that was behind
    /// when it took over. It takes no writes until somebody has decided which history holds.
    #[error("the history of database \"{}\" in the meta store is not the one that was seen before", org.as_str())]
    Diverged {
        /// The org.
        org: OrgName,
        /// The transaction that was seen, and is not there any more.
        seen: Seq,
    },
    /// The server that holds it does not do as a store, or not yet.
    #[error(transparent)]
    Postgres(#[from] Box<PostgresError>),
    /// A fault of ours.
    #[error("internal error in the meta store")]
    Internal,
}

impl StoreError {
    /// An I/O error while `doing` something, logged in full.
    pub(crate) fn io(doing: &'static str, error: &std::io::Error) -> Self {
        tracing::error!(doing, %error, "meta store: I/O error");
        if is_disk_full(error) {
            return StoreError::DiskFull;
        }
        StoreError::Io { doing, reason: Some(error.kind().to_string().into()) }
    }
}

/// Whether the error says that there is no room.
pub(crate) fn is_disk_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    [StorageFull, QuotaExceeded, FileTooLarge].contains(&error.kind())
}

impl Problem for StoreError {
    fn sqlstate(&self) -> SqlState {
        match self {
            StoreError::Io { .. } | StoreError::Missing { .. } | StoreError::Poisoned => SqlState::IoError,
            StoreError::DiskFull => SqlState::DiskFull,
            StoreError::Locked { .. } => SqlState::ObjectInUse,
            StoreError::Newer { .. } => SqlState::FeatureNotSupported,
            StoreError::Permissions { .. } => SqlState::SystemError,
            StoreError::NotAStore { .. } | StoreError::Damaged { .. } => SqlState::DataCorrupted,
            StoreError::Contended => SqlState::SerializationFailure,
            StoreError::NoSuchOrg(_) => SqlState::UndefinedDatabase,
            StoreError::Unavailable { .. } => SqlState::CannotConnectNow,
            StoreError::ConnectionLost => SqlState::ConnectionFailure,
            StoreError::Diverged { .. } => SqlState::DataCorrupted,
            StoreError::Postgres(error) => error.sqlstate(),
            StoreError::Internal => SqlState::InternalError,
        }
    }

    fn detail(&self) -> Option<String> {
        match self {
            StoreError::Io { reason, .. } => reason.as_ref().map(|r| format!("The operating system says: {r}.")),
            StoreError::Damaged { damage } => {
                let lines: Vec<_> = damage.iter().take(20).map(Damage::to_string).collect();
                Some(lines.join("\n"))
            }
            StoreError::Unavailable { reason } => Some(format!("The last try failed: {reason}.")),
            StoreError::Diverged { seen, .. } => {
                Some(format!("Transaction {seen} was there, and is not any more, or is another one."))
            }
            StoreError::Postgres(error) => error.detail(),
            StoreError::DiskFull
            | StoreError::ConnectionLost
            | StoreError::Locked { .. }
            | StoreError::Newer { .. }
            | StoreError::NotAStore { .. }
            | StoreError::Missing { .. }
            | StoreError::Permissions { .. }
            | StoreError::Poisoned
            | StoreError::Contended
            | StoreError::NoSuchOrg(_)
            | StoreError::Internal => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            StoreError::DiskFull => Some("Free some space and run the statement again.".to_owned()),
            StoreError::Locked { .. } => Some("One process at a time can have a store open.".to_owned()),
            StoreError::Newer { .. } => Some("Run the version that wrote it, or a later one.".to_owned()),
            StoreError::Permissions { path, .. } => Some(format!("Run chmod 600 \"{}\".", path.display())),
            StoreError::Contended => Some("Run the transaction again.".to_owned()),
            StoreError::Poisoned => Some("The store is opened again with the next statement that needs it.".to_owned()),
            StoreError::ConnectionLost => Some("Nothing was changed. Run the statement again.".to_owned()),
            StoreError::Diverged { .. } => Some(
                "No coordinator writes to it until an operator has run \"dataglot accept-history\"; what was acknowledged after its last common transaction has to be made again.".to_owned(),
            ),
            StoreError::Postgres(error) => error.hint(),
            StoreError::Io { .. }
            | StoreError::Unavailable { .. }
            | StoreError::NotAStore { .. }
            | StoreError::Missing { .. }
            | StoreError::Damaged { .. }
            | StoreError::NoSuchOrg(_)
            | StoreError::Internal => None,
        }
    }
}

/// Why a group was not committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// An org is not at the sequence number that the group was planned on. Nothing was written.
    #[error("another writer was faster")]
    Conflict,
    /// Somebody was told of an unknown transaction of an org that it was not committed and never will be:
    /// what was sent before that does not count. Nothing was written. The same transactions may come again
    /// under other ids only.
    #[error("the transaction may have been declared as not committed")]
    Fenced,
    /// No room. Nothing was written, reads go on.
    #[error("no space left on device")]
    Full,
    /// It may be there or not: ask [`crate::MetaStore::find_transaction`] before anything else.
    #[error("the outcome of the commit is not known")]
    Unknown(StoreError),
    /// Nothing was written.
    #[error(transparent)]
    Failed(StoreError),
}
