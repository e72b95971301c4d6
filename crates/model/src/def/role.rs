//! A role. One that may log in is also called a user.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::Timestamp;
use crate::def::Extra;

/// What the text of a sealed verifier starts with; the base64 of the ciphertext follows.
pub const SEALED_VERIFIER: &str = "sealed:";

/// The attributes of a role.
#[derive(Clone, PartialEq, Eq)]
pub struct RoleDef {
    /// `SUPERUSER`
    pub superuser: bool,
    /// `CREATEROLE`
    pub createrole: bool,
    /// `LOGIN`: it is a user.
    pub login: bool,
    /// `INHERIT`: new memberships of it inherit by default.
    pub inherit: bool,
    /// `BYPASSRLS`: exempt from masks and row filters.
    pub bypassrls: bool,
    /// `CONNECTION LIMIT`; -1: none.
    pub connection_limit: i32,
    /// `VALID UNTIL`: no login by password from then on.
    pub valid_until: Option<Timestamp>,
    /// The password's verifier, in the text form of its method, or sealed ([`SEALED_VERIFIER`]). Never a
    /// password.
    pub verifier: Option<Arc<str>>,
    /// `ALTER ROLE … SET`: session settings at login.
    pub settings: Option<Box<BTreeMap<String, String>>>,
    /// Unknown fields.
    pub extra: Extra,
}

impl RoleDef {
    /// Whether it has a verifier that is sealed, for its name.
    pub fn has_sealed_verifier(&self) -> bool {
        self.verifier.as_ref().is_some_and(|text| text.starts_with(SEALED_VERIFIER))
    }
}

impl Default for RoleDef {
    /// As `CREATE ROLE r` makes it.
    fn default() -> Self {
        RoleDef {
            superuser: false,
            createrole: false,
            login: false,
            inherit: true,
            bypassrls: false,
            connection_limit: -1,
            valid_until: None,
            verifier: None,
            settings: None,
            extra: None,
        }
    }
}

impl fmt::Debug for RoleDef {
    /// All but the verifier, which is worth guessing at.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RoleDef {
            superuser,
            createrole,
            login,
            inherit,
            bypassrls,
            connection_limit,
            valid_until,
            verifier,
            settings,
            extra,
        } = self;
        f.debug_struct("RoleDef")
            .field("superuser", superuser)
            .field("createrole", createrole)
            .field("login", login)
            .field("inherit", inherit)
            .field("bypassrls", bypassrls)
            .field("connection_limit", connection_limit)
            .field("valid_until", valid_until)
            .field("has_password", &verifier.is_some())
            .field("settings", settings)
            .field("extra", &extra.is_some())
            .finish()
    }
}
