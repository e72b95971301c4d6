//! `EXPLAIN`: the mutations that a statement would make. The same checks, the same plan, nothing written.

use std::sync::Arc;

use dataglot_model::{ExplainFormat, Mutation};
use dataglot_store::record::{Rendered, render, render_json};

use crate::response::Column;
use crate::value::{Rows, Type, Value, columns_of};

const COLUMNS: &[(&str, Type)] =
    &[("seq", Type::Int4), ("action", Type::Text), ("table", Type::Text), ("key", Type::Text), ("value", Type::Text)];
const JSON_COLUMNS: &[(&str, Type)] = &[("QUERY PLAN", Type::Json)];

pub(crate) fn columns(format: ExplainFormat) -> Arc<[Column]> {
    columns_of(match format {
        ExplainFormat::Text => COLUMNS,
        ExplainFormat::Json => JSON_COLUMNS,
    })
}

pub(crate) fn rows(format: ExplainFormat, mutations: &[Mutation]) -> Rows {
    let mut rows = Rows { columns: columns(format), rows: Vec::new() };
    match format {
        ExplainFormat::Text => {
            for (number, mutation) in (1..).zip(mutations) {
                let Rendered { action, table, key, value } = render(mutation);
                rows.push(vec![
                    Value::Int(number),
                    Value::from(action),
                    Value::from(table),
                    Value::Text(key),
                    Value::text_or_null(value),
                ]);
            }
        }
        ExplainFormat::Json => {
            let list = mutations.iter().map(render_json).collect();
            let text = serde_json::to_string_pretty(&serde_json::Value::Array(list)).unwrap_or_default();
            rows.push(vec![Value::Text(text)]);
        }
    }
    rows
}
