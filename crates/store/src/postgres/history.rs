//! The decision on a history that replaced the one that coordinators had seen.
//!
//! Who notices marks the org's head ([`crate::MetaStore::halt`]), and no coordinator writes to the org
//! from then on. Here an operator looks at the mark, and takes it away.

use std::time::Duration;

use dataglot_model::{OrgName, Seq, Timestamp};
use tokio_postgres::types::Type;

use super::Dsn;
use super::connection::{Connection, Failure, Settings};
use crate::StoreError;

/// How long a statement may take.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Under which name the session is listed.
const NODE: &str = "accept-history";

/// An org whose history is not the one that was seen before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halted {
    /// Which.
    pub org: OrgName,
    /// The transaction that was seen, and is gone or another one now.
    pub seen: Seq,
    /// The last transaction that is there now.
    pub found: Seq,
    /// When that one started.
    pub at: Timestamp,
}

/// The orgs that take no writes until somebody has decided on their histories, by name.
///
/// # Errors
/// The store cannot be read.
pub fn halted(dsn: &Dsn) -> Result<Vec<Halted>, StoreError> {
    let sql = "SELECT org, halted_at_seq, seq, at FROM heads WHERE halted_at_seq IS NOT NULL ORDER BY org";
    run(dsn, async |session| {
        let rows = session.client.query_typed(sql, &[]).await?;
        let read = |row: &tokio_postgres::Row| {
            let org = OrgName::new(row.try_get::<_, &str>(0)?).map_err(|_| StoreError::Internal)?;
            let (seen, found) = (seq(row.try_get(1)?)?, seq(row.try_get(2)?)?);
            Ok(Halted { org, seen, found, at: Timestamp(row.try_get(3)?) })
        };
        rows.iter().map(read).collect()
    })
}

/// Goes on with the history that `halted` found, as long as it is still that one. The coordinators that
/// saw the other one have to be started anew: they would mark it again.
///
/// # Errors
/// [`StoreError::Contended`]: the history has moved since. Otherwise the store cannot be written.
pub fn accept(dsn: &Dsn, halted: &Halted) -> Result<(), StoreError> {
    let Halted { org, seen, found, at } = halted;
    let sql = "UPDATE heads SET halted_at_seq = NULL WHERE org = $1 AND halted_at_seq = $2 AND seq = $3 AND at = $4";
    let (seen, found) = (bigint(*seen)?, bigint(*found)?);
    let changed = run(dsn, async |session| {
        let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] =
            [(&org.as_str(), Type::TEXT), (&seen, Type::INT8), (&found, Type::INT8), (&at.0, Type::INT8)];
        Ok(session.client.execute_typed(sql, &parameters).await?)
    })?;
    if changed == 1 { Ok(()) } else { Err(StoreError::Contended) }
}

/// The names of the coordinators that have the store open, as far as the role may see them.
///
/// # Errors
/// The store cannot be read.
pub fn coordinators(dsn: &Dsn) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT DISTINCT substr(application_name, 10) FROM pg_stat_activity \
               WHERE datname = current_database() AND application_name LIKE 'dataglot _%' \
               AND pid <> pg_backend_pid() ORDER BY 1";
    run(dsn, async |session| {
        let rows = session.client.query_typed(sql, &[]).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    })
}

fn seq(value: i64) -> Result<Seq, StoreError> {
    u64::try_from(value).map(Seq).map_err(|_| StoreError::Internal)
}

fn bigint(seq: Seq) -> Result<i64, StoreError> {
    i64::try_from(seq.0).map_err(|_| StoreError::Internal)
}

/// Does `work` on a connection of its own.
fn run<T>(
    dsn: &Dsn,
    work: impl AsyncFnOnce(&super::connection::Session) -> Result<T, Failure>,
) -> Result<T, StoreError> {
    let settings = Settings { dsn: dsn.clone().for_node(NODE), statement_timeout: STATEMENT_TIMEOUT };
    let done = Connection::open(&settings, "operator").and_then(|mut connection| connection.run(work));
    done.map_err(|failure| failure.into_store_error("decide on the history of"))
}
