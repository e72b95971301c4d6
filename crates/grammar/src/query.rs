//! Queries and expressions inside our statements: read by sqlparser, kept as the text that was written.
//!
//! In: a range of the statement's text. Out: the text, blanks at both ends trimmed, and what has to be
//! known of it: which tables a view's query names and where. The syntax tree is dropped here; nothing
//! stored ever comes from printing it. The caller has checked tokens, chains and depth, so the tree is
//! of bounded depth.

mod expression;
mod functions;
mod lines;
mod references;
mod source;
mod walk;

use std::ops::Range;

use dataglot_model::At;
use dataglot_model::command::ViewQuery;
use dataglot_model::def::ExpressionText;

pub(crate) use self::expression::ExpressionUse;
pub(crate) use self::functions::is_aggregate;
pub(crate) use self::source::{Source, ident_text};
use crate::{ParseCx, SyntaxError};

/// The query of a view, in `sql[range]`: exactly one SELECT, VALUES, TABLE or WITH.
pub(crate) fn view_query(sql: &str, range: Range<usize>, cx: &ParseCx<'_>) -> Result<At<ViewQuery>, SyntaxError> {
    let mut source = Source::new(sql, range, cx)?;
    let references = references::of_view(&mut source, cx)?;
    Ok(At::new(ViewQuery { text: source.text().into(), references }, source.span()))
}

/// The expression of a policy, in `sql[range]`, which lies between its parentheses.
pub(crate) fn expression(
    sql: &str,
    range: Range<usize>,
    cx: &ParseCx<'_>,
    what: ExpressionUse,
) -> Result<ExpressionText, SyntaxError> {
    let source = Source::new(sql, range, cx)?;
    expression::check(&source, what)?;
    Ok(ExpressionText { text: source.text().to_owned() })
}

#[cfg(test)]
mod tests;
