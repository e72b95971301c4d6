//! Writing a group: all of it, or nothing.
//!
//! Whoever moves an org's row in `heads` from the state that the group was planned on has the right to
//! write; the row stays locked until the end, so the numbers of an org's transactions are in the order of
//! their commits. What most groups are, some rows of one org, is one statement and one round trip: its
//! parts that write see no row of `heads` if it was not at its base. Everything else is a transaction of
//! several statements.

use std::time::Duration;

use dataglot_model::{HeadRecord, OrgName};
use futures_util::future::{try_join, try_join_all};
use tokio_postgres::Statement;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use super::at_once::write_at_once;
use super::chunk::Chunk;
use super::connection::{Connection, Failure, Prepared, Session};
use super::layout::key_columns;
use super::read::{Obstacles, obstacles};
use super::rows::{Head, Put, delete_sql, key_types, put_sql, put_types};
use super::wire::seq_to_sql;
use super::writer::Fences;
use crate::{Base, CommitError, Group, OrgGroup, StoreError, Table};

/// About how many bytes of rows are sent at once.
const CHUNK_BYTES_MAX: usize = 4 << 20;
/// How long a statement may take that removes what an org has in one table.
const ERASING: Duration = Duration::from_secs(600);
/// Of how many transactions the history is removed at once: the trigger that guards it keeps what was removed.
const ERASED_AT_ONCE: i64 = 10_000;

/// Why a group was not committed, and what is left of the connection.
pub(super) struct GivenUp {
    pub(super) error: CommitError,
    /// The connection is of no use any more.
    pub(super) broken: bool,
    /// Nothing was sent, or nothing of it can have been done: another connection may do better.
    pub(super) again: bool,
}

impl GivenUp {
    pub(super) fn before_the_end(failure: Failure) -> Self {
        let again = match &failure {
            Failure::Lost(_) => true,
            Failure::Refused(refused) => {
                // What was prepared is gone, or the server has become a replica.
                [
                    SqlState::READ_ONLY_SQL_TRANSACTION,
                    SqlState::INVALID_SQL_STATEMENT_NAME,
                    SqlState::FEATURE_NOT_SUPPORTED,
                ]
                .contains(&refused.code)
            }
            Failure::Silent | Failure::Warned | Failure::Store(_) => false,
        };
        let broken = again || !matches!(failure, Failure::Store(_) | Failure::Refused(_));
        GivenUp { error: known(failure), broken, again }
    }

    /// The server may have committed.
    pub(super) fn at_the_end(failure: Failure) -> Self {
        match failure {
            Failure::Lost(_) | Failure::Silent | Failure::Warned => {
                GivenUp { error: CommitError::Unknown(failure.into_store_error("write")), broken: true, again: false }
            }
            Failure::Refused(_) | Failure::Store(_) => GivenUp::before_the_end(failure),
        }
    }
}

/// The error when nothing was written.
fn known(failure: Failure) -> CommitError {
    if let Failure::Refused(refused) = &failure {
        // A lock that is not to be had is none: to wait for it again and again would hold up everything else.
        let conflicts = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        if conflicts.contains(&refused.code) {
            return CommitError::Conflict;
        }
    }
    let error = failure.into_store_error("write");
    if error == StoreError::DiskFull { CommitError::Full } else { CommitError::Failed(error) }
}

/// Writes the group. `begun`: the connection is in a transaction that has the lock on what is written.
pub(super) fn write(
    connection: &mut Connection,
    group: &Group<'_>,
    begun: bool,
    fences: &mut Fences,
) -> Result<(), GivenUp> {
    for org in group.orgs.iter().filter(|org| org.base != Base::Absent) {
        if !fences.contains_key(org.org) {
            let found = connection.run(async |session| obstacles(session, org.org).await);
            let found = found.map_err(|failure| GivenUp { broken: true, ..GivenUp::before_the_end(failure) })?;
            fences.insert(org.org.clone(), found.fence);
        }
    }
    if !begun
        && let [org] = group.orgs.as_slice()
        && let (Base::At { .. }, false, Some(head)) = (org.base, org.erase, org.head)
        && let Some(chunk) = small(org).map_err(|error| GivenUp::before_the_end(Failure::Store(error)))?
    {
        return write_at_once(connection, org, head, &chunk, fences);
    }
    let written = write_in_steps(connection, group, begun, fences);
    match written {
        Ok(()) => Ok(()),
        // Gives up what was written so far.
        Err(mut given_up) if !given_up.broken => {
            given_up.broken = roll_back(connection).is_err();
            Err(given_up)
        }
        Err(given_up) => Err(given_up),
    }
}

