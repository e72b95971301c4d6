//! The expression of a mask or row filter: of one row, without a query, the same each time it is asked.

use dataglot_model::{Span, SqlState};
use sqlparser::ast::{Expr, Function, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, Spanned};
use sqlparser::keywords::Keyword;

use super::functions::{is_aggregate, is_volatile};
use super::source::{Source, ident_text, keyword};
use super::walk::{ExprVisitor, walk_expr};
use crate::SyntaxError;

/// What an expression is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpressionUse {
    /// `CREATE MASK … AS (…)`
    MaskAs,
    /// `CREATE MASK … WHEN (…)`
    MaskWhen,
    /// `CREATE ROW FILTER … USING (…)`
    RowFilter,
}

impl ExpressionUse {
    const fn place(self) -> &'static str {
        match self {
            ExpressionUse::MaskAs => "the expression of a mask",
            ExpressionUse::MaskWhen => "the condition of a mask",
            ExpressionUse::RowFilter => "the condition of a row filter",
        }
    }
}

/// Refuses what may not stand in such an expression.
pub(super) fn check(source: &Source<'_>, what: ExpressionUse) -> Result<(), SyntaxError> {
    source.refuse_parameters(what.place())?;
    // sqlparser takes the word for a column and says that what follows is wrong.
    if let Some(first) = source.first()
        && matches!(keyword(first), Some(Keyword::SELECT | Keyword::WITH | Keyword::VALUES))
    {
        return Err(subquery(what, source.span_between(first.span.start, first.span.end)));
    }
    let expr = source.parse(|parser| parser.parse_expr())?;
    walk_expr(&mut Checker { source, what }, &expr)
}

fn subquery(what: ExpressionUse, span: Span) -> SyntaxError {
    SyntaxError::unsupported(
        format!("a subquery in {}", what.place()),
        "Say it with the columns of the row alone, or put the query into a view.",
        span,
    )
}

struct Checker<'a> {
    source: &'a Source<'a>,
    what: ExpressionUse,
}

impl Checker<'_> {
    fn invalid(&self, subject: &str, span: Span) -> SyntaxError {
        let place = self.what.place();
        SyntaxError::invalid(SqlState::InvalidObjectDefinition, format!("{subject} cannot be used in {place}"), span)
    }
}

impl ExprVisitor for Checker<'_> {
    fn query(&mut self, query: &Query) -> Result<(), SyntaxError> {
        let span = query.span();
        Err(subquery(self.what, self.source.span_between(span.start, span.end)))
    }

    fn table(&mut self, name: &ObjectName) -> Result<(), SyntaxError> {
        let span = name.span();
        Err(SyntaxError::unsupported(
            format!("a table in {}", self.what.place()),
            "Say it with the columns of the row alone.",
            self.source.span_between(span.start, span.end),
        ))
    }

    fn compound(&mut self, _idents: &[Ident]) -> Result<(), SyntaxError> {
        Ok(())
    }

    fn wildcard(
        &mut self,
        _qualifier: Option<&ObjectName>,
        span: sqlparser::tokenizer::Span,
    ) -> Result<(), SyntaxError> {
        Err(self.source.unexpected_at(self.source.byte(span.start)))
    }

    fn function(&mut self, function: &Function) -> Result<(), SyntaxError> {
        let ObjectName(parts) = &function.name;
        let Some(ObjectNamePart::Identifier(ident)) = parts.last() else {
            return Err(SyntaxError::unsupported("this form of a function's name", "", self.source.span()));
        };
        let (name, span) = (ident_text(ident), self.source.ident_span(ident));
        if is_volatile(&name) {
            return Err(self.invalid(&format!("volatile function \"{name}\""), span));
        }
        let distinct = match &function.args {
            FunctionArguments::List(list) => list.duplicate_treatment.is_some(),
            FunctionArguments::None | FunctionArguments::Subquery(_) => false,
        };
        if function.over.is_some() {
            return Err(self.invalid(&format!("window function \"{name}\""), span));
        }
        if is_aggregate(&name) || distinct || function.filter.is_some() || !function.within_group.is_empty() {
            return Err(self.invalid(&format!("aggregate function \"{name}\""), span));
        }
        Ok(())
    }

    fn unsupported(&mut self, expr: &Expr) -> SyntaxError {
        let span = expr.span();
        SyntaxError::unsupported("this kind of expression", "", self.source.span_between(span.start, span.end))
    }
}
