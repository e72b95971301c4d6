//! Small reads: heads, history page by page, values that the store has once.

use dataglot_model::{HeadRecord, OrgName, Seq, TransactionId};
use futures_util::future::try_join;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::connection::{Connection, Failure, Prepared, Session};
use super::layout::from_columns;
use super::wire::{HEAD, read_change_key, read_columns, read_head, seq_to_sql};
use crate::StoreError;
use crate::feed::Feed;

/// Begins a snapshot.
const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// What the keys of values start with in `meta`: what the store has for itself is out of reach.
const VALUE_PREFIX: &str = "value/";
/// Rows of history that are read at once.
const PAGE_ROWS: i64 = 256;

/// Every head, in the order of their names.
pub(super) async fn read_heads(session: &Session) -> Result<Vec<(OrgName, HeadRecord)>, Failure> {
    let sql = || format!("SELECT {HEAD} FROM heads ORDER BY org");
    let statement = session.prepare(Prepared::Heads, &[], sql).await?;
    session.client.query(&statement, &[]).await?.iter().map(read_head).collect()
}

/// The head of one org.
pub(super) async fn read_head_of(session: &Session, org: &OrgName) -> Result<Option<HeadRecord>, Failure> {
    let sql = || format!("SELECT {HEAD} FROM heads WHERE org = $1");
    let statement = session.prepare(Prepared::Head, &[Type::TEXT], sql).await?;
    let row = session.client.query_opt(&statement, &[&org.as_str()]).await?;
    Ok(row.map(|row| read_head(&row)).transpose()?.map(|(_, head)| head))
}

/// The heads of some orgs, in their order.
pub(super) async fn read_heads_of(
    session: &Session,
    orgs: Vec<OrgName>,
) -> Result<Vec<(OrgName, Option<HeadRecord>)>, Failure> {
    let sql = || format!("SELECT {HEAD} FROM heads WHERE org = ANY ($1)");
    let statement = session.prepare(Prepared::HeadsOf, &[Type::TEXT_ARRAY], sql).await?;
    let names: Vec<_> = orgs.iter().map(OrgName::as_str).collect();
    let rows = session.client.query(&statement, &[&names]).await?;
    let found = rows.iter().map(read_head).collect::<Result<std::collections::BTreeMap<_, _>, _>>()?;
    Ok(orgs.into_iter().map(|org| (found.get(&org).copied(), org)).map(|(head, org)| (org, head)).collect())
}

/// Hands history to `sink`, as [`crate::MetaStore::changes`] says. `begun` is set before the first row is
/// handed out.
pub(super) fn changes(
    connection: &mut Connection,
    org: &OrgName,
    after: Seq,
    limit: usize,
    begun: &mut bool,
    sink: &mut dyn FnMut(Seq, u32, &[u8]) -> bool,
) -> Result<(), Failure> {
    if *begun {
        return Err(Failure::Store(StoreError::ConnectionLost));
    }
    connection.run(async |session| {
        let begin = async { Ok::<_, Failure>(session.client.batch_execute(BEGIN_SNAPSHOT).await?) };
        let mut place = (seq_to_sql(after), i32::MAX);
        let ((), mut page) = try_join(begin, read_page(session, org, place)).await?;
        let mut feed = Feed::new(limit, sink);
        let mut value = Vec::new();
        'pages: loop {
            for row in &page {
                place = (row.try_get(0)?, row.try_get(1)?);
                let (seq, step) = read_change_key(place.0, place.1)?;
                value.clear();
                if let Some(columns) = read_columns(row, 2)? {
                    from_columns(&columns, &mut value);
                }
                *begun = true;
                if !feed.row(seq, step, &value) {
                    break 'pages;
                }
            }
            if is_last(&page) {
                break;
            }
            session.heard();
            page = read_page(session, org, place).await?;
        }
        Ok(session.client.batch_execute("COMMIT").await?)
    })
}

/// Whether no rows come after those of the page.
pub(super) fn is_last(page: &[Row]) -> bool {
    i64::try_from(page.len()).is_ok_and(|rows| rows < PAGE_ROWS)
}

/// A page of the rows after `place`: number, step, record.
pub(super) async fn read_page(session: &Session, org: &OrgName, (seq, step): (i64, i32)) -> Result<Vec<Row>, Failure> {
    let sql = || {
        format!(
            "SELECT seq, step, format, checksum, body, raw FROM changes \
             WHERE org = $1 AND (seq, step) > ($2, $3) ORDER BY seq, step LIMIT {PAGE_ROWS}"
        )
    };
    let statement = session.prepare(Prepared::ChangesAfter, &[Type::TEXT, Type::INT8, Type::INT4], sql).await?;
    Ok(session.client.query(&statement, &[&org.as_str(), &seq, &step]).await?)
}

/// The sequence number of the transaction `id`.
pub(super) fn find_transaction(
    connection: &mut Connection,
    org: &OrgName,
    id: TransactionId,
) -> Result<Option<Seq>, Failure> {
    connection.run(async |session| look_for(session, org, id).await)
}

