//! Statements that work on any kind: DROP, COMMENT, REASSIGN OWNED, DROP OWNED.

use super::{CommentText, OnMissing, RoleSpec};
use crate::{At, Kind, ObjectRef};

/// What DROP does about dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// `RESTRICT`, the default: 2BP01.
    Restrict,
    /// `CASCADE`: they go too.
    Cascade,
}

/// `DROP kind [IF EXISTS] a, b [CASCADE]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropObjects {
    /// What they are: catalog, secret, role, view, mask or row filter.
    pub kind: Kind,
    /// At least one, each of `kind`.
    pub objects: Vec<At<ObjectRef>>,
    /// `ON target` of a mask or row filter, in canonical form: it must be the one that it has.
    pub on: Option<At<ObjectRef>>,
    /// What to do when one does not exist.
    pub on_missing: OnMissing,
    /// What to do about dependents.
    pub behavior: Behavior,
}

impl DropObjects {
    pub(super) const fn tag(&self) -> &'static str {
        match self.kind {
            Kind::Org => "DROP ORG",
            Kind::Role => "DROP ROLE",
            Kind::Secret => "DROP SECRET",
            Kind::Catalog => "DROP CATALOG",
            Kind::Schema => "DROP SCHEMA",
            Kind::Table => "DROP TABLE",
            Kind::Column => "DROP COLUMN",
            Kind::View => "DROP VIEW",
            Kind::Mask => "DROP MASK",
            Kind::RowFilter => "DROP ROW FILTER",
        }
    }
}

/// `COMMENT [IF EXISTS] ON kind name IS 'text' | NULL`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// On what.
    pub object: At<ObjectRef>,
    /// What to do when it does not exist.
    pub on_missing: OnMissing,
    /// The text.
    pub text: CommentText,
}

/// `REASSIGN OWNED BY a, b TO c`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReassignOwned {
    /// The present owners.
    pub from: Vec<At<RoleSpec>>,
    /// The new one.
    pub to: At<RoleSpec>,
}

/// `DROP OWNED BY a, b [CASCADE]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropOwned {
    /// The owners.
    pub by: Vec<At<RoleSpec>>,
    /// What to do about dependents.
    pub behavior: Behavior,
}
