//! What most groups are: some rows of one org, written in one statement.

use std::cell::Cell;

use dataglot_model::{HeadRecord, Seq};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use super::chunk::{Chunk, TableRows};
use super::commit::{GivenUp, base_numbers, conflict, fence_of, head_numbers};
use super::connection::{Connection, Failure, Prepared};
use super::layout::key_columns;
use super::rows::{Head, Put, delete_sql, key_types, put_sql, put_types};
use super::writer::Fences;
use crate::{Base, OrgGroup};

/// The parameters of the statement before those of the rows.
const OWN_PARAMETERS: usize = 9;

/// Writes the group.
pub(super) fn write_at_once(
    connection: &mut Connection,
    org: &OrgGroup<'_>,
    head: HeadRecord,
    chunk: &Chunk,
    fences: &mut Fences,
) -> Result<(), GivenUp> {
    let fence = fence_of(fences, org.org);
    let base = match org.base {
        Base::At { seq, .. } => Some(seq),
        Base::Absent => None,
    };
    match attempt(connection, org, head, chunk, (base, fence)) {
        // What was taken for new was not.
        Err((Failure::Refused(refused), _)) if refused.code == SqlState::UNIQUE_VIOLATION => {
            tracing::warn!(org = org.org.as_str(), "meta store: a row of a new object was there before it");
            let again = attempt(connection, org, head, chunk, (None, fence));
            ended(connection, org, again, fences)
        }
        tried => ended(connection, org, tried, fences),
    }
}

/// What a try comes to.
fn ended(
    connection: &mut Connection,
    org: &OrgGroup<'_>,
    tried: Result<bool, (Failure, bool)>,
    fences: &mut Fences,
) -> Result<(), GivenUp> {
    match tried {
        Ok(true) => Ok(()),
        Ok(false) => Err(conflict(connection, org.org, fences)),
        Err((failure, true)) => Err(GivenUp::at_the_end(failure)),
        Err((failure, false)) => Err(GivenUp::before_the_end(failure)),
    }
}

/// Whether the org was at its base, and all is written. With a failure: whether it was sent.
fn attempt(
    connection: &mut Connection,
    org: &OrgGroup<'_>,
    head: HeadRecord,
    chunk: &Chunk,
    (base, fence): (Option<Seq>, i64),
) -> Result<bool, (Failure, bool)> {
    let sent = Cell::new(false);
    let moved = connection.run_to_commit(async |session| {
        let tables = chunk.parameters(base)?;
        let statement = session.prepare(which(&tables), &types(&tables), || sql(&tables)).await?;
        let (old, new) = (base_numbers(org.base), head_numbers(&head));
        let name = org.org.as_str();
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&name];
        parameters.extend(old.iter().chain(&new).map(|number| number as &(dyn ToSql + Sync)));
        parameters.push(&fence);
        tables.iter().for_each(|rows| append(rows, &mut parameters));
        sent.set(true);
        Ok(session.client.execute(&statement, &parameters).await? == 1)
    });
    moved.map_err(|failure| (failure, sent.get()))
}

/// The statement for these tables.
fn which(tables: &[TableRows<'_>]) -> Prepared {
    let bits = |with: fn(&TableRows<'_>) -> bool| -> u16 {
        tables.iter().filter(|rows| with(rows)).map(|rows| 1 << rows.table.code()).sum()
    };
    Prepared::Commit {
        gone: bits(|rows| !rows.gone.is_empty()),
        put: bits(|rows| !rows.put.is_empty()),
        new: bits(|rows| !rows.new.is_empty()),
    }
}

/// Appends the parameters of one table's rows.
fn append<'p>(rows: &'p TableRows<'_>, out: &mut Vec<&'p (dyn ToSql + Sync)>) {
    if !rows.gone.is_empty() {
        rows.gone.append(key_columns(rows.table), out);
    }
    for put in [&rows.put, &rows.new].into_iter().filter(|put| !put.is_empty()) {
        put.append(rows.table, out);
    }
}

/// The types of all parameters.
fn types(tables: &[TableRows<'_>]) -> Vec<Type> {
    let mut types = vec![Type::TEXT];
    types.extend(std::iter::repeat_n(Type::INT8, OWN_PARAMETERS - 1));
    for rows in tables {
        if !rows.gone.is_empty() {
            types.extend(key_types(rows.table));
        }
        for _ in [&rows.put, &rows.new].into_iter().filter(|put| !put.is_empty()) {
            types.extend(put_types(rows.table));
        }
    }
    types
}

fn sql(tables: &[TableRows<'_>]) -> String {
    let mut sql = "WITH head AS (UPDATE heads SET org_id = $5, seq = $6, next_id = $7, at = $8 \
                   WHERE org = $1 AND org_id = $2 AND seq = $3 AND at = $4 AND fence = $9 AND halted_at_seq IS NULL RETURNING org)"
        .to_owned();
    let mut next = OWN_PARAMETERS + 1;
    for rows in tables {
        let table = rows.table;
        if !rows.gone.is_empty() {
            sql.push_str(&format!(", {table}_gone AS ({})", delete_sql(table, Head::Query, next)));
            next += key_columns(table).parameters();
        }
        for (name, put, of) in [("put", Put::Over, &rows.put), ("new", Put::New, &rows.new)] {
            if !of.is_empty() {
                sql.push_str(&format!(", {table}_{name} AS ({})", put_sql(table, put, Head::Query, next)));
                next += put_types(table).len();
            }
        }
    }
    sql.push_str(" SELECT FROM head");
    sql
}
