//! What has been applied to a store, and what is to be thought of it.

use std::collections::BTreeMap;

use dataglot_model::Timestamp;
use tokio_postgres::GenericClient;

use super::embedded::Migration;
use super::error::MigrationError;
use super::{MigrationState, MigrationStatus, Run};

/// A row of the tracking table.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub number: i32,
    pub name: String,
    pub checksum: String,
    pub run: Run,
}

/// What has been applied, in order. Nothing where there is no store.
pub(super) async fn recorded(client: &impl GenericClient) -> Result<Vec<Recorded>, MigrationError> {
    let doing = "read the migrations of the meta store";
    let failed = |error: &_| MigrationError::statement(doing, error);
    let there = client.query_one("SELECT to_regclass('migrations') IS NOT NULL", &[]).await.map_err(|e| failed(&e))?;
    if !there.try_get::<_, bool>(0).map_err(|e| failed(&e))? {
        return Ok(Vec::new());
    }
    let sql = "SELECT number, name, checksum, (extract(epoch FROM applied_at) * 1000000)::bigint, applied_by, version \
               FROM migrations ORDER BY number";
    let rows = client.query(sql, &[]).await.map_err(|e| failed(&e))?;
    let read = |row: &tokio_postgres::Row| {
        let run = Run { at: Timestamp(row.try_get(3)?), by: row.try_get(4)?, version: row.try_get(5)? };
        Ok(Recorded { number: row.try_get(0)?, name: row.try_get(1)?, checksum: row.try_get(2)?, run })
    };
    rows.iter().map(read).collect::<Result<_, tokio_postgres::Error>>().map_err(|e| failed(&e))
}

/// Every migration that either side knows, in order.
pub(super) fn compare(known: &[Migration], recorded: &[Recorded]) -> Vec<MigrationStatus> {
    let last_known = known.last().map_or(0, |m| m.number);
    let mut all: BTreeMap<i32, MigrationStatus> = known
        .iter()
        .map(|m| {
            let name = m.name.to_owned();
            (m.number, MigrationStatus { number: m.number, name, state: MigrationState::Pending, applied: None })
        })
        .collect();
    for Recorded { number, name, checksum, run } in recorded {
        let state = match known.iter().find(|m| m.number == *number) {
            Some(m) if m.checksum() == *checksum => MigrationState::Applied,
            Some(_) => MigrationState::Edited,
            None if *number > last_known => MigrationState::Newer,
            None => MigrationState::Missing,
        };
        let applied = Some(run.clone());
        all.insert(*number, MigrationStatus { number: *number, name: name.clone(), state, applied });
    }
    all.into_values().collect()
}

/// The migrations that are still to be applied.
///
/// # Errors
/// What was applied is not what this version would have applied. A later version comes first: what
/// else differs may be its doing.
pub(super) fn pending<'a>(
    known: &'a [Migration],
    statuses: &[MigrationStatus],
) -> Result<Vec<&'a Migration>, MigrationError> {
    let last = |wanted| statuses.iter().rev().find(|s| s.state == wanted);
    if let Some(newer) = last(MigrationState::Newer) {
        let known = known.last().map_or(0, |m| m.number);
        return Err(MigrationError::Newer { found: newer.number, known });
    }
    let last_applied = statuses.iter().rev().find(|s| s.applied.is_some()).map_or(0, |s| s.number);
    for MigrationStatus { number, name, state, applied: _ } in statuses {
        let (number, name) = (*number, name.clone());
        match state {
            MigrationState::Edited => return Err(MigrationError::Edited { number, name }),
            MigrationState::Missing => return Err(MigrationError::Missing { number, name }),
            MigrationState::Pending if number < last_applied => return Err(MigrationError::Gap { number, name }),
            MigrationState::Applied | MigrationState::Pending | MigrationState::Newer => {}
        }
    }
    Ok(known.iter().filter(|m| m.number > last_applied).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Migration; 3] = [
        Migration { number: 1, name: "a", sql: "a" },
        Migration { number: 2, name: "b", sql: "b" },
        Migration { number: 4, name: "d", sql: "d" },
    ];

    fn verdict(recorded: &[(i32, &str)]) -> Result<Vec<i32>, MigrationError> {
        let run = Run { at: Timestamp(0), by: String::new(), version: String::new() };
        let row = |&(number, text): &(i32, &'static str)| {
            let checksum = Migration { number, name: "", sql: text }.checksum();
            Recorded { number, name: text.to_owned(), checksum, run: run.clone() }
        };
        let recorded: Vec<_> = recorded.iter().map(|r| row(&(r.0, String::leak(r.1.to_owned())))).collect();
        pending(&KNOWN, &compare(&KNOWN, &recorded)).map(|list| list.iter().map(|m| m.number).collect())
    }

    #[test]
    fn only_what_we_have_is_gone_on_from() {
        assert_eq!(verdict(&[]), Ok(vec![1, 2, 4]));
        assert_eq!(verdict(&[(1, "a")]), Ok(vec![2, 4]));
        assert_eq!(verdict(&[(1, "a"), (2, "b"), (4, "d")]), Ok(vec![]));
        let name = || "x".to_owned();
        assert_eq!(verdict(&[(1, "x"), (2, "b")]), Err(MigrationError::Edited { number: 1, name: name() }));
        assert_eq!(verdict(&[(1, "a"), (2, "b"), (3, "x")]), Err(MigrationError::Missing { number: 3, name: name() }));
        assert_eq!(verdict(&[(1, "a"), (4, "d")]), Err(MigrationError::Gap { number: 2, name: "b".to_owned() }));
        assert_eq!(verdict(&[(1, "x"), (5, "e"), (6, "f")]), Err(MigrationError::Newer { found: 6, known: 4 }));
    }
}
