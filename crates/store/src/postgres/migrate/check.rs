//! Compares the schema of a store with the one that its migrations make.
//!
//! The expected schema is built beside it, in a transaction that is rolled back; then both are read
//! from the catalogs. So nothing has to be kept in step with the migrations by hand.

use std::collections::BTreeMap;
use std::fmt;

use tokio_postgres::{Client, Transaction};

use super::embedded::MIGRATIONS;
use super::error::MigrationError;
use super::runner::{self, Place, SCHEMA};
use super::{MigrationState, state};

const CATALOG: &str = include_str!("catalog.sql");
const RIGHTS: &str = include_str!("rights.sql");

/// What is not as it should be about the schema of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What it is about: `index objects_owner`.
    pub object: String,
    /// What is wrong.
    pub kind: DifferenceKind,
    /// The definition that it should have.
    pub expected: Option<String>,
    /// The one that it has.
    pub found: Option<String>,
}

/// How a schema differs from the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceKind {
    /// It is not there.
    Missing,
    /// It is there, and should not be.
    Unexpected,
    /// It is there, and is not as it should be.
    Different,
}

impl fmt::Display for DifferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DifferenceKind::Missing => "missing",
            DifferenceKind::Unexpected => "unexpected",
            DifferenceKind::Different => "different",
        })
    }
}

impl fmt::Display for Difference {
    /// `different: column heads.seq`, and the two definitions below; of long ones the lines that differ.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { object, kind, expected, found } = self;
        write!(f, "{kind}: {object}")?;
        let lines = |text: &Option<String>| text.iter().flat_map(|t| t.lines()).map(str::to_owned).collect::<Vec<_>>();
        let (expected, found) = (lines(expected), lines(found));
        let same = |one: &mut dyn Iterator<Item = (&String, &String)>| one.take_while(|(a, b)| a == b).count();
        let first = same(&mut expected.iter().zip(&found));
        let last = same(&mut expected.iter().skip(first).rev().zip(found.iter().skip(first).rev()));
        for (what, lines) in [("expected", &expected), ("found", &found)] {
            let differing = lines.len().saturating_sub(last);
            let mut shown = lines.iter().take(differing).skip(first).peekable();
            if lines.is_empty() {
                continue;
            }
            write!(f, "\n  {what}:")?;
            if shown.peek().is_none() {
                write!(f, " nothing after line {first}")?;
            }
            let separator = if differing - first > 1 { "\n    " } else { " " };
            shown.try_for_each(|line| write!(f, "{separator}{line}"))?;
        }
        Ok(())
    }
}

/// What it belongs to, and its definition.
type Objects = BTreeMap<String, (Option<String>, String)>;

/// See [`super::check`].
pub(super) async fn check(client: &mut Client) -> Result<Vec<Difference>, MigrationError> {
    let failed = |error: &_| MigrationError::statement("compare the schema of the meta store", error);
    let place = Place::read(client).await?;
    place.check()?;
    let statuses = state::compare(MIGRATIONS, &state::recorded(client).await?);
    state::pending(MIGRATIONS, &statuses)?;
    let mut differences = Vec::new();
    for status in statuses.iter().filter(|s| s.state == MigrationState::Pending) {
        let object = format!("migration {} ({})", status.number, status.name);
        differences.push(Difference { object, kind: DifferenceKind::Missing, expected: None, found: None });
    }
    if statuses.iter().all(|s| s.state == MigrationState::Pending) {
        return Ok(differences);
    }
    if !place.may_create_schema {
        return Err(place.no_scratch());
    }
    let transaction = client.transaction().await.map_err(|e| failed(&e))?;
    transaction.batch_execute(runner::SETTINGS).await.map_err(|e| failed(&e))?;
    let live = objects(&transaction, SCHEMA).await?;
    let rights = rights(&transaction).await?;
    let expected = expected(&transaction, |number| {
        statuses.iter().any(|s| s.number == number && s.state == MigrationState::Applied)
    });
    let expected = expected.await?;
    transaction.rollback().await.map_err(|e| failed(&e))?;
    differences.extend(compare(&expected, &live));
    differences.extend(rights);
    Ok(differences)
}

