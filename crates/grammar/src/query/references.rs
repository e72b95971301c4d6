//! Which tables a view's query names, where, and how a rename would have to rewrite each.
//!
//! Every clause that can hold a table is walked; a clause that is not known here is refused, so that no
//! reference is missed. A name of one part that a WITH of an enclosing query has given is none.

mod from;

use dataglot_model::def::{ReferenceRole, ViewReference};
use dataglot_model::{Name, NameError, RemoteName, SchemaRef, TableRef};
use sqlparser::ast::{
    Cte, Distinct, Expr, Fetch, Function, GroupByExpr, GroupByWithModifier, Ident, LimitClause, NamedWindowDefinition,
    NamedWindowExpr, ObjectName, ObjectNamePart, Offset, OrderBy, OrderByKind, Parens, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Spanned, Values, With,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span as TokenSpan, Token};

use super::source::{Source, ident_text, keyword};
use super::walk::{ExprVisitor, walk_all, walk_expr, walk_order, walk_window};
use crate::{ParseCx, SyntaxError};

type Walked = Result<(), SyntaxError>;

const PLAIN_QUERY: &str = "A view is one SELECT, VALUES, TABLE or WITH query.";

/// The references of the query in `source`, in the order of the text.
pub(super) fn of_view(source: &mut Source<'_>, cx: &ParseCx<'_>) -> Result<Vec<ViewReference>, SyntaxError> {
    source.refuse_parameters("the query of a view")?;
    let starts_a_query = source.first().is_some_and(|token| {
        token.token == Token::LParen
            || matches!(keyword(token), Some(Keyword::SELECT | Keyword::VALUES | Keyword::WITH | Keyword::TABLE))
    });
    if !starts_a_query {
        let at = source.first().map_or(0, |token| source.byte(token.span.start));
        return Err(source.unexpected_at(at));
    }
    let table_commands = source.expand_table_commands();
    let query = source.parse(|parser| parser.parse_query())?;
    let mut collector = Collector {
        source: &*source,
        search_path: cx.search_path,
        table_commands,
        ctes: Vec::new(),
        found: Vec::new(),
        qualifiers: Vec::new(),
    };
    collector.query(&query)?;
    Ok(collector.finish())
}

struct Collector<'a> {
    source: &'a Source<'a>,
    search_path: &'a SchemaRef,
    /// Where the names after `TABLE` begin. An alias cannot follow there.
    table_commands: Vec<usize>,
    /// Names of WITH that can be seen here.
    ctes: Vec<String>,
    found: Vec<ViewReference>,
    /// What stands before a column or a `*`, and could be the name of a table that FROM names.
    qualifiers: Vec<ViewReference>,
}

