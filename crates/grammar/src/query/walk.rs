//! A walk over sqlparser's expressions, every variant by name: a new one must be looked at before a
//! table can hide in it.
//!
//! Left-deep chains (`a + b + c …`) are walked in a loop, so what recurses is bounded by the depth of
//! the parentheses in the text.

use sqlparser::ast::{
    AccessExpr, Array, CaseWhen, DictionaryField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, HavingBound, Ident, InTarget, Interval, JsonPath, JsonPathElem,
    LambdaFunction, ListAggOnOverflow, Map, MapEntry, MemberOf, ObjectName, OrderByExpr, Query, Spanned, Subscript,
    WindowFrame, WindowFrameBound, WindowSpec, WindowType, WithFill,
};
use sqlparser::tokenizer::Span as TokenSpan;

use crate::SyntaxError;

/// What is told of an expression.
pub(super) trait ExprVisitor {
    /// A subquery. What is in it is the visitor's to walk.
    fn query(&mut self, query: &Query) -> Result<(), SyntaxError>;
    /// A table that is named in an expression, as in `x IN table`.
    fn table(&mut self, name: &ObjectName) -> Result<(), SyntaxError>;
    /// `a.b.c`
    fn compound(&mut self, idents: &[Ident]) -> Result<(), SyntaxError>;
    /// `*`, `a.*`
    fn wildcard(&mut self, qualifier: Option<&ObjectName>, span: TokenSpan) -> Result<(), SyntaxError>;
    /// A function, before its arguments.
    fn function(&mut self, function: &Function) -> Result<(), SyntaxError>;
    /// The error for what PostgreSQL has not.
    fn unsupported(&mut self, expr: &Expr) -> SyntaxError;
}

type Walked = Result<(), SyntaxError>;

/// Tells `visitor` of `expr` and all that is in it.
pub(super) fn walk_expr<V: ExprVisitor>(visitor: &mut V, expr: &Expr) -> Walked {
    let mut left_most = expr;
    let mut rights = Vec::new();
    while let Expr::BinaryOp { left, op: _, right } = left_most {
        rights.push(right);
        left_most = left;
    }
    walk_one(visitor, left_most)?;
    rights.into_iter().rev().try_for_each(|right| walk_expr(visitor, right))
}