/// What the migrations make that `applied` names.
async fn expected(transaction: &Transaction<'_>, applied: impl Fn(i32) -> bool) -> Result<Objects, MigrationError> {
    let failed = |error: &_| MigrationError::statement("build the expected schema of the meta store", error);
    let name = "SELECT 'dataglot_check_' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 16)";
    let row = transaction.query_one(name, &[]).await.map_err(|e| failed(&e))?;
    let scratch: String = row.try_get(0).map_err(|e| failed(&e))?;
    let create = format!("CREATE SCHEMA {scratch}; SET LOCAL search_path = {scratch}, pg_temp");
    transaction.batch_execute(&create).await.map_err(|e| failed(&e))?;
    transaction.batch_execute(runner::TRACKING).await.map_err(|e| failed(&e))?;
    for migration in MIGRATIONS.iter().filter(|m| applied(m.number)) {
        transaction.batch_execute(migration.sql).await.map_err(|e| failed(&e))?;
    }
    let own_name = |text: String| text.replace(&scratch, SCHEMA);
    let objects = objects(transaction, &scratch).await?;
    Ok(objects.into_iter().map(|(object, (of, text))| (own_name(object), (of, own_name(text)))).collect())
}

async fn objects(transaction: &Transaction<'_>, schema: &str) -> Result<Objects, MigrationError> {
    let failed = |error: &_| MigrationError::statement("read the catalogs of the meta store", error);
    let rows = transaction.query(CATALOG, &[&schema]).await.map_err(|e| failed(&e))?;
    let read = |row: &tokio_postgres::Row| Ok((row.try_get(0)?, (row.try_get(1)?, row.try_get(2)?)));
    rows.iter().map(read).collect::<Result<_, tokio_postgres::Error>>().map_err(|e| failed(&e))
}

async fn rights(transaction: &Transaction<'_>) -> Result<Vec<Difference>, MigrationError> {
    let failed = |error: &_| MigrationError::statement("read the rights on the meta store", error);
    let rows = transaction.query(RIGHTS, &[&SCHEMA]).await.map_err(|e| failed(&e))?;
    let read = |row: &tokio_postgres::Row| {
        let expected: Option<String> = row.try_get(1)?;
        let kind = if expected.is_some() { DifferenceKind::Different } else { DifferenceKind::Unexpected };
        Ok(Difference { object: row.try_get(0)?, kind, expected, found: row.try_get(2)? })
    };
    let mut differences =
        rows.iter().map(read).collect::<Result<Vec<_>, tokio_postgres::Error>>().map_err(|e| failed(&e))?;
    differences.sort_by(|a, b| a.object.cmp(&b.object));
    Ok(differences)
}

/// What differs. What belongs to a table that is not there, or should not be, is not named again.
fn compare(expected: &Objects, live: &Objects) -> Vec<Difference> {
    let mut differences = Vec::new();
    let one_sided = |of: &Option<String>, other: &Objects| of.as_ref().is_some_and(|of| !other.contains_key(of));
    for (object, (of, text)) in expected {
        match live.get(object) {
            Some((_, found)) if found == text => {}
            Some((_, found)) => differences.push(Difference {
                object: object.clone(),
                kind: DifferenceKind::Different,
                expected: Some(text.clone()),
                found: Some(found.clone()),
            }),
            None if one_sided(of, live) => {}
            None => differences.push(Difference {
                object: object.clone(),
                kind: DifferenceKind::Missing,
                expected: Some(text.clone()),
                found: None,
            }),
        }
    }
    for (object, (of, text)) in live {
        if !expected.contains_key(object) && !one_sided(of, expected) {
            differences.push(Difference {
                object: object.clone(),
                kind: DifferenceKind::Unexpected,
                expected: None,
                found: Some(text.clone()),
            });
        }
    }
    differences
}
