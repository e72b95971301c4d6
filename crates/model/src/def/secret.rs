//! A secret: where its value comes from. The ciphertext itself is a row of its own.

use serde::{Deserialize, Serialize};

use crate::SecretHash;

/// What is known of a secret's value without opening it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretMeta {
    /// Starts at 1, +1 with each new value.
    pub value_version: u64,
    /// Where the value is.
    pub origin: SecretOrigin,
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
