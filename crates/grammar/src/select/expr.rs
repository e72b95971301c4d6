//! Expressions of the small SELECT.

use dataglot_model::{At, BinaryOperator, SelectExpr, Sensitive, Span, SqlState};
use sqlparser::ast::{
    Array, BinaryOperator as SqlOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, InTarget, Spanned, TypedString, UnaryOperator, Value, ValueWithSpan,
};

use super::Lowering;
use crate::query::{ident_text, is_aggregate};
use crate::{Parameters, SyntaxError};

/// Functions that SQL calls without parentheses.
const BARE_CALLS: &[&str] = &[
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "session_user",
    "user",
];

/// Whether `name`, lower case, is called without parentheses.
pub(crate) fn is_bare_call(name: &str) -> bool {
    BARE_CALLS.contains(&name)
}

type Lowered = Result<SelectExpr, SyntaxError>;

impl Lowering<'_> {
    /// One expression. A chain of one operator nests to the left as deep as it is long, which the
    /// limit on chains bounds.
    #[allow(clippy::wildcard_enum_match_arm, reason = "what is not named is refused, new variants too")]
    pub(super) fn expr(&mut self, expr: &Expr) -> Lowered {
        match expr {
            Expr::Nested(of) => self.expr(of),
            Expr::Identifier(ident) => Ok(self.identifier(ident)),
            Expr::CompoundIdentifier(idents) => self.compound(idents, expr),
            Expr::Value(value) => self.value(value),
            Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false }) => {
                Ok(SelectExpr::Cast(Box::new(self.value(value)?), type_name(data_type)))
            }
            Expr::Cast { kind: _, expr: of, data_type, format: None } => {
                Ok(SelectExpr::Cast(Box::new(self.expr(of)?), type_name(data_type)))
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr: of } => Ok(SelectExpr::Not(Box::new(self.expr(of)?))),
            Expr::UnaryOp { op: UnaryOperator::Plus, expr: of } => self.expr(of),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: of } => self.negative(of, expr),
            Expr::IsNull(of) => Ok(SelectExpr::IsNull(Box::new(self.expr(of)?), false)),
            Expr::IsNotNull(of) => Ok(SelectExpr::IsNull(Box::new(self.expr(of)?), true)),
            Expr::BinaryOp { .. } => self.chain(expr),
            Expr::Like { negated, any: false, expr: of, pattern, escape_char: None } => {
                let op = if *negated { BinaryOperator::NotLike } else { BinaryOperator::Like };
                self.binary(op, of, pattern)
            }
            // Twice what is compared: only of what is small, or nested ones would grow without bound.
            Expr::Between { expr: of, negated, low, high } if is_leaf(of) => {
                let below = self.binary(BinaryOperator::GtEq, of, low)?;
                let above = self.binary(BinaryOperator::LtEq, of, high)?;
                let both =
                    SelectExpr::Binary { op: BinaryOperator::And, left: Box::new(below), right: Box::new(above) };
                Ok(if *negated { SelectExpr::Not(Box::new(both)) } else { both })
            }
            Expr::In { expr: of, target: InTarget::List(list), negated, global: false } => {
                let list = list.iter().map(|item| self.expr(item)).collect::<Result<_, _>>()?;
                Ok(SelectExpr::In(Box::new(self.expr(of)?), list, *negated))
            }
            // `= ANY (ARRAY[…])` is how drivers write IN.
            Expr::AnyOp { left, compare_op: SqlOperator::Eq, right, is_some: _ } => {
                let Expr::Array(Array { elem, named: true }) = right.as_ref() else {
                    return Err(self.unsupported(expr));
                };
                let list = elem.iter().map(|item| self.expr(item)).collect::<Result<_, _>>()?;
                Ok(SelectExpr::In(Box::new(self.expr(left)?), list, false))
            }
            Expr::Function(function) => self.function(function, expr),
            Expr::Exists { .. } | Expr::Subquery(_) => Err(self.refused("a subquery", expr.span())),
            _ => Err(self.unsupported(expr)),
        }
    }

    fn unsupported(&self, expr: &Expr) -> SyntaxError {
        self.refused("this kind of expression", expr.span())
    }

    /// A left-deep chain, in a loop: `a AND b AND c …`.
    fn chain(&mut self, expr: &Expr) -> Lowered {
        let mut left_most = expr;
        let mut rights = Vec::new();
        while let Expr::BinaryOp { left, op, right } = left_most {
            let op = operator(op).ok_or_else(|| self.refused("this operator", left_most.span()))?;
            rights.push((op, right));
            left_most = left;
        }
        let mut lowered = self.expr(left_most)?;
        for (op, right) in rights.into_iter().rev() {
            lowered = SelectExpr::Binary { op, left: Box::new(lowered), right: Box::new(self.expr(right)?) };
        }
        Ok(lowered)
    }

    fn binary(&mut self, op: BinaryOperator, left: &Expr, right: &Expr) -> Lowered {
        Ok(SelectExpr::Binary { op, left: Box::new(self.expr(left)?), right: Box::new(self.expr(right)?) })
    }

    fn identifier(&self, ident: &Ident) -> SelectExpr {
        let (name, span) = (ident_text(ident), self.source.ident_span(ident));
        // sqlparser takes `current_schema` for a column.
        if ident.quote_style.is_none() && is_bare_call(&name) {
            return SelectExpr::Call { name: At::new(name, span), args: Vec::new() };
        }
        SelectExpr::Column(At::new(name, span))
    }

    /// `[schema.]relation.column`: there is one relation, so its schema says nothing more.
    fn compound(&self, idents: &[Ident], expr: &Expr) -> Lowered {
        let [.., relation, column] = idents else { return Err(self.unsupported(expr)) };
        if idents.len() > 3 {
            return Err(self.unsupported(expr));
        }
        let span = self.source.span_between(relation.span.start, column.span.end);
        Ok(SelectExpr::Column(At::new(format!("{}.{}", ident_text(relation), ident_text(column)), span)))
    }

    fn negative(&mut self, of: &Expr, whole: &Expr) -> Lowered {
        // The smallest integer has no positive counterpart, so the sign is read with the digits.
        if let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), span: _ }) = of {
            return Ok(number(&format!("-{digits}")));
        }
        match self.expr(of)? {
            SelectExpr::Integer(n) if n != i64::MIN => Ok(SelectExpr::Integer(-n)),
            SelectExpr::Integer(_)
            | SelectExpr::Column(_)
            | SelectExpr::Null
            | SelectExpr::Text(_)
            | SelectExpr::Boolean(_)
            | SelectExpr::Call { .. }
            | SelectExpr::Cast(..)
            | SelectExpr::Binary { .. }
            | SelectExpr::Not(_)
            | SelectExpr::IsNull(..)
            | SelectExpr::In(..) => Err(self.unsupported(whole)),
        }
    }

    fn value(&mut self, value: &ValueWithSpan) -> Lowered {
        let ValueWithSpan { value, span } = value;
        match value {
            Value::Number(digits, _) => Ok(number(digits)),
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => Ok(SelectExpr::Text(text.clone())),
            Value::DollarQuotedString(text) => Ok(SelectExpr::Text(text.value.clone())),
            Value::Boolean(yes) => Ok(SelectExpr::Boolean(*yes)),
            Value::Null => Ok(SelectExpr::Null),
            Value::Placeholder(text) => self.parameter(text, self.source.span_between(span.start, span.end)),
            Value::TripleSingleQuotedString(_)
            | Value::TripleDoubleQuotedString(_)
            | Value::SingleQuotedByteStringLiteral(_)
            | Value::DoubleQuotedByteStringLiteral(_)
            | Value::TripleSingleQuotedByteStringLiteral(_)
            | Value::TripleDoubleQuotedByteStringLiteral(_)
            | Value::SingleQuotedRawStringLiteral(_)
            | Value::DoubleQuotedRawStringLiteral(_)
            | Value::TripleSingleQuotedRawStringLiteral(_)
            | Value::TripleDoubleQuotedRawStringLiteral(_)
            | Value::QuoteDelimitedStringLiteral(_)
            | Value::NationalQuoteDelimitedStringLiteral(_)
            | Value::HexStringLiteral(_)
            | Value::DoubleQuotedString(_) => Err(self.refused("this kind of literal", *span)),
        }
    }

    /// `$n`: what is bound to it, or NULL while nothing is.
    fn parameter(&mut self, text: &str, span: Span) -> Lowered {
        let number = text.strip_prefix('$').and_then(|digits| digits.parse::<u16>().ok()).filter(|n| *n > 0);
        let Some(number) = number else {
            return Err(SyntaxError::invalid(SqlState::SyntaxError, "a parameter is $ and a number", span));
        };
        self.parameters = self.parameters.max(number);
        let missing =
            || SyntaxError::invalid(SqlState::UndefinedParameter, format!("there is no parameter ${number}"), span);
        match self.cx.parameters {
            Parameters::None => Err(missing()),
            Parameters::Describe => Ok(SelectExpr::Null),
            Parameters::Bound(values) => {
                let value = values.get(usize::from(number) - 1).ok_or_else(missing)?;
                Ok(value
                    .as_ref()
                    .map(Sensitive::open)
                    .map_or(SelectExpr::Null, |text| SelectExpr::Text(text.to_owned())))
            }
        }
    }

    fn function(&mut self, function: &Function, expr: &Expr) -> Lowered {
        let Function { name, uses_odbc_syntax, parameters, args, within_group, filter, null_treatment, over } =
            function;
        let parts = self.name_parts(name)?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (called, last) = match parts.as_slice() {
            [last] | ["pg_catalog", last] => ((*last).to_owned(), *last),
            [schema, last] => (format!("{schema}.{last}"), *last),
            _ => return Err(self.unsupported(expr)),
        };
        if is_aggregate(last) || filter.is_some() || !within_group.is_empty() {
            return Err(self.refused("an aggregate function", name.span()));
        }
        if over.is_some() {
            return Err(self.refused("a window function", name.span()));
        }
        if *uses_odbc_syntax || null_treatment.is_some() || !matches!(parameters, FunctionArguments::None) {
            return Err(self.unsupported(expr));
        }
        let args = match args {
            FunctionArguments::None => Vec::new(),
            FunctionArguments::Subquery(_) => return Err(self.refused("a subquery", expr.span())),
            FunctionArguments::List(FunctionArgumentList { duplicate_treatment, args, clauses }) => {
                if duplicate_treatment.is_some() || !clauses.is_empty() {
                    return Err(self.unsupported(expr));
                }
                args.iter()
                    .map(|arg| match arg {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => self.expr(arg),
                        FunctionArg::Unnamed(
                            FunctionArgExpr::QualifiedWildcard(_)
                            | FunctionArgExpr::Wildcard
                            | FunctionArgExpr::WildcardWithOptions(_),
                        )
                        | FunctionArg::Named { .. }
                        | FunctionArg::ExprNamed { .. } => Err(self.unsupported(expr)),
                    })
                    .collect::<Result<_, _>>()?
            }
        };
        let span = self.source.span_between(name.span().start, name.span().end);
        Ok(SelectExpr::Call { name: At::new(called, span), args })
    }
}

