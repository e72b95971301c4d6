//! Expressions of the small SELECT: their types and their values, with SQL's three truths.

use std::cmp::Ordering;
use std::num::IntErrorKind;

use dataglot_model::{At, BinaryOperator, SelectExpr, SqlState};

use super::relation::Relation;
use super::{Host, function, type_named};
use crate::error::SessionError;
use crate::settings::parse_bool;
use crate::show::like;
use crate::value::{Type, Value};

/// What names in an expression mean.
pub(super) struct Scope<'r> {
    relation: Option<&'r Relation>,
}

impl<'r> Scope<'r> {
    pub(super) fn new(relation: Option<&'r Relation>) -> Self {
        Scope { relation }
    }

    fn column(&self, name: &At<String>) -> Result<(usize, Type), SessionError> {
        let plain = name.value.rsplit('.').next().unwrap_or_default();
        let columns = self.relation.map(|r| r.columns.as_slice()).unwrap_or_default();
        let found = columns.iter().position(|(n, _)| *n == plain);
        found.and_then(|at| Some((at, columns.get(at)?.1))).ok_or_else(|| {
            SessionError::new(SqlState::UndefinedColumn, format!("column \"{}\" does not exist", name.value))
                .at(name.span)
        })
    }

    /// The type of what `expr` answers.
    pub(super) fn type_of(&self, expr: &SelectExpr) -> Result<Type, SessionError> {
        Ok(match expr {
            SelectExpr::Column(name) => self.column(name)?.1,
            SelectExpr::Null | SelectExpr::Text(_) => Type::Text,
            SelectExpr::Integer(n) => {
                if i32::try_from(*n).is_ok() {
                    Type::Int4
                } else {
                    Type::Int8
                }
            }
            SelectExpr::Boolean(_) | SelectExpr::Not(_) | SelectExpr::IsNull(..) | SelectExpr::In(..) => Type::Bool,
            SelectExpr::Call { name, args } => match name.value.as_str() {
                "coalesce" | "nullif" => args.first().map_or(Ok(Type::Text), |a| self.type_of(a))?,
                _ => function::type_of(name, args.len())?,
            },
            SelectExpr::Cast(_, to) => type_named(to).ok_or_else(|| no_type(to))?,
            SelectExpr::Binary { op, .. } => match op {
                BinaryOperator::Concat => Type::Text,
                BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq
                | BinaryOperator::And
                | BinaryOperator::Or
                | BinaryOperator::Like
                | BinaryOperator::NotLike => Type::Bool,
            },
        })
    }

    /// The value of `expr` for one row.
    pub(super) fn eval(&self, host: &mut dyn Host, row: &[Value], expr: &SelectExpr) -> Result<Value, SessionError> {
        Ok(match expr {
            SelectExpr::Column(name) => row.get(self.column(name)?.0).cloned().unwrap_or(Value::Null),
            SelectExpr::Null => Value::Null,
            SelectExpr::Text(text) => Value::Text(text.clone()),
            SelectExpr::Integer(n) => Value::Int(*n),
            SelectExpr::Boolean(truth) => Value::Bool(*truth),
            SelectExpr::Call { name, args } => {
                let args = args.iter().map(|a| self.eval(host, row, a)).collect::<Result<Vec<_>, _>>()?;
                function::call(host, name, &args)?
            }
            SelectExpr::Cast(of, to) => {
                let wanted = type_named(to).ok_or_else(|| no_type(to))?;
                cast(self.eval(host, row, of)?, wanted, to)?
            }
            SelectExpr::Binary { op, left, right } => {
                let left = self.eval(host, row, left)?;
                let right = self.eval(host, row, right)?;
                binary(*op, &left, &right)?
            }
            SelectExpr::Not(of) => match truth(&self.eval(host, row, of)?)? {
                Some(truth) => Value::Bool(!truth),
                None => Value::Null,
            },
            SelectExpr::IsNull(of, negated) => Value::Bool((self.eval(host, row, of)? == Value::Null) != *negated),
            SelectExpr::In(of, list, negated) => {
                let value = self.eval(host, row, of)?;
                let mut found = Some(false);
                for item in list {
                    let item = self.eval(host, row, item)?;
                    match truth(&binary(BinaryOperator::Eq, &value, &item)?)? {
                        Some(true) => {
                            found = Some(true);
                            break;
                        }
                        Some(false) => {}
                        None => found = None,
                    }
                }
                found.map_or(Value::Null, |f| Value::Bool(f != *negated))
            }
        })
    }
}

