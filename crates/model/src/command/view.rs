//! Statements on views.

use std::sync::Arc;

use super::{ExpectedVersion, OnExisting, OnMissing, OptionEntry, RoleSpec};
use crate::def::{SecurityMode, ViewReference};
use crate::{At, RemoteName, SchemaRef, TableRef};

/// A view's query: its text, and what it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewQuery {
    /// As written, blanks at both ends trimmed.
    pub text: Arc<str>,
    /// What it names, offsets relative to `text`.
    pub references: Vec<ViewReference>,
}

/// `CREATE [OR REPLACE | OR ALTER] VIEW`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateView {
    /// The new name, in full.
    pub name: At<TableRef>,
    /// What to do when it exists.
    pub on_existing: OnExisting,
    /// `(a, b)`
    pub columns: Option<Vec<RemoteName>>,
    /// `COMMENT 'text'`
    pub comment: Option<String>,
    /// `SECURITY INVOKER | DEFINER`; not given: invoker for a new view, unchanged for an existing one.
    pub security: Option<SecurityMode>,
    /// `WITH (…)`
    pub options: Vec<OptionEntry>,
    /// `AS …`; the span is the query's.
    pub query: At<ViewQuery>,
}

/// `ALTER VIEW`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterView {
    /// Which, in full.
    pub name: At<TableRef>,
    /// What to do when it does not exist.
    pub on_missing: OnMissing,
    /// `IF VERSION n`
    pub expected: ExpectedVersion,
    /// What to change.
    pub action: ViewAction,
}

/// The clause of `ALTER VIEW`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewAction {
    /// `RENAME TO name`
    Rename(At<RemoteName>),
    /// `SET SCHEMA catalog.schema`
    SetSchema(At<SchemaRef>),
    /// `OWNER TO role`
    Owner(At<RoleSpec>),
    /// `AS query`
    Query(At<ViewQuery>),
    /// `SET SECURITY …`
    Security(SecurityMode),
    /// `SET (…)`
    Options(Vec<OptionEntry>),
}
