//! Commands: what a statement asks the store to change, typed and closed, one file a kind.
//!
//! `V` is the form of the credentials inside. Lowering gives [`Command<Sensitive>`](crate::Sensitive);
//! the planner takes [`Command<Sealed>`](crate::Sealed) only, so a plaintext cannot get that far.
//! Names leave lowering folded, checked and, for tables, resolved in full. What can only be known
//! against a state (`CURRENT_USER`, whether a table is a view) is still open here.

mod catalog;
mod credential;
mod drop;
mod grant;
mod policy;
mod role;
mod secret;
mod view;

pub use catalog::{AlterCatalog, CatalogAction, CreateCatalog, OptionChange, OptionEntry, ValidateMode};
pub use credential::{Carrier, Credential};
pub use drop::{Behavior, Comment, DropObjects, DropOwned, ReassignOwned};
pub use grant::{
    GrantMembership, GrantPrivileges, MembershipOption, PrivilegeItem, Privileges, RevokeMembership, RevokePrivileges,
};
pub use policy::{AlterMask, AlterRowFilter, AudienceChange, CreateMask, CreateRowFilter, MaskAction, RowFilterAction};
pub use role::{
    AlterRole, AlterRoleAction, CreateRole, CreateRoleForm, PasswordChange, RoleAttribute, RoleAttributes, RoleSelector,
};
pub use secret::{AlterSecret, CreateSecret, Grace, SecretAction, SecretValue};
pub use view::{AlterView, CreateView, ViewAction, ViewQuery};

use crate::{Actor, At, Grantee, Name};

/// Everything that changes the store. One variant a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "one variant a statement; see the structs")]
pub enum Command<V> {
    CreateCatalog(CreateCatalog),
    AlterCatalog(AlterCatalog),
    CreateSecret(CreateSecret<V>),
    AlterSecret(AlterSecret<V>),
    CreateRole(CreateRole<V>),
    AlterRole(AlterRole<V>),
    CreateMask(CreateMask),
    AlterMask(AlterMask),
    CreateRowFilter(CreateRowFilter),
    AlterRowFilter(AlterRowFilter),
    CreateView(CreateView),
    AlterView(AlterView),
    Drop(DropObjects),
    GrantPrivileges(GrantPrivileges),
    RevokePrivileges(RevokePrivileges),
    GrantMembership(GrantMembership),
    RevokeMembership(RevokeMembership),
    Comment(Comment),
    ReassignOwned(ReassignOwned),
    DropOwned(DropOwned),
}

/// What to do when an object of the name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExisting {
    /// Plain CREATE: an error.
    Error,
    /// `IF NOT EXISTS`: a notice, nothing changes.
    Skip,
    /// `OR REPLACE`: the new definition; owner, grants and comment stay.
    Replace,
    /// `OR ALTER`: as `OR REPLACE`, where the kind has both (the connector may not change).
    Alter,
}

/// What to do when an object of the name does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissing {
    /// An error.
    Error,
    /// `IF EXISTS`: a notice, nothing changes.
    Skip,
}

/// A role as a statement names it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in SQL")]
pub enum RoleSpec {
    Name(Name),
    CurrentUser,
    CurrentRole,
    SessionUser,
}

impl RoleSpec {
    /// The name that it means for `actor`, whether or not there is such a role.
    pub const fn resolve<'a>(&'a self, actor: &'a Actor) -> &'a Name {
        match self {
            RoleSpec::Name(name) => name,
            RoleSpec::CurrentUser | RoleSpec::CurrentRole => &actor.current_user,
            RoleSpec::SessionUser => &actor.session_user,
        }
    }
}

/// Who a statement grants to, or whom it names in a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in SQL")]
pub enum GranteeSpec {
    Public,
    Role(RoleSpec),
}

impl From<Grantee> for GranteeSpec {
    fn from(grantee: Grantee) -> Self {
        match grantee {
            Grantee::Public => GranteeSpec::Public,
            Grantee::Role(name) => GranteeSpec::Role(RoleSpec::Name(name)),
        }
    }
}

/// `IF VERSION n`: the statement fails with 40001 unless the object is at that version.
pub type ExpectedVersion = Option<At<u64>>;

/// A clause that removes or sets something: `IS NULL`, `SET COMMENT 'text'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommentText {
    /// The comment is removed.
    Remove,
    /// The comment is set.
    Set(String),
}

impl<V> Command<V> {
    /// The command tag that PostgreSQL answers, or would.
    pub const fn tag(&self) -> &'static str {
        match self {
            Command::CreateCatalog(_) => "CREATE CATALOG",
            Command::AlterCatalog(_) => "ALTER CATALOG",
            Command::CreateSecret(_) => "CREATE SECRET",
            Command::AlterSecret(_) => "ALTER SECRET",
            Command::CreateRole(_) => "CREATE ROLE",
            Command::AlterRole(_) => "ALTER ROLE",
            Command::CreateMask(_) => "CREATE MASK",
            Command::AlterMask(_) => "ALTER MASK",
            Command::CreateRowFilter(_) => "CREATE ROW FILTER",
            Command::AlterRowFilter(_) => "ALTER ROW FILTER",
            Command::CreateView(_) => "CREATE VIEW",
            Command::AlterView(_) => "ALTER VIEW",
            Command::Drop(drop) => drop.tag(),
            Command::GrantPrivileges(_) => "GRANT",
            Command::RevokePrivileges(_) => "REVOKE",
            Command::GrantMembership(_) => "GRANT ROLE",
            Command::RevokeMembership(_) => "REVOKE ROLE",
            Command::Comment(_) => "COMMENT",
            Command::ReassignOwned(_) => "REASSIGN OWNED",
            Command::DropOwned(_) => "DROP OWNED",
        }
    }
}
