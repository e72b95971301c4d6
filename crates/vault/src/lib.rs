//! Seals secrets and makes password verifiers.
//!
//! In: plaintext ([`Sensitive`](dataglot_model::Sensitive)), a [`KeyRing`], the [`Place`] that a value
//! will live in, and an [`Entropy`]. Out: bytes that may be stored, and back. This is the only crate
//! that knows crypto.
//!
//! Properties kept: a ciphertext opens at the place it was sealed for and nowhere else; a wrong key and
//! damaged data are told apart; every buffer that held a key or a plaintext is wiped; no error,
//! `Display` or `Debug` holds more of a key than its fingerprint.
//!
//! Deliberately absent: I/O (key files are read by `server`), a random number generator of its own, and
//! any choice of algorithm by configuration.

pub mod argon2;
mod canary;
mod data_key;
mod entropy;
mod envelope;
mod error;
mod key;
pub mod md5;
pub mod scram;

pub use canary::{canary_key, check_canary, make_canary};
pub use data_key::{DataKeys, new_data_key, rewrap_data_key, wrapped_with};
pub use entropy::{Entropy, EntropyError};
pub use envelope::{Envelope, Place, SealedWith, VALUE_BYTES_MAX, hash, open, seal, sealed_with};
pub use error::VaultError;
pub use key::{KEY_BYTES, KeyId, KeyRing, generate_key_text};

#[cfg(test)]
mod testing;
