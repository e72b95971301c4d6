//! `SHOW CHANGES SINCE` and `SHOW TRANSACTION STATUS`: what the change table holds. Values of secrets
//! and passwords are in it as hashes only.

use dataglot_model::{ChangedStatement, Seq, TransactionId};
use dataglot_store::ChangeEntry;
use dataglot_store::record::render_json;

use super::{ReadCx, int};
use crate::error::SessionError;
use crate::value::{Rows, Type, Value};

pub(super) const COLUMNS: &[(&str, Type)] = &[
    ("seq", Type::Int8),
    ("time", Type::Time),
    ("actor", Type::Text),
    ("session", Type::Text),
    ("transaction_id", Type::Text),
    ("statement", Type::Text),
    ("mutations", Type::Json),
];
/// Where in a row the statement stands.
const STATEMENT_AT: usize = 5;
pub(super) const STATUS_COLUMNS: &[(&str, Type)] =
    &[("transaction_id", Type::Text), ("status", Type::Text), ("seq", Type::Int8)];

/// How many transactions SHOW CHANGES answers at most.
pub(crate) const CHANGES_MAX: usize = 10_000;

/// History is for superusers.
pub(crate) fn may_read(cx: ReadCx<'_>) -> Result<(), SessionError> {
    cx.require_superuser("changes")
}

/// No row yet.
pub(crate) fn no_rows() -> Rows {
    Rows::new(COLUMNS)
}

/// One row for each statement of a transaction; one that cannot be read says so.
pub(crate) fn push(rows: &mut Rows, entry: &ChangeEntry) {
    let change = match entry {
        ChangeEntry::Intact(change) => change,
        ChangeEntry::Damaged { seq, .. } => {
            let mut row = vec![int(seq.0)];
            row.resize(COLUMNS.len(), Value::Null);
            if let Some(statement) = row.get_mut(STATEMENT_AT) {
                *statement = Value::from("-- this record is damaged");
            }
            rows.push(row);
            return;
        }
    };
    for statement in &change.statements {
        rows.push(vec![
            int(change.seq.0),
            Value::Time(change.at),
            Value::from(change.actor.as_str()),
            Value::from(&*change.session),
            Value::Text(change.id.to_string()),
            Value::from(&*statement.sql),
            Value::Text(summary(statement)),
        ]);
    }
}

fn summary(statement: &ChangedStatement) -> String {
    serde_json::Value::Array(statement.mutations.iter().map(render_json).collect()).to_string()
}

/// What became of a transaction.
pub(crate) fn status(id: TransactionId, seq: Option<Seq>) -> Rows {
    let mut rows = Rows::new(STATUS_COLUMNS);
    rows.push(vec![
        Value::Text(id.to_string()),
        Value::from(if seq.is_some() { "committed" } else { "not committed" }),
        seq.map_or(Value::Null, |s| int(s.0)),
    ]);
    rows
}
