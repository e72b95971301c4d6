//! Reading whole orgs, and the whole store.

use std::path::Path;

use dataglot_model::OrgName;
use futures_util::future::try_join;

use super::connection::{Connection, Failure};
use super::read::{read_head_of, read_heads, read_metas};
use super::scan::{BEGIN_SCANS, prepare_scans, scan};
use crate::redb::backup;
use crate::{ImageSink, StoreError, StoreFacts, Table};

/// Hands the org's image to `sink`, as [`crate::MetaStore::load`] says. `begun` is set before the first
/// thing is handed out; then there is no second try.
pub(super) fn load(
    connection: &mut Connection,
    org: &OrgName,
    begun: &mut bool,
    sink: &mut dyn ImageSink,
) -> Result<(), Failure> {
    if *begun {
        return Err(Failure::Store(StoreError::ConnectionLost));
    }
    connection.run(async |session| {
        let begin = async { Ok::<_, Failure>(session.client.batch_execute(BEGIN_SCANS).await?) };
        let ((), head) = try_join(begin, read_head_of(session, org)).await?;
        if let Some(head) = head {
            let scans = prepare_scans(session, &Table::IMAGE, Some(org)).await?;
            *begun = true;
            sink.begin(head);
            for (table, statement) in Table::IMAGE.into_iter().zip(&scans) {
                scan(session, statement, table, false, &mut |key, value| {
                    sink.row(table, key, value);
                    Ok(())
                })
                .await?;
            }
        }
        Ok(session.client.batch_execute("COMMIT").await?)
    })
}

/// Every table but the one that a store has once, in the order of a copy.
fn tables() -> Vec<Table> {
    Table::ALL.into_iter().filter(|t| *t != Table::Meta).collect()
}

/// Writes a copy, as [`crate::MetaStore::backup`] says: a file of the redb backend.
pub(super) fn back_up(connection: &mut Connection, to: &Path, facts: &StoreFacts) -> Result<(), Failure> {
    let mut failure = None;
    let written = backup::write(to, facts, &mut |sink| {
        let copied = connection.run(async |session| {
            let begin = async { Ok::<_, Failure>(session.client.batch_execute(BEGIN_SCANS).await?) };
            let ((), heads) = try_join(begin, read_heads(session)).await?;
            for (org, head) in heads {
                sink.head(&org, &head)?;
            }
            for (key, value) in read_metas(session).await? {
                sink.meta(&key, &value)?;
            }
            let tables = tables();
            let scans = prepare_scans(session, &tables, None).await?;
            for (table, statement) in tables.into_iter().zip(&scans) {
                scan(session, statement, table, true, &mut |key, value| sink.row(table, key, value)).await?;
            }
            Ok(session.client.batch_execute("COMMIT").await?)
        });
        copied.map_err(|error| {
            failure = Some(error);
            StoreError::ConnectionLost
        })
    });
    match (written, failure) {
        (_, Some(failure)) => Err(failure),
        (written, None) => Ok(written?),
    }
}
