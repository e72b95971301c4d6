//! The small SELECT: what drivers and psql ask of the system before a user's first statement.
//!
//! One relation at most, a list, a simple WHERE, ORDER BY and LIMIT. All else is 0A000 with a hint at
//! SHOW; what is no SQL at all is 42601.

mod expr;

use std::ops::Range;

use dataglot_model::{At, OrderBy, Projection, SelectExpr, SelectItem, SelectQuery, SqlState};
use sqlparser::ast::{
    Expr, Fetch, GroupByExpr, LimitClause, ObjectName, ObjectNamePart, Offset, OrderByExpr, OrderByKind,
    OrderByOptions, OrderBySort, Query, Select, SelectItem as SqlItem, SelectItemQualifiedWildcardKind, SetExpr,
    Spanned, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};
use sqlparser::tokenizer::Span as TokenSpan;

pub(crate) use self::expr::is_bare_call;
use crate::query::{Source, ident_text};
use crate::{ParseCx, SyntaxError};

/// What to do instead of a SELECT that is not there.
const HINT: &str = "Use SHOW, as in SHOW CATALOGS, SHOW ROLES or SHOW GRANTS, to read what is stored here.";

/// The SELECT in `sql[range]`, and the highest `n` of a parameter `$n` in it.
pub(crate) fn select(sql: &str, range: Range<usize>, cx: &ParseCx<'_>) -> Result<(SelectQuery, u16), SyntaxError> {
    let source = Source::new(sql, range, cx)?;
    let query = source.parse(|parser| parser.parse_query())?;
    let mut lowering = Lowering { source: &source, cx, parameters: 0 };
    let lowered = lowering.query(&query)?;
    Ok((lowered, lowering.parameters))
}

struct Lowering<'a> {
    source: &'a Source<'a>,
    cx: &'a ParseCx<'a>,
    /// The highest parameter so far.
    parameters: u16,
}

