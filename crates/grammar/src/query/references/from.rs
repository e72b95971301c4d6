//! FROM: tables, joins, and what else answers rows.

use sqlparser::ast::{
    FunctionArg, Join, JoinConstraint, JoinOperator, Spanned, TableFactor, TableFunctionArgs, TableSample,
    TableSampleKind, TableWithJoins, XmlNamespaceDefinition, XmlPassingArgument, XmlTableColumnOption,
};
use sqlparser::tokenizer::Span as TokenSpan;

use super::{Collector, Walked};
use crate::query::walk::{walk_all, walk_expr, walk_function_arg};

impl Collector<'_> {
    pub(super) fn walk_from(&mut self, table: &TableWithJoins) -> Walked {
        let TableWithJoins { relation, joins } = table;
        self.walk_table(relation)?;
        joins.iter().try_for_each(|Join { relation, global: _, join_operator }| {
            self.walk_table(relation)?;
            self.walk_join(join_operator)
        })
    }

    fn walk_join(&mut self, operator: &JoinOperator) -> Walked {
        let constraint = match operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint)
            | JoinOperator::CrossJoin(constraint)
            | JoinOperator::Semi(constraint)
            | JoinOperator::LeftSemi(constraint)
            | JoinOperator::RightSemi(constraint)
            | JoinOperator::Anti(constraint)
            | JoinOperator::LeftAnti(constraint)
            | JoinOperator::RightAnti(constraint)
            | JoinOperator::StraightJoin(constraint) => constraint,
            JoinOperator::AsOf { match_condition, constraint } => {
                walk_expr(self, match_condition)?;
                constraint
            }
            JoinOperator::CrossApply
            | JoinOperator::OuterApply
            | JoinOperator::ArrayJoin
            | JoinOperator::LeftArrayJoin
            | JoinOperator::InnerArrayJoin => return Ok(()),
        };
        match constraint {
            JoinConstraint::On(expr) => walk_expr(self, expr),
            JoinConstraint::Using(_)
            | JoinConstraint::UsingAlias(..)
            | JoinConstraint::Natural
            | JoinConstraint::None => Ok(()),
        }
    }

    fn walk_table(&mut self, table: &TableFactor) -> Walked {
        match table {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality: _,
                partitions,
                json_path,
                sample,
                index_directives,
                inheritance: _,
            } => {
                if version.is_some()
                    || !partitions.is_empty()
                    || json_path.is_some()
                    || !with_hints.is_empty()
                    || !index_directives.is_empty()
                {
                    return self.refused("this clause after a table's name", name.span());
                }
                self.walk_sample(sample.as_ref(), name.span())?;
                match args {
                    // A function that answers rows is no table.
                    Some(TableFunctionArgs { args, settings }) => {
                        if settings.is_some() {
                            return self.refused("SETTINGS in a view", name.span());
                        }
                        self.walk_args(args)
                    }
                    None => {
                        self.source.check_name(alias.iter().map(|alias| &alias.name))?;
                        self.reference(name, alias.is_some())
                    }
                }
            }
            TableFactor::Derived { lateral: _, subquery, alias: _, sample } => {
                self.walk_sample(sample.as_ref(), table.span())?;
                self.walk_query(subquery)
            }
            TableFactor::TableFunction { expr, alias: _ } => walk_expr(self, expr),
            TableFactor::Function { lateral: _, name: _, args, with_ordinality: _, alias: _ } => self.walk_args(args),
            TableFactor::UNNEST { alias: _, array_exprs, with_offset: _, with_offset_alias: _, with_ordinality: _ } => {
                walk_all(self, array_exprs)
            }
            TableFactor::NestedJoin { table_with_joins, alias: _ } => self.walk_from(table_with_joins),
            TableFactor::JsonTable { json_expr, json_path: _, columns: _, alias: _ } => walk_expr(self, json_expr),
            TableFactor::XmlTable { namespaces, row_expression, passing, columns, alias: _ } => {
                namespaces.iter().try_for_each(|XmlNamespaceDefinition { uri, name: _ }| walk_expr(self, uri))?;
                walk_expr(self, row_expression)?;
                passing
                    .arguments
                    .iter()
                    .try_for_each(|XmlPassingArgument { expr, alias: _, by_value: _ }| walk_expr(self, expr))?;
                columns.iter().try_for_each(|column| match &column.option {
                    XmlTableColumnOption::NamedInfo { r#type: _, path, default, nullable: _ } => {
                        walk_all(self, [path, default].into_iter().flatten())
                    }
                    XmlTableColumnOption::ForOrdinality => Ok(()),
                })
            }
            TableFactor::OpenJsonTable { .. }
            | TableFactor::Pivot { .. }
            | TableFactor::Unpivot { .. }
            | TableFactor::UnpivotExpr { .. }
            | TableFactor::MatchRecognize { .. }
            | TableFactor::SemanticView { .. } => self.refused("this kind of table", table.span()),
        }
    }

    fn walk_args(&mut self, args: &[FunctionArg]) -> Walked {
        args.iter().try_for_each(|arg| walk_function_arg(self, arg))
    }

    fn walk_sample(&mut self, sample: Option<&TableSampleKind>, at: TokenSpan) -> Walked {
        let Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = sample else {
            return Ok(());
        };
        let TableSample { modifier: _, name: _, quantity, seed: _, bucket, offset } = sample.as_ref();
        if bucket.is_some() {
            return self.refused("this form of TABLESAMPLE", at);
        }
        walk_all(self, quantity.iter().map(|quantity| &quantity.value))?;
        walk_all(self, offset)
    }
}
