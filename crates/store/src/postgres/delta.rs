//! What has become of an org since a state.

use std::collections::BTreeMap;
use std::pin::pin;

use dataglot_model::{OrgName, Seq};
use futures_util::StreamExt as _;
use futures_util::future::{try_join, try_join_all};
use futures_util::stream::FuturesOrdered;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, RowStream, Statement};

use super::connection::{Connection, Failure, Prepared, Session};
use super::layout::{from_columns, garbled, key_columns, key_texts};
use super::read::{is_last, read_head_of, read_page};
use super::rows::{KeyParameters, key_types, select_sql};
use super::wire::{read_change_key, read_columns, seq_to_sql};
use crate::{DeltaSink, StoreError, Table};

/// Begins a snapshot for what takes as long as it takes: however much there is, it is not asked for twice.
const BEGIN_DELTA: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0";
/// Keys that are looked up at once.
const KEYS_MAX: usize = 10_000;

/// Hands what has become of the org since `from` to `sink`, as [`crate::MetaStore::delta`] says: one
/// snapshot, three round trips if it is not much. `begun` is set before the first thing is handed out.
pub(super) fn delta(
    connection: &mut Connection,
    org: &OrgName,
    from: Seq,
    begun: &mut bool,
    sink: &mut dyn DeltaSink,
) -> Result<(), Failure> {
    if *begun {
        return Err(Failure::Store(StoreError::ConnectionLost));
    }
    connection.run(async |session| {
        let begin = async { Ok::<_, Failure>(session.client.batch_execute(BEGIN_DELTA).await?) };
        let ((), head) = try_join(begin, read_head_of(session, org)).await?;
        if let Some(head) = head {
            *begun = true;
            // Not asked for before it is wanted: the transaction at `from` may be a large one.
            if sink.begin(head) {
                hand_out_changes(session, org, from, sink).await?;
                touched(session, org, sink).await?;
            }
        }
        Ok(session.client.batch_execute("COMMIT").await?)
    })
}

/// Page by page: what is not wanted any more is not read.
async fn hand_out_changes(
    session: &Session,
    org: &OrgName,
    from: Seq,
    sink: &mut dyn DeltaSink,
) -> Result<(), Failure> {
    let mut place = (seq_to_sql(from) - 1, i32::MAX);
    let mut value = Vec::new();
    loop {
        let page = read_page(session, org, place).await?;
        session.heard();
        for row in &page {
            place = (row.try_get(0)?, row.try_get(1)?);
            let (seq, step) = read_change_key(place.0, place.1)?;
            read_value(row, 2, &mut value)?;
            if !sink.change(seq, step, &value) {
                return Ok(());
            }
        }
        if is_last(&page) {
            return Ok(());
        }
    }
}

/// The record from column `first` on; false: there is none.
fn read_value(row: &Row, first: usize, value: &mut Vec<u8>) -> Result<bool, Failure> {
    value.clear();
    let Some(columns) = read_columns(row, first)? else { return Ok(false) };
    from_columns(&columns, value);
    Ok(true)
}

/// Looks up the rows that the sink asks for.
async fn touched(session: &Session, org: &OrgName, sink: &mut dyn DeltaSink) -> Result<(), Failure> {
    let mut by_table: BTreeMap<Table, Vec<Vec<u8>>> = BTreeMap::new();
    for (table, key) in sink.touched() {
        by_table.entry(table).or_default().push(key);
    }
    let parts: Vec<_> =
        by_table.iter().flat_map(|(table, keys)| keys.chunks(KEYS_MAX).map(|keys| (*table, keys))).collect();
    let prepared = try_join_all(parts.iter().map(|(table, _)| prepare(session, *table))).await?;
    // All are on their way before the first is read; its rows have to be taken before those of the next one
    // come in.
    let mut asked: FuturesOrdered<_> = parts
        .iter()
        .zip(&prepared)
        .map(|((table, keys), statement)| async move {
            Ok::<_, Failure>((*table, *keys, look_up(session, org, statement, *table, keys).await?))
        })
        .collect();
    let mut value = Vec::new();
    while let Some(answered) = asked.next().await {
        let (table, keys, rows) = answered?;
        let mut rows = pin!(rows);
        while let Some(row) = rows.next().await {
            let row = row?;
            session.heard();
            let place: i64 = row.try_get(0)?;
            let key = usize::try_from(place - 1).ok().and_then(|at| keys.get(at)).ok_or_else(garbled)?;
            let there = read_value(&row, 1, &mut value)?;
            sink.row(table, key, there.then_some(value.as_slice()));
        }
    }
    Ok(())
}

async fn prepare(session: &Session, table: Table) -> Result<Statement, Failure> {
    let types: Vec<_> = std::iter::once(Type::TEXT).chain(key_types(table)).collect();
    Ok(session.prepare(Prepared::Touched(table), &types, || select_sql(table)).await?)
}

async fn look_up(
    session: &Session,
    org: &OrgName,
    statement: &Statement,
    table: Table,
    keys: &[Vec<u8>],
) -> Result<RowStream, Failure> {
    let columns = key_columns(table);
    let mut texts = KeyParameters::default();
    keys.iter().for_each(|key| texts.push(key_texts(columns, key)));
    let org = org.as_str();
    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&org];
    texts.append(columns, &mut parameters);
    Ok(session.client.query_raw(statement, parameters).await?)
}