impl Lowering<'_> {
    fn refused(&self, what: &'static str, span: TokenSpan) -> SyntaxError {
        SyntaxError::unsupported(what, HINT, self.source.span_between(span.start, span.end))
    }

    fn query(&mut self, query: &Query) -> Result<SelectQuery, SyntaxError> {
        let Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        if with.is_some()
            || !locks.is_empty()
            || for_clause.is_some()
            || settings.is_some()
            || format_clause.is_some()
            || !pipe_operators.is_empty()
        {
            return Err(self.refused("this form of SELECT", query.span()));
        }
        let mut lowered = match body.as_ref() {
            SetExpr::Select(select) => self.select(select)?,
            SetExpr::Query(_)
            | SetExpr::SetOperation { .. }
            | SetExpr::Values(_)
            | SetExpr::Insert(_)
            | SetExpr::Update(_)
            | SetExpr::Delete(_)
            | SetExpr::Merge(_)
            | SetExpr::Table(_) => return Err(self.refused("this form of SELECT", query.span())),
        };
        if let Some(order_by) = order_by {
            lowered.order = match &order_by.kind {
                OrderByKind::Expressions(keys) if order_by.interpolate.is_none() => {
                    keys.iter().map(|key| self.order(key)).collect::<Result<_, _>>()?
                }
                OrderByKind::Expressions(_) | OrderByKind::All(_) => {
                    return Err(self.refused("this form of ORDER BY", order_by.span()));
                }
            };
        }
        match limit_clause {
            None => {}
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) => {
                if !limit_by.is_empty() {
                    return Err(self.refused("LIMIT BY", query.span()));
                }
                lowered.limit = self.count(limit.as_ref())?;
                lowered.offset = self.count(offset.as_ref().map(|Offset { value, rows: _ }| value))?;
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                lowered.limit = self.count(Some(limit))?;
                lowered.offset = self.count(Some(offset))?;
            }
        }
        if let Some(Fetch { with_ties, percent, quantity }) = fetch {
            if *with_ties || *percent {
                return Err(self.refused("this form of FETCH", query.span()));
            }
            lowered.limit = match quantity {
                Some(quantity) => self.count(Some(quantity))?,
                None => Some(1),
            };
        }
        Ok(lowered)
    }

    fn select(&mut self, select: &Select) -> Result<SelectQuery, SyntaxError> {
        let Select {
            select_token,
            optimizer_hints: _,
            distinct,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor: _,
        } = select;
        let at = select_token.0.span;
        let grouped = match group_by {
            GroupByExpr::All(_) => true,
            GroupByExpr::Expressions(keys, modifiers) => !keys.is_empty() || !modifiers.is_empty(),
        };
        if grouped || having.is_some() {
            return Err(self.refused("GROUP BY", at));
        }
        if distinct.is_some() {
            return Err(self.refused("SELECT DISTINCT", at));
        }
        if into.is_some() {
            return Err(self.refused("SELECT INTO", at));
        }
        if select_modifiers.is_some()
            || top.is_some()
            || exclude.is_some()
            || !lateral_views.is_empty()
            || prewhere.is_some()
            || !connect_by.is_empty()
            || !cluster_by.is_empty()
            || !distribute_by.is_empty()
            || !sort_by.is_empty()
            || !named_window.is_empty()
            || qualify.is_some()
            || value_table_mode.is_some()
        {
            return Err(self.refused("this form of SELECT", at));
        }
        let (from, alias) = match from.as_slice() {
            [] => (None, None),
            [table] => self.from(table)?,
            [_, second, ..] => return Err(self.refused("a join", second.relation.span())),
        };
        Ok(SelectQuery {
            items: projection.iter().map(|item| self.item(item, alias.as_deref(), at)).collect::<Result<_, _>>()?,
            from,
            alias,
            filter: selection.as_ref().map(|expr| self.expr(expr)).transpose()?,
            order: Vec::new(),
            limit: None,
            offset: None,
        })
    }

    #[allow(clippy::type_complexity, reason = "the two fields of SelectQuery")]
    fn from(
        &self,
        table: &TableWithJoins,
    ) -> Result<(Option<At<(Option<String>, String)>>, Option<String>), SyntaxError> {
        let TableWithJoins { relation, joins } = table;
        if let Some(join) = joins.first() {
            return Err(self.refused("a join", join.relation.span()));
        }
        match relation {
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample: None,
                index_directives,
                inheritance: _,
            } if with_hints.is_empty() && partitions.is_empty() && index_directives.is_empty() => {
                let parts = self.name_parts(name)?;
                self.source.check_name(name.0.iter().filter_map(ObjectNamePart::as_ident))?;
                self.source.check_name(alias.iter().map(|alias| &alias.name))?;
                let (schema, relation) = match parts.as_slice() {
                    [relation] => (None, relation.clone()),
                    [schema, relation] => (Some(schema.clone()), relation.clone()),
                    _ => return Err(self.refused("a relation's name of more than two parts", name.span())),
                };
                let alias = match alias {
                    Some(alias) if !alias.columns.is_empty() || alias.at.is_some() => {
                        return Err(self.refused("column aliases", alias.name.span));
                    }
                    Some(alias) => ident_text(&alias.name),
                    None => relation.clone(),
                };
                let span = self.source.span_between(name.span().start, name.span().end);
                Ok((Some(At::new((schema, relation), span)), Some(alias)))
            }
            TableFactor::Table { .. }
            | TableFactor::Derived { .. }
            | TableFactor::TableFunction { .. }
            | TableFactor::Function { .. }
            | TableFactor::UNNEST { .. }
            | TableFactor::JsonTable { .. }
            | TableFactor::OpenJsonTable { .. }
            | TableFactor::NestedJoin { .. }
            | TableFactor::Pivot { .. }
            | TableFactor::Unpivot { .. }
            | TableFactor::UnpivotExpr { .. }
            | TableFactor::MatchRecognize { .. }
            | TableFactor::XmlTable { .. }
            | TableFactor::SemanticView { .. } => Err(self.refused("this form of FROM", relation.span())),
        }
    }

    fn item(&mut self, item: &SqlItem, relation: Option<&str>, at: TokenSpan) -> Result<SelectItem, SyntaxError> {
        match item {
            SqlItem::UnnamedExpr(expr) => Ok(SelectItem::Expr(Projection { expr: self.expr(expr)?, alias: None })),
            SqlItem::ExprWithAlias { expr, alias } => {
                self.source.check_label(alias)?;
                Ok(SelectItem::Expr(Projection { expr: self.expr(expr)?, alias: Some(ident_text(alias)) }))
            }
            SqlItem::Wildcard(options) if plain(options) => Ok(SelectItem::Wildcard),
            SqlItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if plain(options) && self.name_parts(name)?.last().map(String::as_str) == relation =>
            {
                Ok(SelectItem::Wildcard)
            }
            SqlItem::ExprWithAliases { .. } | SqlItem::Wildcard(_) | SqlItem::QualifiedWildcard(..) => {
                Err(self.refused("this item of a select list", at))
            }
        }
    }

    fn order(&mut self, key: &OrderByExpr) -> Result<OrderBy, SyntaxError> {
        let OrderByExpr { expr, options: OrderByOptions { sort, nulls_first }, with_fill } = key;
        let descending = match sort {
            None | Some(OrderBySort::Asc) => false,
            Some(OrderBySort::Desc) => true,
            Some(OrderBySort::Using(_)) => return Err(self.refused("this form of ORDER BY", key.span())),
        };
        // NULL is the largest value, as in PostgreSQL; that much may be said.
        if with_fill.is_some() || nulls_first.is_some_and(|first| first != descending) {
            return Err(self.refused("this form of ORDER BY", key.span()));
        }
        Ok(OrderBy { expr: self.expr(expr)?, descending })
    }

    /// A number of rows; NULL and none are no limit.
    fn count(&mut self, expr: Option<&Expr>) -> Result<Option<u64>, SyntaxError> {
        let Some(expr) = expr else { return Ok(None) };
        let span = expr.span();
        let wrong = |this: &Self| {
            SyntaxError::invalid(
                SqlState::InvalidParameterValue,
                "a number of rows must be a whole number that is not negative",
                this.source.span_between(span.start, span.end),
            )
        };
        match self.expr(expr)? {
            SelectExpr::Null => Ok(None),
            SelectExpr::Integer(n) => u64::try_from(n).map(Some).map_err(|_| wrong(self)),
            SelectExpr::Text(text) => text.trim().parse().map(Some).map_err(|_| wrong(self)),
            SelectExpr::Column(_)
            | SelectExpr::Boolean(_)
            | SelectExpr::Call { .. }
            | SelectExpr::Cast(..)
            | SelectExpr::Binary { .. }
            | SelectExpr::Not(_)
            | SelectExpr::IsNull(..)
            | SelectExpr::In(..) => Err(wrong(self)),
        }
    }

    fn name_parts(&self, name: &ObjectName) -> Result<Vec<String>, SyntaxError> {
        let ObjectName(parts) = name;
        parts
            .iter()
            .map(|part| match part {
                ObjectNamePart::Identifier(ident) => Ok(ident_text(ident)),
                ObjectNamePart::Function(_) => Err(self.refused("this form of a name", name.span())),
            })
            .collect()
    }
}

fn plain(options: &WildcardAdditionalOptions) -> bool {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    opt_ilike.is_none()
        && opt_exclude.is_none()
        && opt_except.is_none()
        && opt_replace.is_none()
        && opt_rename.is_none()
        && opt_alias.is_none()
}

#[cfg(test)]
mod tests;
