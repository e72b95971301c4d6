//! Definitions: what the store keeps of each kind of object, one file a kind.
//!
//! Every definition carries the fields that it does not know (`extra`): a record that a newer
//! version wrote keeps them through a read and a write by this one.

mod catalog;
mod grant;
mod policy;
mod role;
mod secret;
mod view;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use catalog::{CatalogDef, OptionKey, OptionValue};
pub use grant::{GrantKey, GrantRecord, MembershipKey, MembershipOptions, MembershipRecord};
pub use policy::{ExpressionText, MaskDef, MaskFunction, MaskTarget, PolicyDef, RowFilterDef, RowFilterTarget};
pub use role::{RoleDef, SEALED_VERIFIER};
pub use secret::{PreviousSecret, SecretMeta, SecretOrigin};
pub use view::{ReferenceRole, SecurityMode, ViewDef, ViewReference};

use crate::{Name, Seq, Timestamp};

/// Fields of a stored record that this version does not know. Boxed, since there are hardly ever any.
pub type Extra = Option<Box<BTreeMap<String, serde_json::Value>>>;

/// The identity of an object within its org. Given once, never again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ObjectId(pub u64);

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// When something happened and who did it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// In which transaction of the org.
    pub seq: Seq,
    /// When that transaction started.
    pub at: Timestamp,
    /// The role that did it.
    pub by: Name,
}

/// What every kind of object has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its identity.
    pub id: ObjectId,
    /// Who owns it. Roles, orgs and what is not ours have no owner.
    pub owner: Option<Name>,
    /// `COMMENT ON`.
    pub comment: Option<Arc<str>>,
    /// Starts at 1, +1 with each transaction that changes the object; `IF VERSION n` compares it.
    pub version: u64,
    /// When and by whom it was made.
    pub created: Stamp,
    /// When and by whom it was changed last; equal to `created` in a new object.
    pub changed: Stamp,
    /// What a secret's header has besides.
    pub secret: Option<Box<SecretMeta>>,
    /// Unknown fields.
    pub extra: Extra,
}