fn no_type(name: &str) -> SessionError {
    SessionError::new(SqlState::UndefinedObject, format!("type \"{name}\" does not exist"))
}

/// A value as a truth. `None`: NULL.
fn truth(value: &Value) -> Result<Option<bool>, SessionError> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(truth) => Ok(Some(*truth)),
        Value::Text(text) => parse_bool(text).map(Some).ok_or_else(|| bad_input("boolean")),
        Value::Int(_) | Value::Time(_) | Value::List(_) => {
            Err(SessionError::new(SqlState::DatatypeMismatch, "a value that is no boolean stands where one is wanted"))
        }
    }
}

fn bad_input(kind: &str) -> SessionError {
    SessionError::new(SqlState::InvalidTextRepresentation, format!("invalid input syntax for type {kind}"))
}

fn binary(op: BinaryOperator, left: &Value, right: &Value) -> Result<Value, SessionError> {
    let compared = |test: fn(Ordering) -> bool| -> Result<Value, SessionError> {
        if *left == Value::Null || *right == Value::Null {
            return Ok(Value::Null);
        }
        match compare(left, right) {
            Some(ordering) => Ok(Value::Bool(test(ordering))),
            None => Err(SessionError::new(SqlState::UndefinedFunction, "operator does not exist for these types")),
        }
    };
    match op {
        BinaryOperator::Eq => compared(Ordering::is_eq),
        BinaryOperator::NotEq => compared(Ordering::is_ne),
        BinaryOperator::Lt => compared(Ordering::is_lt),
        BinaryOperator::LtEq => compared(Ordering::is_le),
        BinaryOperator::Gt => compared(Ordering::is_gt),
        BinaryOperator::GtEq => compared(Ordering::is_ge),
        BinaryOperator::And => Ok(match (truth(left)?, truth(right)?) {
            (Some(false), _) | (_, Some(false)) => Value::Bool(false),
            (Some(true), Some(true)) => Value::Bool(true),
            (None, _) | (_, None) => Value::Null,
        }),
        BinaryOperator::Or => Ok(match (truth(left)?, truth(right)?) {
            (Some(true), _) | (_, Some(true)) => Value::Bool(true),
            (Some(false), Some(false)) => Value::Bool(false),
            (None, _) | (_, None) => Value::Null,
        }),
        BinaryOperator::Like | BinaryOperator::NotLike => match (left.to_text(), right.to_text()) {
            (Some(text), Some(pattern)) => {
                Ok(Value::Bool(like::matches(&text, &pattern, Some('\\'))? == (op == BinaryOperator::Like)))
            }
            _ => Ok(Value::Null),
        },
        BinaryOperator::Concat => match (left.to_text(), right.to_text()) {
            (Some(left), Some(right)) => Ok(Value::Text(left + &right)),
            _ => Ok(Value::Null),
        },
    }
}

/// The order of two values that are not NULL; a text is read as what it is compared with.
pub(super) fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::Time(a), Value::Time(b)) => Some(a.cmp(b)),
        (Value::List(a), Value::List(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Text(b)) => Some(a.cmp(&b.trim().parse().ok()?)),
        (Value::Text(a), Value::Int(b)) => Some(a.trim().parse::<i64>().ok()?.cmp(b)),
        (Value::Bool(a), Value::Text(b)) => Some(a.cmp(&parse_bool(b)?)),
        (Value::Text(a), Value::Bool(b)) => Some(parse_bool(a)?.cmp(b)),
        (Value::Time(a), Value::Text(b)) => Some(a.to_string().cmp(b)),
        (Value::Text(a), Value::Time(b)) => Some(a.cmp(&b.to_string())),
        (Value::Null | Value::Bool(_) | Value::Int(_) | Value::Text(_) | Value::Time(_) | Value::List(_), _) => None,
    }
}

