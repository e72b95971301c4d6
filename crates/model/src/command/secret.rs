//! Statements on secrets.

use std::fmt;

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
    /// `AS … [GRACE 'interval']`: a new value under the next number.
    Value {
        /// The new value.
        value: At<SecretValue<V>>,
        /// How long the present value may be resolved afterwards; `None`: not at all.
        grace: Option<Grace>,
    },
    /// `RENAME TO name`. The ciphertext is bound to the name, so a sealed value is sealed again, and so is the one
    /// before it: both are `None` in what the grammar gives, and where the value is not in the store.
    Rename {
        /// The new name.
        to: At<Name>,
        /// The same value, sealed for the new name.
        resealed: Option<V>,
        /// The value before it, if that may still be resolved, sealed for the new name.
        resealed_previous: Option<V>,
    },
    /// `OWNER TO role`
    Owner(At<RoleSpec>),
}

/// How long the value before the present one stays: whole seconds, within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace(u32);

impl Grace {
    /// The shortest.
    pub const MIN: Grace = Grace(1);
    /// The longest: 30 days.
    pub const MAX: Grace = Grace(30 * 24 * 60 * 60);

    /// That many seconds, if it is within the bounds.
    pub fn from_seconds(seconds: u64) -> Option<Self> {
        let grace = Grace(u32::try_from(seconds).ok()?);
        (Self::MIN.0..=Self::MAX.0).contains(&grace.0).then_some(grace)
    }

    /// Its length.
    pub const fn seconds(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Grace {
    /// In the units of an interval, the largest first: `1 day 2 hours`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0;
        let mut first = true;
        for (unit, seconds) in [("day", 24 * 60 * 60), ("hour", 60 * 60), ("minute", 60), ("second", 1)] {
            let count = left / seconds;
            left %= seconds;
            if count > 0 {
                let (space, plural) = (if first { "" } else { " " }, if count == 1 { "" } else { "s" });
                write!(f, "{space}{count} {unit}{plural}")?;
                first = false;
            }
        }
        Ok(())
    }
}
