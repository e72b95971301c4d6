//! A view: a derived product.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::def::Extra;
use crate::def::OptionValue;
use crate::{RemoteName, TableRef};

/// A view's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDef {
    /// The query as its author wrote it, blanks at both ends trimmed.
    pub query: Arc<str>,
    /// What the query names, in the order of the text, each name resolved in full.
    pub references: Vec<ViewReference>,
    /// Column names given in the statement.
    pub columns: Option<Vec<RemoteName>>,
    /// Whose rights count when it is read.
    pub security: SecurityMode,
    /// `WITH (…)`.
    pub options: BTreeMap<String, OptionValue>,
    /// Unknown fields.
    pub extra: Extra,
}

/// A place in a view's query that names a table or view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewReference {
    /// What is named, resolved in full.
    pub table: TableRef,
    /// First byte of the name in the query.
    pub start: u32,
    /// One past its last byte.
    pub end: u32,
    /// How it stands there.
    pub role: ReferenceRole,
}

/// How a name stands in a query, which decides how a rename can rewrite it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceRole {
    /// In FROM, with an alias: the name can be replaced.
    Aliased,
    /// In FROM, without one: the old last part has to be kept as an alias.
    Bare,
    /// Before a column (`c.s.t.a`): the name can be replaced.
    Qualifier,
}

/// Whose rights count when a view is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecurityMode {
    /// The reader's.
    Invoker,
    /// The owner's.
    Definer,
}
