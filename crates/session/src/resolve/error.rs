//! Why a catalog or a value cannot be had. Never holds a part of a value.

use dataglot_model::{Name, ObjectRef, OrgName, Problem, SqlState};
use dataglot_store::StoreError;
use dataglot_vault::VaultError;

/// Why a catalog or a value cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The keys are not the store's.
    #[error(transparent)]
    Key(VaultError),
    /// There is no such org.
    #[error("{} does not exist", ObjectRef::Org(.org.clone()))]
    NoOrg {
        /// Which.
        org: OrgName,
    },
    /// There is no such secret.
    #[error("{} does not exist", ObjectRef::Secret(.secret.clone()))]
    NoSecret {
        /// Which.
        secret: Name,
    },
    /// It has another value by now, and the one asked for is not kept.
    #[error("version {version} of {} is not to be had any more", ObjectRef::Secret(.secret.clone()))]
    Gone {
        /// Of which secret.
        secret: Name,
        /// The number of the value.
        version: u64,
    },
    /// Its stored value does not open: it is damaged or lost, or its key is not there.
    #[error("the value of {} cannot be opened: {error}", ObjectRef::Secret(.secret.clone()))]
    Sealed {
        /// Of which secret.
        secret: Name,
        /// Why.
        error: VaultError,
    },
    /// Its value is said to be in the environment or a file of the platform, and it is in an org that may not say so.
    #[error("{} refers to the platform's environment or files, which only \"default\" may", ObjectRef::Secret(.secret.clone()))]
    NotOfPlatform {
        /// Which secret.
        secret: Name,
    },
    /// Its value is in a variable that this process has not, or that is no text.
    #[error("{} is in the environment variable {variable}, which {why}", ObjectRef::Secret(.secret.clone()))]
    Variable {
        /// Which secret.
        secret: Name,
        /// The variable.
        variable: String,
        /// What is the matter with it.
        why: &'static str,
    },
    /// Its value is in a file that this process cannot read, or that is no text.
    #[error("{} is in the file \"{path}\", which {why}", ObjectRef::Secret(.secret.clone()))]
    File {
        /// Which secret.
        secret: Name,
        /// The file.
        path: String,
        /// What is the matter with it.
        why: String,
    },
}

impl ResolveError {
    pub(super) fn of_vault(secret: &Name, error: VaultError) -> Self {
        ResolveError::Sealed { secret: secret.clone(), error }
    }

    /// The secret that it is about. `None`: nothing was found out about any.
    pub fn secret(&self) -> Option<&Name> {
        match self {
            ResolveError::Store(_) | ResolveError::Key(_) | ResolveError::NoOrg { .. } => None,
            ResolveError::NoSecret { secret }
            | ResolveError::Gone { secret, .. }
            | ResolveError::Sealed { secret, .. }
            | ResolveError::NotOfPlatform { secret }
            | ResolveError::Variable { secret, .. }
            | ResolveError::File { secret, .. } => Some(secret),
        }
    }
}

impl Problem for ResolveError {
    fn sqlstate(&self) -> SqlState {
        match self {
            ResolveError::Store(error) => error.sqlstate(),
            ResolveError::NoOrg { org } => ObjectRef::Org(org.clone()).kind().undefined(),
            ResolveError::NoSecret { .. } | ResolveError::Gone { .. } => SqlState::UndefinedObject,
            ResolveError::Key(error) | ResolveError::Sealed { error, .. } => error.sqlstate(),
            ResolveError::NotOfPlatform { .. } => SqlState::InsufficientPrivilege,
            ResolveError::Variable { .. } | ResolveError::File { .. } => SqlState::SystemError,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            ResolveError::Store(error) => error.hint(),
            ResolveError::Key(error) | ResolveError::Sealed { error, .. } => error.hint(),
            ResolveError::Gone { .. } => {
                Some("Read the catalogs again; ALTER SECRET ... GRACE keeps a former value for a while.".to_owned())
            }
            ResolveError::Variable { .. } | ResolveError::File { .. } => {
                Some("It is read by the process that resolves, with that process's rights.".to_owned())
            }
            ResolveError::NoOrg { .. } | ResolveError::NoSecret { .. } | ResolveError::NotOfPlatform { .. } => None,
        }
    }
}
