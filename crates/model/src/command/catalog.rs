//! Statements on catalogs.

use super::{CommentText, ExpectedVersion, OnExisting, OnMissing, RoleSpec};
use crate::connector::Connector;
use crate::def::OptionValue;
use crate::{At, Name};

/// `CREATE [OR REPLACE | OR ALTER] CATALOG`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateCatalog {
    /// The new name.
    pub name: At<Name>,
    /// What to do when it exists.
    pub on_existing: OnExisting,
    /// `USING ident`, or the `kind` option of the older form.
    pub connector: At<Connector>,
    /// Options, each key once, in canonical spelling.
    pub options: Vec<OptionEntry>,
    /// `COMMENT 'text'`
    pub comment: Option<String>,
    /// `AUTHORIZATION role`
    pub owner: Option<At<RoleSpec>>,
    /// `VALIDATE …`
    pub validate: ValidateMode,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionEntry {
    /// The key as written, folded unless quoted.
    pub key: At<String>,
    /// The value.
    pub value: At<OptionValue>,
}

/// How far options are checked. There is no network in a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidateMode {
    /// `OFF`: missing required options are accepted.
    Off,
    /// `SCHEMA`, the default.
    Schema,
}

/// `ALTER CATALOG`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterCatalog {
    /// Which.
    pub name: At<Name>,
    /// What to do when it does not exist.
    pub on_missing: OnMissing,
    /// `IF VERSION n`
    pub expected: ExpectedVersion,
    /// At least one, in the order of the text.
    pub actions: Vec<CatalogAction>,
}

/// One clause of `ALTER CATALOG`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogAction {
    /// `SET (k = v, …)`: these change, the others stay.
    Set(Vec<OptionEntry>),
    /// `RESET (k, …)`: these go.
    Reset(Vec<At<String>>),
    /// `OPTIONS (ADD k 'v', SET k 'v', DROP k)`: as PostgreSQL does it for servers.
    Options(Vec<OptionChange>),
    /// `WITH (k = v, …)`: replaces all options.
    Replace(Vec<OptionEntry>),
    /// `RENAME TO name`
    Rename(At<Name>),
    /// `OWNER TO role`
    Owner(At<RoleSpec>),
    /// `ENABLE` (true), `DISABLE` (false)
    Enable(bool),
    /// `SET COMMENT 'text' | NULL`
    Comment(CommentText),
}

/// One item of `OPTIONS (…)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionChange {
    /// `ADD k 'v'` or `k 'v'`: 42710 if it is set.
    Add(OptionEntry),
    /// `SET k 'v'`: 42704 if it is not set.
    Set(OptionEntry),
    /// `DROP k`: 42704 if it is not set.
    Drop(At<String>),
}
