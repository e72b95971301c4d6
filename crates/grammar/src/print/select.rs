//! The small SELECT.

use dataglot_model::{
    BinaryOperator, OrderBy, Projection, SelectExpr, SelectItem, SelectQuery, quote_ident, quote_string,
};

use super::sql::{Sql, boolean};

pub(super) fn print_select(sql: &mut Sql, query: &SelectQuery) {
    let SelectQuery { items, from, alias, filter, order, limit, offset } = query;
    sql.word("SELECT").list(items, |sql, item| match item {
        SelectItem::Wildcard => {
            sql.word("*");
        }
        SelectItem::Expr(Projection { expr, alias }) => {
            print_expr(sql, expr);
            if let Some(alias) = alias {
                sql.word("AS").word(quote_ident(alias));
            }
        }
    });
    if let Some(from) = from {
        let (schema, relation) = &from.value;
        sql.word("FROM");
        match schema {
            Some(schema) => sql.word(quote_ident(schema)).raw(".").raw(quote_ident(relation)),
            None => sql.word(quote_ident(relation)),
        };
        if let Some(alias) = alias.as_ref().filter(|alias| *alias != relation) {
            sql.word("AS").word(quote_ident(alias));
        }
    }
    if let Some(filter) = filter {
        sql.word("WHERE");
        print_expr(sql, filter);
    }
    if !order.is_empty() {
        sql.word("ORDER BY").list(order, |sql, OrderBy { expr, descending }| {
            print_expr(sql, expr);
            sql.word_if(*descending, "DESC");
        });
    }
    if let Some(limit) = limit {
        sql.word("LIMIT").word(limit);
    }
    if let Some(offset) = offset {
        sql.word("OFFSET").word(offset);
    }
}

/// An expression; every operator brings its own parentheses, so none is read otherwise.
fn print_expr(sql: &mut Sql, expr: &SelectExpr) {
    match expr {
        SelectExpr::Column(name) => {
            sql.word(dotted(&name.value));
        }
        SelectExpr::Null => {
            sql.word("NULL");
        }
        SelectExpr::Text(text) => {
            sql.word(quote_string(text));
        }
        SelectExpr::Integer(n) => {
            sql.word(n);
        }
        SelectExpr::Boolean(yes) => {
            sql.word(boolean(*yes));
        }
        SelectExpr::Call { name, args } => {
            if args.is_empty() && crate::select::is_bare_call(&name.value) {
                sql.word(&name.value);
            } else {
                sql.word(dotted(&name.value)).raw("(").list(args, print_expr).raw(")");
            }
        }
        SelectExpr::Cast(of, to) => {
            sql.word("CAST(");
            print_expr(sql, of);
            sql.word("AS").word(to).raw(")");
        }
        SelectExpr::Binary { op, left, right } => {
            sql.word("(");
            print_expr(sql, left);
            sql.word(operator(*op));
            print_expr(sql, right);
            sql.raw(")");
        }
        SelectExpr::Not(of) => {
            sql.word("(NOT");
            print_expr(sql, of);
            sql.raw(")");
        }
        SelectExpr::IsNull(of, negated) => {
            sql.word("(");
            print_expr(sql, of);
            sql.word(if *negated { "IS NOT NULL" } else { "IS NULL" }).raw(")");
        }
        SelectExpr::In(of, list, negated) => {
            sql.word("(");
            print_expr(sql, of);
            sql.word(if *negated { "NOT IN (" } else { "IN (" }).list(list, print_expr).raw("))");
        }
    }
}

const fn operator(op: BinaryOperator) -> &'static str {
    match op {
        BinaryOperator::Eq => "=",
        BinaryOperator::NotEq => "<>",
        BinaryOperator::Lt => "<",
        BinaryOperator::LtEq => "<=",
        BinaryOperator::Gt => ">",
        BinaryOperator::GtEq => ">=",
        BinaryOperator::And => "AND",
        BinaryOperator::Or => "OR",
        BinaryOperator::Like => "LIKE",
        BinaryOperator::NotLike => "NOT LIKE",
        BinaryOperator::Concat => "||",
    }
}

/// A dotted name, each part quoted where it has to be.
fn dotted(name: &str) -> String {
    name.split('.').map(quote_ident).collect::<Vec<_>>().join(".")
}
