//! Grants of privileges, and memberships.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::def::Extra;
use crate::{GrantTarget, Grantee, Name, PrivilegeSet, RemoteName};

/// What makes a grant the same grant: granting it again changes its record. The target comes first,
/// so that the grants on one object lie together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GrantKey {
    /// On what.
    pub target: GrantTarget,
    /// To whom.
    pub grantee: Grantee,
    /// By whom.
    pub grantor: Name,
}

/// What one grantor has granted to one grantee on one target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantRecord {
    /// The privileges.
    pub privileges: PrivilegeSet,
    /// Those of them that come WITH GRANT OPTION.
    pub grantable: PrivilegeSet,
    /// `SELECT (column)`, and whether it comes WITH GRANT OPTION.
    pub columns: BTreeMap<RemoteName, bool>,
    /// It was granted as ALL, and prints as ALL for as long as it has all that ALL meant then.
    pub as_all: bool,
    /// Unknown fields.
    pub extra: Extra,
}

/// Who is a member of what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MembershipKey {
    /// The role that was granted.
    pub role: Name,
    /// The role that it was granted to.
    pub member: Name,
}

/// The grants of one membership, by grantor. Never empty: the last one takes the record with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembershipRecord {
    /// By grantor.
    pub by: BTreeMap<Name, MembershipOptions>,
    /// Unknown fields.
    pub extra: Extra,
}

/// What a membership allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembershipOptions {
    /// To grant it on.
    pub admin: bool,
    /// To use its privileges without SET ROLE.
    pub inherit: bool,
    /// To SET ROLE to it.
    pub set: bool,
}
