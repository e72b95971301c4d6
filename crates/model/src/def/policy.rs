//! Masks and row filters. The two share one name space.

use serde::{Deserialize, Serialize};

use crate::def::Extra;
use crate::{Audience, ColumnRef, Grantee, Name, Others, SchemaRef, TableRef};

/// An SQL expression as its author wrote it, with what had to be learned of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpressionText {
    /// The text between the parentheses, blanks at both ends trimmed.
    pub text: String,
}

/// A policy of either kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyDef {
    /// `CREATE MASK`
    Mask(MaskDef),
    /// `CREATE ROW FILTER`
    RowFilter(RowFilterDef),
}

/// A rule that hides the values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskDef {
    /// The column.
    pub target: MaskTarget,
    /// What is shown instead.
    pub function: MaskFunction,
    /// Applies only to rows for which this holds.
    pub when: Option<ExpressionText>,
    /// Whom it applies to.
    pub audience: Audience<Grantee, Name>,
    /// The highest one wins.
    pub priority: i32,
    /// `ENABLE` / `DISABLE`.
    pub enabled: bool,
    /// Unknown fields.
    pub extra: Extra,
}

/// What a mask hides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaskTarget {
    /// One column.
    Column(ColumnRef),
}

/// What is shown instead of the value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaskFunction {
    /// `AS 'text'`, `WITH (type = 'constant', value = …)`
    Constant(String),
    /// `AS (expression)`; the column is `value`.
    Expression(ExpressionText),
    /// `WITH (type = 'redact')`
    Redact,
    /// `WITH (type = 'hash')`
    Hash,
    /// `WITH (type = 'nullify')`
    Nullify,
    /// `WITH (type = 'date_year')`
    DateYear,
    /// `WITH (type = 'show_first', keep = n)`
    ShowFirst(u32),
    /// `WITH (type = 'show_last', keep = n)`
    ShowLast(u32),
    /// `USING function (arguments)`: a function of the engine.
    Function {
        /// Its name.
        name: Name,
        /// Its arguments, as canonical SQL literals.
        arguments: Vec<String>,
    },
}

/// A rule that hides rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFilterDef {
    /// What it filters.
    pub target: RowFilterTarget,
    /// A row is visible when this is true; NULL hides it.
    pub using: ExpressionText,
    /// Whom it applies to.
    pub audience: Audience<Grantee, Name>,
    /// What the others see. There exactly where the audience has a `TO`.
    pub others: Option<Others>,
    /// `ENABLE` / `DISABLE`.
    pub enabled: bool,
    /// Unknown fields.
    pub extra: Extra,
}

/// What a row filter filters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "named as in SQL")]
pub enum RowFilterTarget {
    Table(TableRef),
    Schema(SchemaRef),
    Catalog(Name),
}
