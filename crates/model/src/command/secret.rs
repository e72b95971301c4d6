//! Statements on secrets.

use super::{ExpectedVersion, OnExisting, OnMissing, RoleSpec};
use crate::{At, Name};

/// `CREATE [OR REPLACE] SECRET`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSecret<V> {
    /// The new name.
    pub name: At<Name>,
    /// What to do when it exists.
    pub on_existing: OnExisting,
    /// `AS …`
    pub value: At<SecretValue<V>>,
    /// `COMMENT 'text'`
    pub comment: Option<String>,
}

/// Where a secret's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretValue<V> {
    /// `'text'` or a bound parameter.
    Value(V),
    /// `ENV 'NAME'`
    Env(String),
    /// `FILE 'path'`; for superusers.
    File(String),
    /// `REDACTED`, as SHOW CREATE prints it: keeps the value of an existing secret; 22023 if there is none.
    Redacted,
}

/// `ALTER SECRET`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterSecret<V> {
    /// Which.
    pub name: At<Name>,
    /// What to do when it does not exist.
    pub on_missing: OnMissing,
    /// `IF VERSION n`
    pub expected: ExpectedVersion,
    /// What to change.
    pub action: SecretAction<V>,
}

/// The clause of `ALTER SECRET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretAction<V> {
    /// `AS …`: a new value under the next number.
    Value(At<SecretValue<V>>),
    /// `RENAME TO name`. The ciphertext is bound to the name, so a sealed value is sealed again:
    /// `resealed` is `None` in what the grammar gives, and where the value is not in the store.
    Rename {
        /// The new name.
        to: At<Name>,
        /// The same value, sealed for the new name.
        resealed: Option<V>,
    },
    /// `OWNER TO role`
    Owner(At<RoleSpec>),
}
