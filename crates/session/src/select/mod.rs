//! The small SELECT: what drivers, psql and GUI tools ask before a person has typed anything.
//!
//! One relation at most, no joins, no aggregates. Relations are made when they are asked for, of what
//! the caller may see; what is not here answers 0A000 and names SHOW.

mod expr;
mod function;
mod relation;

use std::cmp::Ordering;
use std::sync::Arc;

use dataglot_model::{Actor, OrderBy, OrgName, SelectExpr, SelectItem, SelectQuery, SqlState, Timestamp};
use dataglot_planner::Image;

use crate::error::SessionError;
use crate::response::Column;
use crate::value::{Rows, Type, Value, column};

use expr::Scope;
use relation::Relation;

/// What a SELECT can ask of its session.
pub(crate) trait Host {
    /// The image that the statement reads.
    fn image(&self) -> &Image;
    /// Who asks.
    fn actor(&self) -> &Actor;
    /// The session's number.
    fn pid(&self) -> i32;
    /// When the transaction started.
    fn now(&self) -> Timestamp;
    /// The value of a setting. `None`: no such setting.
    fn setting(&self, name: &str) -> Option<String>;
    /// Every setting: name, value, description.
    fn settings(&self) -> Vec<(String, String, String)>;
    /// `set_config`: the new value.
    fn set_config(&mut self, name: &str, value: &str, local: bool) -> Result<String, SessionError>;
    /// Whether the session listens for changes.
    fn is_listening(&self) -> bool;
    /// The org.
    fn org(&self) -> &OrgName {
        self.image().org()
    }
}

/// The columns that `query` answers.
pub(crate) fn describe(host: &dyn Host, query: &SelectQuery) -> Result<Arc<[Column]>, SessionError> {
    let relation = from(host, query)?;
    let scope = Scope::new(relation.as_ref());
    Ok(items(query, relation.as_ref(), &scope)?.into_iter().map(|item| item.column).collect())
}

/// The rows that `query` answers.
pub(crate) fn run(host: &mut dyn Host, query: &SelectQuery) -> Result<Rows, SessionError> {
    let relation = from(host, query)?;
    let scope = Scope::new(relation.as_ref());
    let items = items(query, relation.as_ref(), &scope)?;
    let columns: Arc<[Column]> = items.iter().map(|i| i.column.clone()).collect();
    let one = vec![Vec::new()];
    let source = relation.as_ref().map_or(&one, |r| &r.rows);

    // The keys of ORDER BY stand before the row until it is sorted.
    let mut keyed: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
    for row in source {
        if let Some(filter) = &query.filter {
            match scope.eval(host, row, filter)? {
                Value::Bool(true) => {}
                Value::Bool(false) | Value::Null => continue,
                Value::Int(_) | Value::Text(_) | Value::Time(_) | Value::List(_) => {
                    return Err(SessionError::new(
                        SqlState::DatatypeMismatch,
                        "argument of WHERE must be type boolean",
                    ));
                }
            }
        }
        let values = items.iter().map(|item| item.eval(&scope, host, row)).collect::<Result<Vec<_>, _>>()?;
        let keys = query
            .order
            .iter()
            .map(|key| order_key(key, &scope, host, row, &columns, &values))
            .collect::<Result<Vec<_>, _>>()?;
        keyed.push((keys, values));
    }
    keyed.sort_by(|(a, _), (b, _)| by_keys(a, b, &query.order));
    let skip = usize::try_from(query.offset.unwrap_or(0)).unwrap_or(usize::MAX);
    let take = query.limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    Ok(Rows { columns, rows: keyed.into_iter().map(|(_, values)| values).skip(skip).take(take).collect() })
}

/// One column of the answer.
struct Item<'q> {
    column: Column,
    what: What<'q>,
}

enum What<'q> {
    /// The relation's column of that number.
    Column(usize),
    Expr(&'q SelectExpr),
}

impl Item<'_> {
    fn eval(&self, scope: &Scope<'_>, host: &mut dyn Host, row: &[Value]) -> Result<Value, SessionError> {
        match self.what {
            What::Column(at) => Ok(row.get(at).cloned().unwrap_or(Value::Null)),
            What::Expr(expr) => scope.eval(host, row, expr),
        }
    }
}

fn from(host: &dyn Host, query: &SelectQuery) -> Result<Option<Relation>, SessionError> {
    let Some(from) = &query.from else { return Ok(None) };
    let (schema, name) = &from.value;
    relation::open(host, schema.as_deref(), name).map(Some).map_err(|e| e.at(from.span))
}