/// Finds out for good whether the transaction `id` was committed, and is where a commit has to be: a session that
/// was ended while it waited for a standby leaves its transaction visible here and perhaps nowhere else.
pub(super) fn settle(connection: &mut Connection, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, Failure> {
    let mut found = find_transaction(connection, org, id)?;
    if found.is_none() {
        found = connection.run_to_commit(async |session| move_fence(session, org, id).await)?;
    }
    if found.is_some() {
        // Costs nothing where there is no such standby.
        let sql = "SELECT pg_logical_emit_message(true, 'dataglot', '') \
                   WHERE current_setting('synchronous_standby_names') <> ''";
        connection.run_to_commit(async |session| Ok(session.client.query_typed(sql, &[]).await.map(drop)?))?;
    }
    Ok(found)
}

async fn look_for(session: &Session, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, Failure> {
    let sql = || "SELECT seq, step FROM changes WHERE org = $1 AND transaction_id = $2 ORDER BY seq DESC LIMIT 1";
    let statement = session.prepare(Prepared::FindTransaction, &[Type::TEXT, Type::TEXT], || sql().to_owned()).await?;
    let row = session.client.query_opt(&statement, &[&org.as_str(), &id.to_string()]).await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(read_change_key(row.try_get(0)?, row.try_get(1)?)?.0))
}

/// Waits for whoever commits now, and looks again. If the transaction `id` is not there then, the fence of the
/// org is moved: a commit says where its writer has seen it, so that one that was sent before, and is still held
/// up somewhere, comes to nothing when it arrives.
async fn move_fence(session: &Session, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, Failure> {
    session.client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    let sql = "UPDATE heads SET fence = fence + 1 WHERE org = $1";
    session.client.execute_typed(sql, &[(&org.as_str(), Type::TEXT)]).await?;
    let found = look_for(session, org, id).await?;
    session.client.batch_execute(if found.is_some() { "ROLLBACK" } else { "COMMIT" }).await?;
    Ok(found)
}

/// A value that the store has once.
pub(super) async fn read_meta(session: &Session, key: &str) -> Result<Option<Vec<u8>>, Failure> {
    let sql = || "SELECT value FROM meta WHERE key = $1".to_owned();
    let statement = session.prepare(Prepared::MetaGet, &[Type::TEXT], sql).await?;
    let row = session.client.query_opt(&statement, &[&format!("{VALUE_PREFIX}{key}")]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// All values that the store has once.
pub(super) async fn read_metas(session: &Session) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    // No key that starts with it holds a character that sorts after '0' in its place.
    let sql =
        || "SELECT substr(key, 7), value FROM meta WHERE key >= 'value/' AND key < 'value0' ORDER BY key".to_owned();
    let statement = session.prepare(Prepared::Metas, &[], sql).await?;
    let rows = session.client.query(&statement, &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Sets a value. `over`: also where there is one.
pub(super) async fn write_meta(session: &Session, key: &str, value: &[u8], over: bool) -> Result<(), Failure> {
    let action = if over { "UPDATE SET value = excluded.value" } else { "NOTHING" };
    let sql = format!("INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO {action}");
    let key = format!("{VALUE_PREFIX}{key}");
    let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&key, Type::TEXT), (&value, Type::BYTEA)];
    session.client.execute_typed(&sql, &parameters).await?;
    Ok(())
}

/// Marks the org: no writer goes on. The first mark stays.
pub(super) async fn halt(session: &Session, org: &OrgName, seen: Seq) -> Result<(), Failure> {
    let sql = "UPDATE heads SET halted_at_seq = coalesce(halted_at_seq, $2) WHERE org = $1";
    let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&org.as_str(), Type::TEXT), (&seq_to_sql(seen), Type::INT8)];
    match session.client.execute_typed(sql, &parameters).await? {
        0 => Err(Failure::Store(StoreError::NoSuchOrg(org.clone()))),
        _ => Ok(()),
    }
}

/// What stands in the way of a commit, its base apart.
#[derive(Clone, Copy, Default)]
pub(super) struct Obstacles {
    /// The org was halted.
    pub(super) halted_at: Option<Seq>,
    /// See `move_fence`.
    pub(super) fence: i64,
}

/// What stands in the way of a commit to the org. Nothing, if there is no such org.
pub(super) async fn obstacles(session: &Session, org: &OrgName) -> Result<Obstacles, Failure> {
    let sql = || "SELECT halted_at_seq, fence FROM heads WHERE org = $1".to_owned();
    let statement = session.prepare(Prepared::Fence, &[Type::TEXT], sql).await?;
    let Some(row) = session.client.query_opt(&statement, &[&org.as_str()]).await? else {
        return Ok(Obstacles::default());
    };
    let halted_at = row.try_get::<_, Option<i64>>(0)?.map(|seen| Seq(u64::try_from(seen).unwrap_or(0)));
    Ok(Obstacles { halted_at, fence: row.try_get(1)? })
}

/// Whether a commit could be written now, as far as the server says.
pub(super) async fn takes_writes(session: &Session) -> Result<bool, Failure> {
    let sql = "SELECT NOT pg_is_in_recovery() AND NOT current_setting('transaction_read_only')::bool";
    Ok(session.client.query_typed_one(sql, &[]).await?.try_get(0)?)
}

/// What the tables take on disk, with their indexes.
pub(super) async fn size(session: &Session) -> Result<u64, Failure> {
    let sql = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::int8 FROM pg_class \
               WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'";
    let bytes: i64 = session.client.query_typed_one(sql, &[]).await?.try_get(0)?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// The newest migration that was applied.
pub(super) async fn schema_version(session: &Session) -> Result<u32, Failure> {
    let row = session.client.query_typed_one("SELECT coalesce(max(number), 0) FROM migrations", &[]).await?;
    Ok(u32::try_from(row.try_get::<_, i32>(0)?).unwrap_or(0))
}