/// Begins a transaction, unless one has begun, and waits for the head of the org. Nobody moves its fence from then
/// on. True: somebody has since the writer looked.
pub(super) fn lock(
    connection: &mut Connection,
    org: &OrgName,
    begun: bool,
    fences: &mut Fences,
) -> Result<bool, Failure> {
    let fence = connection.run(async |session| {
        if !begun {
            session.client.batch_execute("BEGIN").await?;
        }
        let name = org.as_str();
        let sql = "SELECT fence FROM heads WHERE org = $1 FOR UPDATE";
        let row = session.client.query_typed_opt(sql, &[(&name, Type::TEXT)]).await?;
        Ok(row.map(|row| row.try_get::<_, i64>(0)).transpose()?)
    })?;
    // Without a head there is nothing to be at.
    let Some(fence) = fence else { return Ok(false) };
    Ok(fences.insert(org.clone(), fence).is_some_and(|known| known != fence))
}

/// Gives up what was begun.
pub(super) fn roll_back(connection: &mut Connection) -> Result<(), Failure> {
    connection.run(async |session| Ok(session.client.batch_execute("ROLLBACK").await?))
}

/// All rows of the org, if they are few.
fn small(org: &OrgGroup<'_>) -> Result<Option<Chunk>, StoreError> {
    let mut chunk = Chunk::default();
    let mut large = false;
    let written = org.rows.write(&mut |table, key, value| {
        chunk.add(table, key, value);
        large = chunk.bytes() > CHUNK_BYTES_MAX;
        if large { Err(StoreError::Internal) } else { Ok(()) }
    });
    if large { Ok(None) } else { written.map(|()| Some(chunk)) }
}

/// The base: id, number, time.
pub(super) fn base_numbers(base: Base) -> [i64; 3] {
    match base {
        Base::At { org_id, seq, at } => [org_id.cast_signed(), seq_to_sql(seq), at.0],
        Base::Absent => [0, -1, 0],
    }
}

/// The numbers of a head, in the order of its columns.
pub(super) fn head_numbers(head: &HeadRecord) -> [i64; 4] {
    [head.org_id.cast_signed(), seq_to_sql(head.seq), head.next_id.0.cast_signed(), head.at.0]
}

/// Returns when everything that was committed before is where a commit has to be to be acknowledged: a
/// transaction that only writes to the log waits for all of the log before it.
pub(super) fn wait_for_standbys(connection: &mut Connection) -> Result<(), Failure> {
    connection.run_to_commit(async |session| {
        session.client.query_typed("SELECT pg_logical_emit_message(true, 'dataglot', '')", &[]).await?;
        Ok(())
    })
}

/// Where the writer has seen the org's fence.
pub(super) fn fence_of(fences: &Fences, org: &OrgName) -> i64 {
    fences.get(org).copied().unwrap_or(0)
}

/// An org is not where the group wants it: somebody was faster, or moved the fence, or nobody writes to it
/// any more.
pub(super) fn conflict(connection: &mut Connection, org: &OrgName, fences: &mut Fences) -> GivenUp {
    let error = match connection.run(async |session| obstacles(session, org).await) {
        Ok(Obstacles { halted_at: Some(seen), .. }) => {
            CommitError::Failed(StoreError::Diverged { org: org.clone(), seen })
        }
        Ok(Obstacles { halted_at: None, fence }) if fence == fence_of(fences, org) => CommitError::Conflict,
        Ok(Obstacles { halted_at: None, fence }) => {
            fences.insert(org.clone(), fence);
            CommitError::Fenced
        }
        Err(failure) => return GivenUp { again: false, ..GivenUp::before_the_end(failure) },
    };
    GivenUp { error, broken: false, again: false }
}

/// Writes any group as a transaction of several statements.
fn write_in_steps(
    connection: &mut Connection,
    group: &Group<'_>,
    begun: bool,
    fences: &mut Fences,
) -> Result<(), GivenUp> {
    let mut orgs: Vec<_> = group.orgs.iter().collect();
    // Everybody locks in the same order.
    orgs.sort_by_key(|org| org.org);
    let moved = connection.run(async |session| {
        let begin = async {
            if !begun {
                session.client.batch_execute("BEGIN").await?;
            }
            Ok::<_, Failure>(())
        };
        let moves = try_join_all(orgs.iter().map(|org| move_head(session, org, fence_of(fences, org.org))));
        Ok(try_join(begin, moves).await?.1)
    });
    let moved = moved.map_err(GivenUp::before_the_end)?;
    if let Some((org, _)) = orgs.iter().zip(moved).find(|(_, moved)| !moved) {
        return Err(conflict(connection, org.org, fences));
    }
    for org in &orgs {
        write_rows(connection, org).map_err(GivenUp::before_the_end)?;
    }
    let committed = connection.run_to_commit(async |session| Ok(session.client.batch_execute("COMMIT").await?));
    committed.map_err(GivenUp::at_the_end)
}