fn walk_one<V: ExprVisitor>(visitor: &mut V, expr: &Expr) -> Walked {
    match expr {
        Expr::Identifier(_) | Expr::Value(_) | Expr::TypedString(_) => Ok(()),
        Expr::CompoundIdentifier(idents) => visitor.compound(idents),
        Expr::BinaryOp { .. } => walk_expr(visitor, expr),
        Expr::IsFalse(of)
        | Expr::IsNotFalse(of)
        | Expr::IsTrue(of)
        | Expr::IsNotTrue(of)
        | Expr::IsNull(of)
        | Expr::IsNotNull(of)
        | Expr::IsUnknown(of)
        | Expr::IsNotUnknown(of)
        | Expr::Nested(of)
        | Expr::IsJson { expr: of, kind: _, unique_keys: _, negated: _ }
        | Expr::IsNormalized { expr: of, form: _, negated: _ }
        | Expr::UnaryOp { op: _, expr: of }
        | Expr::Cast { kind: _, expr: of, data_type: _, format: _ }
        | Expr::Extract { field: _, syntax: _, expr: of }
        | Expr::Ceil { expr: of, field: _ }
        | Expr::Floor { expr: of, field: _ }
        | Expr::Collate { expr: of, collation: _ }
        | Expr::Interval(Interval {
            value: of,
            leading_field: _,
            leading_precision: _,
            last_field: _,
            fractional_seconds_precision: _,
        }) => walk_expr(visitor, of),
        Expr::IsDistinctFrom(left, right)
        | Expr::IsNotDistinctFrom(left, right)
        | Expr::AnyOp { left, compare_op: _, right, is_some: _ }
        | Expr::AllOp { left, compare_op: _, right }
        | Expr::Position { expr: left, r#in: right }
        | Expr::AtTimeZone { timestamp: left, time_zone: right }
        | Expr::RLike { negated: _, expr: left, pattern: right, regexp: _ }
        | Expr::MemberOf(MemberOf { value: left, array: right }) => {
            walk_expr(visitor, left)?;
            walk_expr(visitor, right)
        }
        Expr::Between { expr, negated: _, low, high } => {
            walk_expr(visitor, expr)?;
            walk_expr(visitor, low)?;
            walk_expr(visitor, high)
        }
        Expr::Like { negated: _, any: _, expr, pattern, escape_char }
        | Expr::ILike { negated: _, any: _, expr, pattern, escape_char }
        | Expr::SimilarTo { negated: _, expr, pattern, escape_char } => {
            walk_expr(visitor, expr)?;
            walk_expr(visitor, pattern)?;
            walk_boxed(visitor, escape_char.as_deref())
        }
        Expr::In { expr, target, negated: _, global: _ } => {
            walk_expr(visitor, expr)?;
            match target {
                InTarget::List(list) => walk_all(visitor, list),
                InTarget::Subquery(query) => visitor.query(query),
                InTarget::Unnest(of) => walk_expr(visitor, of),
                InTarget::Table { name, args } => {
                    visitor.table(name)?;
                    args.iter().flatten().try_for_each(|arg| walk_function_arg(visitor, arg))
                }
            }
        }
        Expr::Substring { expr, substring_from, substring_for, special: _, shorthand: _ } => {
            walk_expr(visitor, expr)?;
            walk_boxed(visitor, substring_from.as_deref())?;
            walk_boxed(visitor, substring_for.as_deref())
        }
        Expr::Trim { trim_where: _, trim_what, expr, trim_characters } => {
            walk_boxed(visitor, trim_what.as_deref())?;
            walk_expr(visitor, expr)?;
            walk_all(visitor, trim_characters.iter().flatten())
        }
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            walk_expr(visitor, expr)?;
            walk_expr(visitor, overlay_what)?;
            walk_expr(visitor, overlay_from)?;
            walk_boxed(visitor, overlay_for.as_deref())
        }
        Expr::Function(function) => walk_function(visitor, function),
        Expr::Case { case_token: _, end_token: _, operand, conditions, else_result } => {
            walk_boxed(visitor, operand.as_deref())?;
            for CaseWhen { condition, result } in conditions {
                walk_expr(visitor, condition)?;
                walk_expr(visitor, result)?;
            }
            walk_boxed(visitor, else_result.as_deref())
        }
        Expr::Exists { subquery, negated: _ } | Expr::Subquery(subquery) => visitor.query(subquery),
        Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => walk_all(visitor, sets.iter().flatten()),
        Expr::Tuple(list) | Expr::Array(Array { elem: list, named: _ }) => walk_all(visitor, list),
        Expr::Named { expr, name: _ } => walk_expr(visitor, expr),
        Expr::Dictionary(fields) => {
            fields.iter().try_for_each(|DictionaryField { key: _, value }| walk_expr(visitor, value))
        }
        Expr::Map(Map { entries }) => entries.iter().try_for_each(|MapEntry { key, value }| {
            walk_expr(visitor, key)?;
            walk_expr(visitor, value)
        }),
        Expr::Lambda(LambdaFunction { params: _, body, syntax: _ }) => walk_expr(visitor, body),
        Expr::CompoundFieldAccess { root, access_chain } => {
            walk_expr(visitor, root)?;
            access_chain.iter().try_for_each(|access| match access {
                AccessExpr::Dot(of) => walk_expr(visitor, of),
                AccessExpr::Subscript(Subscript::Index { index }) => walk_expr(visitor, index),
                AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride }) => {
                    walk_all(visitor, [lower_bound, upper_bound, stride].into_iter().flatten())
                }
            })
        }
        Expr::JsonAccess { value, path: JsonPath { path } } => {
            walk_expr(visitor, value)?;
            path.iter().try_for_each(|elem| match elem {
                JsonPathElem::Dot { key: _, quoted: _ } => Ok(()),
                JsonPathElem::Bracket { key } | JsonPathElem::ColonBracket { key } => walk_expr(visitor, key),
            })
        }
        Expr::Wildcard(token) => visitor.wildcard(None, token.0.span),
        Expr::QualifiedWildcard(name, _) => visitor.wildcard(Some(name), name.span()),
        // Other systems' own; none of them is PostgreSQL's.
        Expr::Convert { .. }
        | Expr::Prefixed { .. }
        | Expr::Struct { .. }
        | Expr::MatchAgainst { .. }
        | Expr::OuterJoin(_)
        | Expr::Prior(_) => Err(visitor.unsupported(expr)),
    }
}

fn walk_boxed<V: ExprVisitor>(visitor: &mut V, expr: Option<&Expr>) -> Walked {
    expr.map_or(Ok(()), |expr| walk_expr(visitor, expr))
}

