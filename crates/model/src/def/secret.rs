//! A secret: where its value comes from. The ciphertext itself is a row of its own.

use serde::{Deserialize, Serialize};

use crate::{SecretHash, Timestamp};

/// What is known of a secret's value without opening it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretMeta {
    /// Starts at 1, +1 with each new value.
    pub value_version: u64,
    /// Where the value is.
    pub origin: SecretOrigin,
    /// When it was set.
    pub set_at: Timestamp,
    /// The value before it, if that may still be resolved, or might until lately.
    pub previous: Option<Box<PreviousSecret>>,
}

impl SecretMeta {
    /// The value before the present one, if it may be resolved at `now`.
    pub fn previous_at(&self, now: Timestamp) -> Option<&PreviousSecret> {
        self.previous.as_deref().filter(|previous| now < previous.until)
    }
}

/// The value that a secret had before, kept for a while after `ALTER SECRET … GRACE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousSecret {
    /// Its number.
    pub value_version: u64,
    /// Where it is.
    pub origin: SecretOrigin,
    /// From then on it is not resolved any more.
    pub until: Timestamp,
}

/// Where a secret's value is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretOrigin {
    /// In the store, encrypted; the SHA-256 of the ciphertext.
    Sealed(SecretHash),
    /// In an environment variable of whoever resolves it.
    Env(String),
    /// In a file of whoever resolves it.
    File(String),
}