fn cast(value: Value, wanted: Type, name: &str) -> Result<Value, SessionError> {
    match (value, wanted) {
        (Value::Null, _) => Ok(Value::Null),
        (value, Type::Text | Type::Name | Type::Json) => Ok(Value::text_or_null(value.to_text())),
        (Value::Text(text), Type::Bool) => parse_bool(&text).map(Value::Bool).ok_or_else(|| bad_input(name)),
        (Value::Int(n), Type::Bool) => Ok(Value::Bool(n != 0)),
        (Value::Bool(truth), Type::Int4) => Ok(Value::Int(i64::from(truth))),
        (Value::Text(text), Type::Oid) if text.trim().parse::<i64>().is_err() => match type_named(&text.to_lowercase())
        {
            // 'text'::regtype
            Some(of) if name.ends_with("regtype") => Ok(Value::Int(i64::from(of.oid()))),
            _ => Err(SessionError::new(SqlState::UndefinedObject, format!("no such object for type {name}"))),
        },
        (Value::Text(text), Type::Int4 | Type::Int8 | Type::Oid) => {
            let number = text.trim().parse::<i64>().map_err(|error| {
                let is_long = matches!(error.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow);
                if is_long { out_of_range(name) } else { bad_input(name) }
            });
            in_range(number?, wanted, name)
        }
        (Value::Int(number), Type::Int4 | Type::Int8 | Type::Oid) => in_range(number, wanted, name),
        (value @ Value::Bool(_), Type::Bool)
        | (value @ Value::Time(_), Type::Time)
        | (value @ Value::List(_), Type::TextArray) => Ok(value),
        (
            Value::Bool(_) | Value::Int(_) | Value::Text(_) | Value::Time(_) | Value::List(_),
            Type::Bool | Type::Int4 | Type::Int8 | Type::Oid | Type::Time | Type::TextArray | Type::Void,
        ) => Err(SessionError::unsupported(format_args!("this cast to type {name}"))),
    }
}

fn out_of_range(kind: &str) -> SessionError {
    SessionError::new(SqlState::NumericValueOutOfRange, format!("value is out of range for type {kind}"))
}

fn in_range(number: i64, wanted: Type, name: &str) -> Result<Value, SessionError> {
    let fits = match wanted {
        Type::Int4 => i32::try_from(number).is_ok(),
        Type::Oid => u32::try_from(number).is_ok(),
        Type::Bool | Type::Int8 | Type::Text | Type::Name | Type::Json | Type::Time | Type::TextArray | Type::Void => {
            true
        }
    };
    if fits { Ok(Value::Int(number)) } else { Err(out_of_range(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_truths() {
        let (t, f, n) = (Value::Bool(true), Value::Bool(false), Value::Null);
        for (op, left, right, want) in [
            (BinaryOperator::And, &n, &f, &f),
            (BinaryOperator::And, &n, &t, &n),
            (BinaryOperator::Or, &n, &t, &t),
            (BinaryOperator::Or, &n, &f, &n),
            (BinaryOperator::Eq, &n, &n, &n),
            (BinaryOperator::Eq, &t, &t, &t),
        ] {
            assert_eq!(&binary(op, left, right).unwrap(), want, "{op:?}");
        }
    }

    #[test]
    fn casts() {
        assert_eq!(cast(Value::from("7"), Type::Int4, "int4").unwrap(), Value::Int(7));
        assert_eq!(cast(Value::from("text"), Type::Oid, "regtype").unwrap(), Value::Int(25));
        assert_eq!(cast(Value::Int(7), Type::Text, "text").unwrap(), Value::from("7"));
        assert_eq!(cast(Value::from("x"), Type::Int4, "int4").unwrap_err().code().code(), "22P02");
        for (value, of) in [
            (Value::from("99999999999"), Type::Int4),
            (Value::from("-2147483649"), Type::Int4),
            (Value::from("99999999999999999999"), Type::Int8),
            (Value::Int(i64::from(u32::MAX) + 1), Type::Oid),
            (Value::Int(1 << 31), Type::Int4),
        ] {
            assert_eq!(cast(value.clone(), of, "int").unwrap_err().code().code(), "22003", "{value:?}");
        }
        assert_eq!(cast(Value::from("-2147483648"), Type::Int4, "int4").unwrap(), Value::Int(-(1 << 31)));
        assert_eq!(cast(Value::from("x"), Type::Time, "timestamptz").unwrap_err().code().code(), "0A000");
    }
}