/// Each of them.
pub(super) fn walk_all<'e, V: ExprVisitor>(visitor: &mut V, exprs: impl IntoIterator<Item = &'e Expr>) -> Walked {
    exprs.into_iter().try_for_each(|expr| walk_expr(visitor, expr))
}

fn walk_function<V: ExprVisitor>(visitor: &mut V, function: &Function) -> Walked {
    visitor.function(function)?;
    let Function { name: _, uses_odbc_syntax: _, parameters, args, within_group, filter, null_treatment: _, over } =
        function;
    walk_arguments(visitor, parameters)?;
    walk_arguments(visitor, args)?;
    within_group.iter().try_for_each(|key| walk_order(visitor, key))?;
    walk_boxed(visitor, filter.as_deref())?;
    match over {
        None | Some(WindowType::NamedWindow(_)) => Ok(()),
        Some(WindowType::WindowSpec(spec)) => walk_window(visitor, spec),
    }
}

fn walk_arguments<V: ExprVisitor>(visitor: &mut V, arguments: &FunctionArguments) -> Walked {
    match arguments {
        FunctionArguments::None => Ok(()),
        FunctionArguments::Subquery(query) => visitor.query(query),
        FunctionArguments::List(FunctionArgumentList { duplicate_treatment: _, args, clauses }) => {
            args.iter().try_for_each(|arg| walk_function_arg(visitor, arg))?;
            clauses.iter().try_for_each(|clause| walk_clause(visitor, clause))
        }
    }
}

fn walk_clause<V: ExprVisitor>(visitor: &mut V, clause: &FunctionArgumentClause) -> Walked {
    match clause {
        FunctionArgumentClause::IgnoreOrRespectNulls(_)
        | FunctionArgumentClause::Separator(_)
        | FunctionArgumentClause::JsonNullClause(_)
        | FunctionArgumentClause::JsonReturningClause(_)
        | FunctionArgumentClause::OnOverflow(ListAggOnOverflow::Error) => Ok(()),
        FunctionArgumentClause::OnOverflow(ListAggOnOverflow::Truncate { filler, with_count: _ }) => {
            walk_boxed(visitor, filler.as_deref())
        }
        FunctionArgumentClause::Where(expr)
        | FunctionArgumentClause::Limit(expr)
        | FunctionArgumentClause::Having(HavingBound(_, expr)) => walk_expr(visitor, expr),
        FunctionArgumentClause::OrderBy(keys) => keys.iter().try_for_each(|key| walk_order(visitor, key)),
    }
}

/// One argument of a function or table function.
pub(super) fn walk_function_arg<V: ExprVisitor>(visitor: &mut V, arg: &FunctionArg) -> Walked {
    let value = match arg {
        FunctionArg::Named { name: _, arg, operator: _ } | FunctionArg::Unnamed(arg) => arg,
        FunctionArg::ExprNamed { name, arg, operator: _ } => {
            walk_expr(visitor, name)?;
            arg
        }
    };
    match value {
        FunctionArgExpr::Expr(expr) => walk_expr(visitor, expr),
        FunctionArgExpr::QualifiedWildcard(name) => visitor.wildcard(Some(name), name.span()),
        // `count(*)` names nothing.
        FunctionArgExpr::Wildcard | FunctionArgExpr::WildcardWithOptions(_) => Ok(()),
    }
}

/// A key of ORDER BY.
pub(super) fn walk_order<V: ExprVisitor>(visitor: &mut V, key: &OrderByExpr) -> Walked {
    let OrderByExpr { expr, options: _, with_fill } = key;
    walk_expr(visitor, expr)?;
    match with_fill {
        None => Ok(()),
        Some(WithFill { from, to, step }) => walk_all(visitor, [from, to, step].into_iter().flatten()),
    }
}

/// A window's definition.
pub(super) fn walk_window<V: ExprVisitor>(visitor: &mut V, spec: &WindowSpec) -> Walked {
    let WindowSpec { window_name: _, partition_by, order_by, window_frame } = spec;
    walk_all(visitor, partition_by)?;
    order_by.iter().try_for_each(|key| walk_order(visitor, key))?;
    let Some(WindowFrame { units: _, start_bound, end_bound }) = window_frame else { return Ok(()) };
    [Some(start_bound), end_bound.as_ref()].into_iter().flatten().try_for_each(|bound| match bound {
        WindowFrameBound::CurrentRow => Ok(()),
        WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => walk_boxed(visitor, by.as_deref()),
    })
}
