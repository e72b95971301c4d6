//! Statements on roles and users.

use super::{ExpectedVersion, OnExisting, OnMissing, RoleSpec};
use crate::{At, Name, Timestamp};

/// `CREATE [OR ALTER] ROLE | USER | GROUP`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRole<V> {
    /// Which of the three words: `USER` means `LOGIN`.
    pub form: CreateRoleForm,
    /// The new name.
    pub name: At<Name>,
    /// What to do when it exists. Never `Replace`.
    pub on_existing: OnExisting,
    /// The attributes given. `login` is filled in for `USER`.
    pub attributes: RoleAttributes<V>,
    /// `IN ROLE a, b`: the new role becomes a member of these.
    pub in_roles: Vec<At<RoleSpec>>,
    /// `ROLE a, b`, `USER a, b`: these become members of the new role.
    pub members: Vec<At<RoleSpec>>,
    /// `ADMIN a, b`: the same, with admin option.
    pub admins: Vec<At<RoleSpec>>,
    /// `COMMENT 'text'`
    pub comment: Option<String>,
}

/// The word after CREATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in SQL")]
pub enum CreateRoleForm {
    Role,
    User,
}

/// Attributes that a statement names. `None`: not named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleAttributes<V> {
    /// `[NO]SUPERUSER`
    pub superuser: Option<At<bool>>,
    /// `[NO]CREATEROLE`
    pub createrole: Option<At<bool>>,
    /// `[NO]LOGIN`
    pub login: Option<At<bool>>,
    /// `[NO]INHERIT`
    pub inherit: Option<At<bool>>,
    /// `[NO]BYPASSRLS`
    pub bypassrls: Option<At<bool>>,
    /// `CONNECTION LIMIT n`; -1 and more.
    pub connection_limit: Option<At<i32>>,
    /// `PASSWORD …`
    pub password: Option<At<PasswordChange<V>>>,
    /// `VALID UNTIL 'time'`
    pub valid_until: Option<At<Timestamp>>,
    /// `[NO]CREATEDB`, `[NO]REPLICATION`: accepted and ignored, with a warning each.
    pub ignored: Vec<RoleAttribute>,
}

impl<V> Default for RoleAttributes<V> {
    fn default() -> Self {
        RoleAttributes {
            superuser: None,
            createrole: None,
            login: None,
            inherit: None,
            bypassrls: None,
            connection_limit: None,
            password: None,
            valid_until: None,
            ignored: Vec::new(),
        }
    }
}

/// An attribute of PostgreSQL's that means nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleAttribute {
    /// `[NO]CREATEDB`
    CreateDb(bool),
    /// `[NO]REPLICATION`
    Replication(bool),
}

/// What happens to a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordChange<V> {
    /// `PASSWORD 'text'`
    Set(V),
    /// `PASSWORD NULL`
    Remove,
}

/// `ALTER ROLE | USER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterRole<V> {
    /// Which.
    pub role: RoleSelector,
    /// What to do when it does not exist.
    pub on_missing: OnMissing,
    /// `IF VERSION n`
    pub expected: ExpectedVersion,
    /// What to change.
    pub action: AlterRoleAction<V>,
}

/// Which roles `ALTER ROLE` means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleSelector {
    /// One.
    One(At<RoleSpec>),
    /// `ALL`; only with SET and RESET.
    All,
}

/// The clause of `ALTER ROLE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterRoleAction<V> {
    /// `[WITH] attribute …`, and `COMMENT 'text'` among them.
    Attributes {
        /// The attributes given.
        attributes: RoleAttributes<V>,
        /// `COMMENT 'text'`
        comment: Option<String>,
    },
    /// `RENAME TO name`. A sealed verifier is bound to the name, so it is sealed again: `resealed` is `None` in
    /// what the grammar gives, and where there is none that is sealed.
    Rename {
        /// The new name.
        to: At<Name>,
        /// The same verifier, sealed for the new name.
        resealed: Option<V>,
    },
    /// `SET name TO value`: a session setting at login. The setting's name is checked by `session`
    /// before planning; the value is text.
    Set {
        /// The setting, lower case.
        name: At<String>,
        /// Its value.
        value: String,
    },
    /// `RESET name`
    Reset(At<String>),
    /// `RESET ALL`
    ResetAll,
}
