//! The values that every other crate speaks of: names, kinds, definitions, privileges, the closed
//! [`Statement`] and [`Command`] enums, [`Mutation`] and the SQLSTATE list.
//!
//! Values only. There is no I/O here, no clock, no randomness and no `async`; nothing here knows
//! sqlparser, a store or a socket. Enums are closed on purpose: a new kind of object must be a
//! compile error in every crate that has to say something about it.

pub mod command;
pub mod connector;
pub mod def;
mod kind;
mod mutation;
mod name;
mod privilege;
mod problem;
mod sensitive;
mod span;
mod sqlstate;
mod statement;
mod time;

pub use command::Command;
pub use kind::{Kind, ObjectRef};
pub use mutation::{Actor, Change, ChangedStatement, HeadRecord, Mutation, Row, RowKey, Seq, TransactionId};
pub use name::{
    ColumnRef, DEFAULT_CATALOG, DEFAULT_ORG, DEFAULT_SCHEMA, NAME_BYTES_MAX, Name, NameError, OrgName,
    REMOTE_NAME_BYTES_MAX, RemoteName, SchemaRef, TableRef, is_reserved, quote_ident, quote_string,
};
pub use privilege::{
    Audience, GrantTarget, Grantee, Others, PatternKind, PatternScope, Privilege, PrivilegeSet, TargetClass,
};
pub use problem::{Notice, Problem, Report, Severity};
pub use sensitive::{Sealed, SealedBy, SecretHash, Sensitive};
pub use span::{At, Span};
pub use sqlstate::SqlState;
pub use statement::{
    BinaryOperator, Describe, DescribeName, Explain, ExplainFormat, IsolationLevel, OrderBy, OrgCommand, Projection,
    Read, SelectExpr, SelectItem, SelectQuery, SessionCommand, SetScope, Show, ShowGrants, ShowKind, ShowScope,
    Statement, TransactionCommand, TransactionModes,
};
pub use time::Timestamp;
