//! SQL text to typed commands, and back.
//!
//! In: the text of a query string and a [`ParseCx`]. Out: [`Statement`]s whose names are folded,
//! checked and, for tables, resolved in full, with the place where each stood; or a [`SyntaxError`]
//! that holds no literal of the text. Limits are checked before anything that recurses.
//!
//! Deliberately absent: any state, I/O or clock. The lexer is our own and alone decides where a
//! statement ends; sqlparser reads the queries and expressions inside our statements, and is known
//! to no other crate.

#[allow(clippy::wildcard_enum_match_arm, reason = "a token that does not fit is an error, whatever its kind")]
mod cursor;
mod error;
#[allow(clippy::wildcard_enum_match_arm, reason = "a token that does not fit is an error, whatever its kind")]
mod interval;
mod lexer;
mod limits;
#[allow(clippy::wildcard_enum_match_arm, reason = "a token that does not fit is an error, whatever its kind")]
mod literal;
mod nesting;
#[allow(clippy::wildcard_enum_match_arm, reason = "a token that does not fit is an error, whatever its kind")]
mod options;
mod print;
#[allow(clippy::wildcard_enum_match_arm, reason = "syntax trees of sqlparser have many more kinds than we take")]
mod query;
mod redact;
#[allow(clippy::wildcard_enum_match_arm, reason = "syntax trees of sqlparser have many more kinds than we take")]
mod select;
#[allow(clippy::wildcard_enum_match_arm, reason = "a token that does not fit is an error, whatever its kind")]
mod stmt;

use std::ops::Range;

use dataglot_model::{Notice, SchemaRef, Sensitive, Statement};

pub use error::{Found, Limit, SyntaxError};
pub use lexer::split;
pub use limits::Limits;
pub use print::{print, print_statement};
pub use redact::without_literals;

/// What `$1`, `$2`, … stand for.
#[derive(Clone, Copy, Debug)]
pub enum Parameters<'a> {
    /// Nothing: a placeholder is an error.
    None,
    /// Values that come later (a Parse message): a placeholder is accepted wherever a value may
    /// stand, and what it will be is not judged.
    Describe,
    /// These, in order. `None` is NULL.
    Bound(&'a [Option<Sensitive>]),
}

/// What a parse depends on besides the text.
#[derive(Clone, Copy, Debug)]
pub struct ParseCx<'a> {
    /// Where names of fewer than three parts are looked for.
    pub search_path: &'a SchemaRef,
    /// What placeholders stand for.
    pub parameters: Parameters<'a>,
    /// How large a statement may be.
    pub limits: &'a Limits,
}

/// A statement, and what was learned on the way.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The statement. Its spans are byte offsets into the whole text.
    pub statement: Statement<Sensitive>,
    /// The highest `n` of a placeholder `$n` in it; 0: none.
    pub parameters: u16,
    /// What the client is to be told.
    pub notices: Vec<Notice>,
}

/// Parses the one statement in `sql[range]`, a range that [`split`] gave.
///
/// # Errors
/// [`SyntaxError`], with the place in `sql`.
pub fn parse(sql: &str, range: Range<usize>, cx: &ParseCx<'_>) -> Result<Parsed, SyntaxError> {
    stmt::parse(sql, range, cx)
}