impl Collector<'_> {
    fn finish(self) -> Vec<ViewReference> {
        let Collector { mut found, qualifiers, .. } = self;
        let is_table = |q: &ViewReference| found.iter().any(|f| f.table == q.table);
        let qualifiers: Vec<_> = qualifiers.into_iter().filter(is_table).collect();
        found.extend(qualifiers);
        found.sort_by_key(|reference| (reference.start, reference.end));
        found.dedup();
        found
    }

    fn refused<T>(&self, what: &'static str, span: TokenSpan) -> Result<T, SyntaxError> {
        Err(SyntaxError::unsupported(what, PLAIN_QUERY, self.source.span_between(span.start, span.end)))
    }

    fn walk_query(&mut self, query: &Query) -> Walked {
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
        if !locks.is_empty() {
            return self.refused("FOR UPDATE or FOR SHARE in a view", query.span());
        }
        if for_clause.is_some() || settings.is_some() || format_clause.is_some() || !pipe_operators.is_empty() {
            return self.refused("this clause of a query", query.span());
        }
        let outer = self.ctes.len();
        if let Some(with) = with {
            self.walk_with(with)?;
        }
        self.walk_set(body)?;
        if let Some(OrderBy { kind, interpolate }) = order_by {
            if interpolate.is_some() {
                return self.refused("INTERPOLATE in a view", query.span());
            }
            match kind {
                OrderByKind::All(_) => {}
                OrderByKind::Expressions(keys) => keys.iter().try_for_each(|key| walk_order(self, key))?,
            }
        }
        match limit_clause {
            None => {}
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) => {
                walk_all(self, limit)?;
                if let Some(Offset { value, rows: _ }) = offset {
                    walk_expr(self, value)?;
                }
                walk_all(self, limit_by)?;
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => walk_all(self, [offset, limit])?,
        }
        if let Some(Fetch { with_ties: _, percent: _, quantity }) = fetch {
            walk_all(self, quantity)?;
        }
        self.ctes.truncate(outer);
        Ok(())
    }

    /// A name of WITH can be seen by those that follow; with RECURSIVE by all of the list.
    fn walk_with(&mut self, with: &With) -> Walked {
        let With { with_token: _, recursive, cte_tables } = with;
        if *recursive {
            self.ctes.extend(cte_tables.iter().map(|cte| ident_text(&cte.alias.name)));
        }
        for Cte { alias, query, from, materialized: _, closing_paren_token: _ } in cte_tables {
            if from.is_some() {
                return self.refused("FROM after a WITH query", alias.name.span);
            }
            self.walk_query(query)?;
            if !recursive {
                self.ctes.push(ident_text(&alias.name));
            }
        }
        Ok(())
    }

    /// A left-deep chain of set operations is walked in a loop.
    fn walk_set(&mut self, set: &SetExpr) -> Walked {
        let mut left_most = set;
        let mut rights = Vec::new();
        while let SetExpr::SetOperation { op: _, set_quantifier: _, left, right } = left_most {
            rights.push(right);
            left_most = left;
        }
        self.walk_set_operand(left_most)?;
        rights.into_iter().rev().try_for_each(|right| self.walk_set(right))
    }

    fn walk_set_operand(&mut self, set: &SetExpr) -> Walked {
        match set {
            SetExpr::Select(select) => self.walk_select(select),
            SetExpr::Query(query) => self.walk_query(query),
            SetExpr::SetOperation { .. } => self.walk_set(set),
            SetExpr::Values(Values { explicit_row: _, value_keyword: _, rows }) => rows
                .iter()
                .try_for_each(|Parens { opening_token: _, content, closing_token: _ }| walk_all(self, content)),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                self.refused("a data-modifying statement in a view", set.span())
            }
            // Rewritten to a SELECT before the parse.
            SetExpr::Table(_) => self.refused("this form of TABLE", set.span()),
        }
    }

    fn walk_select(&mut self, select: &Select) -> Walked {
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
        if into.is_some() {
            return self.refused("SELECT INTO in a view", select_token.0.span);
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
            || value_table_mode.is_some()
        {
            return self.refused("this clause of a SELECT", select_token.0.span);
        }
        match distinct {
            None | Some(Distinct::All | Distinct::Distinct) => {}
            Some(Distinct::On(keys)) => walk_all(self, keys)?,
        }
        projection.iter().try_for_each(|item| self.walk_item(item))?;
        from.iter().try_for_each(|table| self.walk_from(table))?;
        walk_all(self, selection)?;
        match group_by {
            GroupByExpr::All(modifiers) => self.walk_group_modifiers(modifiers)?,
            GroupByExpr::Expressions(keys, modifiers) => {
                walk_all(self, keys)?;
                self.walk_group_modifiers(modifiers)?;
            }
        }
        walk_all(self, having)?;
        for NamedWindowDefinition(_, window) in named_window {
            match window {
                NamedWindowExpr::NamedWindow(_) => {}
                NamedWindowExpr::WindowSpec(spec) => walk_window(self, spec)?,
            }
        }
        walk_all(self, qualify)
    }

    fn walk_group_modifiers(&mut self, modifiers: &[GroupByWithModifier]) -> Walked {
        modifiers.iter().try_for_each(|modifier| match modifier {
            GroupByWithModifier::Rollup | GroupByWithModifier::Cube | GroupByWithModifier::Totals => Ok(()),
            GroupByWithModifier::GroupingSets(expr) => walk_expr(self, expr),
        })
    }

    fn walk_item(&mut self, item: &SelectItem) -> Walked {
        match item {
            SelectItem::ExprWithAlias { expr, alias } => {
                self.source.check_label(alias)?;
                walk_expr(self, expr)
            }
            SelectItem::UnnamedExpr(expr)
            | SelectItem::ExprWithAliases { expr, aliases: _ }
            | SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), _) => walk_expr(self, expr),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                self.wildcard(Some(name), name.span())
            }
            SelectItem::Wildcard(_) => Ok(()),
        }
    }

    /// A name in FROM.
    fn reference(&mut self, name: &ObjectName, aliased: bool) -> Walked {
        let parts = self.idents(name)?;
        self.source.check_name(&parts)?;
        if let [only] = parts.as_slice()
            && self.ctes.contains(&ident_text(only))
        {
            return Ok(());
        }
        let table = match self.resolve(&parts) {
            Ok(Some(table)) => table,
            Ok(None) => {
                return Err(SyntaxError::unsupported(
                    "a table name of more than three parts",
                    "Write it as catalog.schema.table.",
                    self.source.span_between(name.span().start, name.span().end),
                ));
            }
            Err((ident, error)) => return Err(SyntaxError::Name { error, span: self.source.ident_span(&ident) }),
        };
        let (start, end) = self.bytes(&parts)?;
        let command = usize::try_from(start).is_ok_and(|start| self.table_commands.contains(&start));
        let role = if aliased || command { ReferenceRole::Aliased } else { ReferenceRole::Bare };
        self.found.push(ViewReference { table, start, end, role });
        Ok(())
    }

    /// What stands before a column or `*`: of one part it is an alias, whatever it is.
    fn qualifier(&mut self, parts: &[Ident]) -> Walked {
        if parts.len() >= 2
            && let Ok(Some(table)) = self.resolve(parts)
        {
            let (start, end) = self.bytes(parts)?;
            self.qualifiers.push(ViewReference { table, start, end, role: ReferenceRole::Qualifier });
        }
        Ok(())
    }

    /// The table that `parts` name, in full; `None` if there are too many.
    fn resolve(&self, parts: &[Ident]) -> Result<Option<TableRef>, (Ident, NameError)> {
        let remote = |ident: &Ident| RemoteName::new(&ident_text(ident)).map_err(|error| (ident.clone(), error));
        Ok(match parts {
            [table] => Some(TableRef::within(self.search_path, &remote(table)?)),
            [schema, table] => Some(TableRef::new(&self.search_path.catalog(), &remote(schema)?, &remote(table)?)),
            [catalog, schema, table] => {
                let name = Name::new(&ident_text(catalog)).map_err(|error| (catalog.clone(), error))?;
                Some(TableRef::new(&name, &remote(schema)?, &remote(table)?))
            }
            _ => None,
        })
    }

    /// The bytes of the query that `parts` take up.
    fn bytes(&self, parts: &[Ident]) -> Result<(u32, u32), SyntaxError> {
        let mut ends = (u32::MAX, 0);
        for part in parts {
            let bytes = self.source.ident_bytes(part)?;
            let place = |byte: usize| u32::try_from(byte).unwrap_or(u32::MAX);
            ends = (ends.0.min(place(bytes.start)), ends.1.max(place(bytes.end)));
        }
        Ok(ends)
    }

    fn idents(&self, name: &ObjectName) -> Result<Vec<Ident>, SyntaxError> {
        let ObjectName(parts) = name;
        parts
            .iter()
            .map(|part| match part {
                ObjectNamePart::Identifier(ident) => Ok(ident.clone()),
                ObjectNamePart::Function(_) => self.refused("a function in a table's name", name.span()),
            })
            .collect()
    }
}

impl ExprVisitor for Collector<'_> {
    fn query(&mut self, query: &Query) -> Walked {
        self.walk_query(query)
    }

    fn table(&mut self, name: &ObjectName) -> Walked {
        self.refused("a table after IN", name.span())
    }

    fn compound(&mut self, idents: &[Ident]) -> Walked {
        match idents.split_last() {
            Some((_column, qualifier)) => self.qualifier(qualifier),
            None => Ok(()),
        }
    }

    fn wildcard(&mut self, qualifier: Option<&ObjectName>, _span: TokenSpan) -> Walked {
        match qualifier {
            Some(name) => {
                let parts = self.idents(name)?;
                self.qualifier(&parts)
            }
            None => Ok(()),
        }
    }

    fn function(&mut self, _function: &Function) -> Walked {
        Ok(())
    }

    fn unsupported(&mut self, expr: &Expr) -> SyntaxError {
        let span = expr.span();
        SyntaxError::unsupported("this kind of expression", "", self.source.span_between(span.start, span.end))
    }
}
