//! Statements on masks and row filters.

use super::{CommentText, ExpectedVersion, GranteeSpec, OnExisting, OnMissing, RoleSpec};
use crate::def::{ExpressionText, MaskFunction, MaskTarget, RowFilterTarget};
use crate::{At, Audience, Name, Others};

/// `CREATE [OR REPLACE] MASK`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateMask {
    /// The new name.
    pub name: At<Name>,
    /// What to do when it exists.
    pub on_existing: OnExisting,
    /// What it hides.
    pub target: At<MaskTarget>,
    /// What is shown instead.
    pub function: MaskFunction,
    /// `WHEN (expression)`
    pub when: Option<ExpressionText>,
    /// `TO …`, `EXCEPT …`
    pub audience: Audience<At<GranteeSpec>, At<RoleSpec>>,
    /// `PRIORITY n`; 0 if not given.
    pub priority: i32,
    /// `ENABLE` / `DISABLE`.
    pub enabled: bool,
    /// `COMMENT 'text'`
    pub comment: Option<String>,
}

/// `ALTER MASK`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterMask {
    /// Which.
    pub name: At<Name>,
    /// `ON target`: it must be the one that the mask has.
    pub on: Option<At<MaskTarget>>,
    /// What to do when it does not exist.
    pub on_missing: OnMissing,
    /// `IF VERSION n`
    pub expected: ExpectedVersion,
    /// At least one.
    pub actions: Vec<MaskAction>,
}

/// One clause of `ALTER MASK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaskAction {
    /// `RENAME TO name`
    Rename(At<Name>),
    /// `OWNER TO role`
    Owner(At<RoleSpec>),
    /// `SET AS …`, `SET WITH …`, `SET USING …`
    Function(MaskFunction),
    /// `SET WHEN (…)`, `DROP WHEN`
    When(Option<ExpressionText>),
    /// `SET TO`, `ADD TO`, `DROP TO`, `SET EXCEPT`
    Audience(AudienceChange),
    /// `SET PRIORITY n`
    Priority(i32),
    /// `ENABLE` (true), `DISABLE` (false)
    Enable(bool),
    /// `SET COMMENT 'text' | NULL`
    Comment(CommentText),
}

/// How `ALTER MASK | ROW FILTER` changes whom it applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AudienceChange {
    /// `SET TO …`; for a row filter `ELSE … ROWS` may follow, and must if it had no TO.
    SetTo(Vec<At<GranteeSpec>>, Option<Others>),
    /// `ADD TO …`
    AddTo(Vec<At<GranteeSpec>>),
    /// `DROP TO …`
    DropTo(Vec<At<GranteeSpec>>),
    /// `SET EXCEPT …`
    SetExcept(Vec<At<RoleSpec>>),
}

/// `CREATE [OR REPLACE] ROW FILTER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRowFilter {
    /// The new name.
    pub name: At<Name>,
    /// What to do when it exists.
    pub on_existing: OnExisting,
    /// What it filters.
    pub target: At<RowFilterTarget>,
    /// `USING (expression)`
    pub using: ExpressionText,
    /// `TO …`, `EXCEPT …`
    pub audience: Audience<At<GranteeSpec>, At<RoleSpec>>,
    /// `ELSE … ROWS`: there exactly where there is a TO.
    pub others: Option<Others>,
    /// `ENABLE` / `DISABLE`.
    pub enabled: bool,
    /// `COMMENT 'text'`
    pub comment: Option<String>,
}

/// `ALTER ROW FILTER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterRowFilter {
    /// Which.
    pub name: At<Name>,
    /// `ON target`: it must be the one that the filter has.
    pub on: Option<At<RowFilterTarget>>,
    /// What to do when it does not exist.
    pub on_missing: OnMissing,
    /// `IF VERSION n`
    pub expected: ExpectedVersion,
    /// At least one.
    pub actions: Vec<RowFilterAction>,
}

/// One clause of `ALTER ROW FILTER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowFilterAction {
    /// `RENAME TO name`
    Rename(At<Name>),
    /// `OWNER TO role`
    Owner(At<RoleSpec>),
    /// `SET USING (…)`
    Using(ExpressionText),
    /// `SET TO`, `ADD TO`, `DROP TO`, `SET EXCEPT`
    Audience(AudienceChange),
    /// `ENABLE` (true), `DISABLE` (false)
    Enable(bool),
    /// `SET COMMENT 'text' | NULL`
    Comment(CommentText),
}