/// A number: an integer where it fits, else text that is to be a `numeric`.
fn number(digits: &str) -> SelectExpr {
    match digits.parse() {
        Ok(n) => SelectExpr::Integer(n),
        Err(_) => SelectExpr::Cast(Box::new(SelectExpr::Text(digits.to_owned())), "numeric".to_owned()),
    }
}

fn is_leaf(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_))
}

#[allow(clippy::wildcard_enum_match_arm, reason = "what is not named is refused, new variants too")]
fn operator(op: &SqlOperator) -> Option<BinaryOperator> {
    let simple = match op {
        SqlOperator::Eq => "=",
        SqlOperator::NotEq => "<>",
        SqlOperator::Lt => "<",
        SqlOperator::LtEq => "<=",
        SqlOperator::Gt => ">",
        SqlOperator::GtEq => ">=",
        SqlOperator::And => "and",
        SqlOperator::Or => "or",
        SqlOperator::StringConcat => "||",
        // `OPERATOR(pg_catalog.=)`, as psql writes it.
        SqlOperator::PGCustomBinaryOperator(parts) => match parts.as_slice() {
            [schema, symbol] if schema == "pg_catalog" => symbol,
            [symbol] => symbol,
            _ => return None,
        },
        _ => return None,
    };
    Some(match simple {
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "and" => BinaryOperator::And,
        "or" => BinaryOperator::Or,
        "||" => BinaryOperator::Concat,
        _ => return None,
    })
}

/// The type as SQL spells it, lower case, without the schema that all of them are in.
fn type_name(data_type: &DataType) -> String {
    let name = data_type.to_string().to_ascii_lowercase();
    name.strip_prefix("pg_catalog.").map_or(name.clone(), str::to_owned)
}
