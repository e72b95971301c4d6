//! Credentials, before and after they are sealed.
//!
//! [`Sensitive`] is the only type that holds a plaintext. It can be opened, and nothing else: it
//! has no `Display` and no `Serialize`, its `Debug` prints a fixed word, and its bytes are wiped when
//! it is dropped. [`Sealed`] is what may be stored.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Text from a place where the grammar admits a credential. What must not compile (S-08):
///
/// ```compile_fail,E0277
/// println!("{}", dataglot_model::Sensitive::new("x".to_owned()));
/// ```
/// ```compile_fail,E0277
/// serde_json::to_string(&dataglot_model::Sensitive::new("x".to_owned()));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Sensitive(Zeroizing<String>);

impl Sensitive {
    /// Takes the text over; the caller keeps no copy.
    pub fn new(text: String) -> Self {
        Sensitive(Zeroizing::new(text))
    }

    /// The plaintext.
    pub fn open(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Sensitive {
    /// Hides the value and its length.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// SHA-256 of a secret's ciphertext: all that history keeps of a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretHash(pub [u8; 32]);

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for SecretHash {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SecretHash {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        let mut hash = [0u8; 32];
        let pairs = text.as_bytes().chunks(2);
        if text.len() != 64 {
            return Err(serde::de::Error::custom("a hash is 64 hexadecimal digits"));
        }
        for (slot, pair) in hash.iter_mut().zip(pairs) {
            let digits = std::str::from_utf8(pair).map_err(serde::de::Error::custom)?;
            *slot = u8::from_str_radix(digits, 16).map_err(serde::de::Error::custom)?;
        }
        Ok(SecretHash(hash))
    }
}

/// The data key that something was sealed with.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedBy {
    /// Its number.
    pub no: u32,
    /// Hash of its wrapped form. If the store holds another one at commit, the statement starts over.
    pub hash: SecretHash,
    /// Its wrapped form, where it was made for this: the org had none.
    pub made: Option<Arc<[u8]>>,
}

/// A credential in the form in which it may be stored and planned with.
#[derive(Clone, PartialEq, Eq)]
pub enum Sealed {
    /// A secret's value, encrypted for the place named beside it in the command.
    Envelope {
        /// The ciphertext with its header.
        bytes: Arc<[u8]>,
        /// SHA-256 of `bytes`.
        hash: SecretHash,
        /// The number of the value that `bytes` was sealed as (bound into the ciphertext).
        value_version: u64,
        /// Hash of the ciphertext that was there when this one was made; `None`: there was none.
        /// If the store holds another one at commit, the statement starts over.
        seen: Option<SecretHash>,
        /// The data key that sealed it; `None`: a key derived from the master key.
        by: Option<SealedBy>,
    },
    /// The value is the one that the store holds already: nothing is to change.
    Unchanged {
        /// Hash of the ciphertext that was compared. `None` for a password.
        seen: Option<SecretHash>,
    },
    /// A password's verifier.
    Verifier {
        /// As it is stored: in the text form of its method (`SCRAM-SHA-256$…`), or sealed for the role's name.
        text: Arc<str>,
        /// The data key that sealed it; `None`: it is not sealed.
        by: Option<SealedBy>,
    },
    /// An empty password: the password is removed, with a notice.
    EmptyPassword,
}

impl fmt::Debug for Sealed {
    /// Names the form only: a verifier is worth guessing at.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sealed::Envelope { .. } => "[sealed]",
            Sealed::Unchanged { .. } => "[unchanged]",
            Sealed::Verifier { .. } => "[verifier]",
            Sealed::EmptyPassword => "[empty]",
        })
    }
}
