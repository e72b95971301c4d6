//! What can go wrong with keys, sealed values and verifiers.

use dataglot_model::{Problem, SqlState};

use crate::key::KeyId;
use crate::{EntropyError, VALUE_BYTES_MAX};

/// Why a value could not be sealed, opened or turned into a verifier. Holds fingerprints and sizes,
/// never a key, a plaintext or a piece of either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// Something is to be sealed and no key is loaded.
    #[error("no secret key is configured")]
    NoKey,
    /// A sealed value names a key that is not loaded; `have` is empty when none is.
    #[error("secrets are sealed with key {wanted}, and {}", have_text(.have))]
    WrongKey {
        /// The key that the sealed value names.
        wanted: KeyId,
        /// The keys that are loaded, primary first.
        have: Vec<KeyId>,
    },
    /// The key is the right one, and the bytes are not what was sealed for this place.
    #[error("sealed value is damaged, or was made for another place")]
    Damaged,
    /// The canary was made for another store.
    #[error("the key check record belongs to another store")]
    OtherStore,
    /// A version, cipher suite or data key that this version does not know.
    #[error("sealed value has a form that this version does not know")]
    UnknownForm,
    /// The org's data key of that number is not there.
    #[error("sealed value needs data key {no}, which is not there")]
    NoDataKey {
        /// Its number.
        no: u32,
    },
    /// A text is not a key.
    #[error("secret key is not usable: {reason}")]
    KeyForm {
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// The plaintext is over the limit.
    #[error("secret value is {bytes} bytes long, over the limit of {VALUE_BYTES_MAX} bytes")]
    ValueTooLong {
        /// Length found, in bytes.
        bytes: usize,
    },
    /// The empty password has no verifier: it never logs in.
    #[error("empty string is not a valid password")]
    EmptyPassword,
    /// No method hashes so long a password.
    #[error("password is too long")]
    PasswordTooLong,
    /// An iteration count outside of what is accepted.
    #[error("SCRAM iteration count {iterations} is outside the valid range ({least} .. {most})")]
    Iterations {
        /// The count asked for.
        iterations: u32,
        /// Least accepted.
        least: u32,
        /// Most accepted.
        most: u32,
    },
    /// The source of randomness failed.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
}

fn have_text(have: &[KeyId]) -> String {
    match have {
        [] => "no secret key is configured".to_owned(),
        [one] => format!("the key configured is {one}"),
        several => {
            let ids: Vec<String> = several.iter().map(KeyId::to_string).collect();
            format!("the keys configured are {}", ids.join(", "))
        }
    }
}

impl Problem for VaultError {
    fn sqlstate(&self) -> SqlState {
        match self {
            VaultError::NoKey | VaultError::WrongKey { .. } | VaultError::OtherStore | VaultError::Entropy(_) => {
                SqlState::SystemError
            }
            VaultError::Damaged | VaultError::UnknownForm | VaultError::NoDataKey { .. } => SqlState::DataCorrupted,
            VaultError::KeyForm { .. }
            | VaultError::EmptyPassword
            | VaultError::PasswordTooLong
            | VaultError::Iterations { .. } => SqlState::InvalidParameterValue,
            VaultError::ValueTooLong { .. } => SqlState::ProgramLimitExceeded,
        }
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            VaultError::NoKey => {
                "Start the server with a secret key: secret_key_file, secret_key_command, or the variable DATAGLOT_SECRET_KEY."
            }
            VaultError::WrongKey { .. } => "Start the server with the key that the secrets were sealed with.",
            VaultError::Damaged | VaultError::NoDataKey { .. } => {
                "Give the secret its value again with ALTER SECRET, or restore a backup."
            }
            VaultError::OtherStore => "Use the store file that the key check record was made in.",
            VaultError::UnknownForm => "It may have been made by a newer version.",
            VaultError::KeyForm { .. } => {
                "A key is 32 random bytes, as base64, as 64 hexadecimal digits, or in the form dgk1:…; \
                 `openssl rand -base64 32` makes one."
            }
            VaultError::ValueTooLong { .. }
            | VaultError::EmptyPassword
            | VaultError::PasswordTooLong
            | VaultError::Iterations { .. }
            | VaultError::Entropy(_) => return None,
        };
        Some(text.to_owned())
    }
}
