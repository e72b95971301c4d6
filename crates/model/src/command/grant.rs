//! GRANT and REVOKE, of privileges and of membership.

use super::{Behavior, GranteeSpec, RoleSpec};
use crate::{At, GrantTarget, Privilege, RemoteName};

/// The privileges that a statement names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Privileges {
    /// `ALL [PRIVILEGES]`
    All,
    /// A list.
    List(Vec<At<PrivilegeItem>>),
}

/// One item of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivilegeItem {
    /// Which.
    pub privilege: Privilege,
    /// `SELECT (a, b)`; empty: the whole object.
    pub columns: Vec<RemoteName>,
}

/// `GRANT privileges ON …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantPrivileges {
    /// What is granted. That each fits each target is checked in lowering (0LP01).
    pub privileges: Privileges,
    /// On what, at least one. A table may turn out to be a view.
    pub targets: Vec<At<GrantTarget>>,
    /// To whom, at least one.
    pub grantees: Vec<At<GranteeSpec>>,
    /// `WITH GRANT OPTION`
    pub grant_option: bool,
    /// `GRANTED BY role`
    pub granted_by: Option<At<RoleSpec>>,
}

/// `REVOKE privileges ON …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokePrivileges {
    /// `GRANT OPTION FOR`: only the option is taken.
    pub grant_option_only: bool,
    /// What is revoked.
    pub privileges: Privileges,
    /// On what.
    pub targets: Vec<At<GrantTarget>>,
    /// From whom.
    pub grantees: Vec<At<GranteeSpec>>,
    /// `GRANTED BY role`
    pub granted_by: Option<At<RoleSpec>>,
    /// What to do about grants that rest on it.
    pub behavior: Behavior,
}

/// `GRANT role TO role`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantMembership {
    /// What is granted, at least one.
    pub roles: Vec<At<RoleSpec>>,
    /// To whom, at least one.
    pub members: Vec<At<RoleSpec>>,
    /// `WITH ADMIN …`; `None`: not named.
    pub admin: Option<bool>,
    /// `WITH INHERIT …`
    pub inherit: Option<bool>,
    /// `WITH SET …`
    pub set: Option<bool>,
    /// `GRANTED BY role`
    pub granted_by: Option<At<RoleSpec>>,
}

/// `REVOKE role FROM role`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokeMembership {
    /// `ADMIN | INHERIT | SET OPTION FOR`: only that is taken.
    pub option_only: Option<MembershipOption>,
    /// What is revoked.
    pub roles: Vec<At<RoleSpec>>,
    /// From whom.
    pub members: Vec<At<RoleSpec>>,
    /// `GRANTED BY role`
    pub granted_by: Option<At<RoleSpec>>,
    /// What to do about memberships that rest on it.
    pub behavior: Behavior,
}

/// One of the options of a membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in SQL")]
pub enum MembershipOption {
    Admin,
    Inherit,
    Set,
}