fn items<'q>(
    query: &'q SelectQuery,
    relation: Option<&Relation>,
    scope: &Scope<'_>,
) -> Result<Vec<Item<'q>>, SessionError> {
    let mut out = Vec::new();
    for item in &query.items {
        match item {
            SelectItem::Wildcard => {
                let Some(relation) = relation else {
                    return Err(SessionError::new(
                        SqlState::SyntaxError,
                        "SELECT * with no tables specified is not valid",
                    ));
                };
                out.extend(
                    relation
                        .columns
                        .iter()
                        .enumerate()
                        .map(|(at, (name, of))| Item { column: column(name, *of), what: What::Column(at) }),
                );
            }
            SelectItem::Expr(projection) => {
                let of = scope.type_of(&projection.expr)?;
                let name = projection.alias.clone().unwrap_or_else(|| default_name(&projection.expr));
                out.push(Item { column: column(&name, of), what: What::Expr(&projection.expr) });
            }
        }
    }
    Ok(out)
}

/// The name that PostgreSQL gives a column without one.
fn default_name(expr: &SelectExpr) -> String {
    match expr {
        SelectExpr::Column(name) => name.value.rsplit('.').next().unwrap_or_default().to_owned(),
        SelectExpr::Call { name, .. } => name.value.clone(),
        SelectExpr::Cast(of, to) => match &**of {
            SelectExpr::Column(_) | SelectExpr::Call { .. } | SelectExpr::Cast(..) => default_name(of),
            SelectExpr::Null
            | SelectExpr::Text(_)
            | SelectExpr::Integer(_)
            | SelectExpr::Boolean(_)
            | SelectExpr::Binary { .. }
            | SelectExpr::Not(_)
            | SelectExpr::IsNull(..)
            | SelectExpr::In(..) => to.clone(),
        },
        SelectExpr::Boolean(_) => "bool".to_owned(),
        SelectExpr::Null
        | SelectExpr::Text(_)
        | SelectExpr::Integer(_)
        | SelectExpr::Binary { .. }
        | SelectExpr::Not(_)
        | SelectExpr::IsNull(..)
        | SelectExpr::In(..) => "?column?".to_owned(),
    }
}

/// The value that a key of ORDER BY sorts by: the column of that number or name, else an expression.
fn order_key(
    key: &OrderBy,
    scope: &Scope<'_>,
    host: &mut dyn Host,
    row: &[Value],
    columns: &[Column],
    values: &[Value],
) -> Result<Value, SessionError> {
    match &key.expr {
        SelectExpr::Integer(n) => usize::try_from(*n)
            .ok()
            .and_then(|n| values.get(n.checked_sub(1)?))
            .cloned()
            .ok_or_else(|| SessionError::new(SqlState::UndefinedColumn, "ORDER BY position is not in select list")),
        SelectExpr::Column(name) => match columns.iter().position(|c| c.name == name.value) {
            Some(at) => Ok(values.get(at).cloned().unwrap_or(Value::Null)),
            None => scope.eval(host, row, &key.expr),
        },
        SelectExpr::Null
        | SelectExpr::Text(_)
        | SelectExpr::Boolean(_)
        | SelectExpr::Call { .. }
        | SelectExpr::Cast(..)
        | SelectExpr::Binary { .. }
        | SelectExpr::Not(_)
        | SelectExpr::IsNull(..)
        | SelectExpr::In(..) => scope.eval(host, row, &key.expr),
    }
}

fn by_keys(a: &[Value], b: &[Value], order: &[OrderBy]) -> Ordering {
    for ((a, b), key) in a.iter().zip(b).zip(order) {
        // NULL is the largest value, as in PostgreSQL.
        let ordering = match (a, b) {
            (Value::Null, Value::Null) => Ordering::Equal,
            (Value::Null, _) => Ordering::Greater,
            (_, Value::Null) => Ordering::Less,
            (a, b) => expr::compare(a, b).unwrap_or(Ordering::Equal),
        };
        let ordering = if key.descending { ordering.reverse() } else { ordering };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

/// The type that SQL calls `name`, among those that results have.
fn type_named(name: &str) -> Option<Type> {
    Some(match name.strip_prefix("pg_catalog.").unwrap_or(name) {
        "bool" | "boolean" => Type::Bool,
        "int" | "int4" | "integer" | "int2" | "smallint" => Type::Int4,
        "int8" | "bigint" => Type::Int8,
        "text" | "varchar" | "character varying" | "char" | "bpchar" | "regproc" => Type::Text,
        "name" => Type::Name,
        "oid" | "regclass" | "regtype" | "regnamespace" | "regrole" => Type::Oid,
        "json" | "jsonb" => Type::Json,
        "timestamptz" | "timestamp with time zone" | "timestamp" => Type::Time,
        "text[]" | "_text" | "name[]" => Type::TextArray,
        _ => return None,
    })
}