/// Moves the org's head, or takes it away where its history goes. False: it is not at its base.
async fn move_head(session: &Session, org: &OrgGroup<'_>, fence: i64) -> Result<bool, Failure> {
    let name = org.org.as_str();
    let base = base_numbers(org.base);
    let new = org.head.as_ref().map(head_numbers);
    let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = vec![(&name, Type::TEXT)];
    let sql = match (org.base, &new) {
        (Base::Absent, Some(new)) => {
            parameters.extend(new.iter().map(|n| (n as &(dyn ToSql + Sync), Type::INT8)));
            INSERT_HEAD
        }
        (Base::Absent, None) => "SELECT WHERE NOT EXISTS (SELECT FROM heads WHERE org = $1)",
        (Base::At { .. }, Some(new)) if !org.erase => {
            parameters.extend(base.iter().chain(new).map(|n| (n as &(dyn ToSql + Sync), Type::INT8)));
            parameters.push((&fence, Type::INT8));
            "UPDATE heads SET org_id = $5, seq = $6, next_id = $7, at = $8 \
             WHERE org = $1 AND org_id = $2 AND seq = $3 AND at = $4 AND fence = $9 AND halted_at_seq IS NULL"
        }
        (Base::At { .. }, _) => {
            parameters.extend(base.iter().map(|n| (n as &(dyn ToSql + Sync), Type::INT8)));
            parameters.push((&fence, Type::INT8));
            "DELETE FROM heads \
             WHERE org = $1 AND org_id = $2 AND seq = $3 AND at = $4 AND fence = $5 AND halted_at_seq IS NULL"
        }
    };
    Ok(session.client.execute_typed(sql, &parameters).await? == 1)
}

const INSERT_HEAD: &str =
    "INSERT INTO heads (org, org_id, seq, next_id, at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";

/// Writes the rows of an org whose head was moved.
fn write_rows(connection: &mut Connection, org: &OrgGroup<'_>) -> Result<(), Failure> {
    if org.erase && org.base != Base::Absent {
        connection.run(async |session| erase(session, org).await)?;
    }
    let mut chunk = Chunk::default();
    let mut failure = None;
    let written = org.rows.write(&mut |table, key, value| {
        chunk.add(table, key, value);
        if chunk.bytes() <= CHUNK_BYTES_MAX {
            return Ok(());
        }
        let full = std::mem::take(&mut chunk);
        connection.run(async |session| write_chunk(session, org.org, &full).await).map_err(|error| {
            failure = Some(error);
            StoreError::ConnectionLost
        })
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    written?;
    connection.run(async |session| write_chunk(session, org.org, &chunk).await)
}

/// Removes every row of an org whose head was taken away, history included, and gives it its new head.
async fn erase(session: &Session, org: &OrgGroup<'_>) -> Result<(), Failure> {
    let name = org.org.as_str();
    let limit = format!("SET LOCAL statement_timeout = {}", ERASING.as_millis());
    session.client.batch_execute(&limit).await?;
    for table in Table::IMAGE {
        let sql = format!("DELETE FROM {table} WHERE org = $1");
        session.asked_much(ERASING);
        session.client.execute_typed(&sql, &[(&name, Type::TEXT)]).await?;
    }
    let [_, last, _] = base_numbers(org.base);
    let (mut after, sql) = (0, "DELETE FROM changes WHERE org = $1 AND seq > $2 AND seq <= $3");
    while after < last {
        let up_to = after.saturating_add(ERASED_AT_ONCE);
        session.asked_much(ERASING);
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&name, Type::TEXT), (&after, Type::INT8), (&up_to, Type::INT8)];
        session.client.execute_typed(sql, &parameters).await?;
        after = up_to;
    }
    session.heard();
    if let Some(new) = org.head.as_ref().map(head_numbers) {
        let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = vec![(&name, Type::TEXT)];
        parameters.extend(new.iter().map(|n| (n as &(dyn ToSql + Sync), Type::INT8)));
        if session.client.execute_typed(INSERT_HEAD, &parameters).await? != 1 {
            return Err(Failure::Store(StoreError::Internal));
        }
    }
    Ok(())
}

/// Writes some rows of an org.
async fn write_chunk(session: &Session, org: &OrgName, chunk: &Chunk) -> Result<(), Failure> {
    let org = org.as_str();
    // A copy has headers of any age: each row may be there.
    let tables = chunk.parameters(None)?;
    let mut statements: Vec<(Statement, Vec<&(dyn ToSql + Sync)>)> = Vec::new();
    for rows in &tables {
        let table = rows.table;
        let first = || std::iter::once(Type::TEXT);
        if !rows.gone.is_empty() {
            let types: Vec<_> = first().chain(key_types(table)).collect();
            let sql = || delete_sql(table, Head::Parameter, 2);
            let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&org];
            rows.gone.append(key_columns(table), &mut parameters);
            statements.push((session.prepare(Prepared::Delete(table), &types, sql).await?, parameters));
        }
        if !rows.put.is_empty() {
            let types: Vec<_> = first().chain(put_types(table)).collect();
            let sql = || put_sql(table, Put::Over, Head::Parameter, 2);
            let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&org];
            rows.put.append(table, &mut parameters);
            statements.push((session.prepare(Prepared::Put(table), &types, sql).await?, parameters));
        }
    }
    session.heard();
    let executed = statements.iter().map(|(statement, parameters)| async move {
        session.client.execute(statement, parameters).await?;
        session.heard();
        Ok::<_, Failure>(())
    });
    try_join_all(executed).await?;
    Ok(())
}
