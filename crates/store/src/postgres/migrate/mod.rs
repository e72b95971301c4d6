//! The schema of a store in PostgreSQL: `migrations/*.sql`, applied in order, and compared.
//!
//! In: the files, embedded; a database. Out: a schema that is exactly what the files make, each of them
//! applied once, whole or not at all; or an error that says what an administrator has to run. A store
//! that a later version made, or whose recorded migrations are not ours, is left as it is.
//!
//! Deliberately absent: ways back. A release reads what the one before it wrote, and a backup is the
//! way to undo more than that.

mod check;
mod embedded;
mod error;
mod grant;
mod runner;
mod state;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::time::Duration;

use dataglot_model::Timestamp;
use tokio_postgres::Client;

use super::connect::{Link, connect};
use super::probe::probe;
use super::{Dsn, PostgresError};
use crate::StoreError;

pub use check::{Difference, DifferenceKind};
pub use error::{MigrationError, ServerError};

/// The longest that a statement may take which only looks; a migration may take as long as it takes.
pub(super) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(600);

/// What [`up`] is to do besides.
#[derive(Clone, Debug, Default)]
pub struct UpOptions {
    /// The role that is going to serve the store, if it is another one: it is granted what it needs.
    pub grant_to: Option<String>,
    /// The id of a store that is made now; `None`: the server makes one up.
    pub store_id: Option<[u8; 16]>,
}

/// A migration that was applied just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Counted from 1.
    pub number: i32,
    /// Its name.
    pub name: String,
}

/// What has been done to the schema of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Where it is, without any credential.
    pub location: String,
    /// The id of the store, if there is one.
    pub store_id: Option<[u8; 16]>,
    /// Every migration that this version or the store knows, in order.
    pub migrations: Vec<MigrationStatus>,
}

impl Status {
    /// The migrations that [`up`] would apply.
    ///
    /// # Errors
    /// Why it would refuse to.
    pub fn pending(&self) -> Result<Vec<Applied>, MigrationError> {
        let pending = state::pending(embedded::MIGRATIONS, &self.migrations)?;
        Ok(pending.iter().map(|m| Applied { number: m.number, name: m.name.to_owned() }).collect())
    }
}

/// A migration, as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationStatus {
    /// Counted from 1.
    pub number: i32,
    /// Its name.
    pub name: String,
    /// What is to be said of it.
    pub state: MigrationState,
    /// When and by whom it was applied, if it was.
    pub applied: Option<Run>,
}

/// What is to be said of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationState {
    /// It was applied, as this version has it.
    Applied,
    /// It is still to be applied.
    Pending,
    /// It was applied, but its checksum is not that of ours.
    Edited,
    /// It was applied, and this version does not have it, but has later ones.
    Missing,
    /// It was applied by a later version.
    Newer,
}

impl MigrationState {
    /// One word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            MigrationState::Applied => "applied",
            MigrationState::Pending => "pending",
            MigrationState::Edited => "edited",
            MigrationState::Missing => "missing",
            MigrationState::Newer => "newer",
        }
    }
}

/// Who applied a migration, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// By the server's clock.
    pub at: Timestamp,
    /// The role.
    pub by: String,
    /// The version of dataglot.
    pub version: String,
}

/// Sees to it that the schema is as this version has it, before the store is used. Where it is, that
/// is one query and no lock. What is pending is applied, if the role may. An empty store gets the id
/// `store_id`, if one is given.
///
/// # Errors
/// [`MigrationError`]: it is not, and says what to do. The store is as it was, or some migrations further.
pub(crate) async fn ensure(client: &mut Client, store_id: Option<[u8; 16]>) -> Result<(), MigrationError> {
    runner::ensure(client, store_id).await
}

/// Applies the migrations that are pending, in order, and says which they were. Does nothing to a store
/// that is up to date.
///
/// # Errors
/// [`StoreError`]: the store is as it was, or some migrations further.
pub fn up(dsn: &Dsn, options: UpOptions) -> Result<Vec<Applied>, StoreError> {
    // Its lock is one of the session: behind a proxy that shares sessions it would stay with a stranger.
    on_this_thread(async { Ok(probe(dsn).await.map_err(Box::new)?) })?;
    with_connection(dsn, async |client, _| {
        let UpOptions { grant_to, store_id } = options;
        if let Some(role) = &grant_to {
            grant::find(client, role).await?;
        }
        let applied = runner::bring_up_to_date(client, store_id).await?;
        if let Some(id) = store_id {
            runner::become_copy(client, id).await?;
        }
        if let Some(role) = &grant_to {
            grant::grant(client, role).await?;
        }
        Ok(applied)
    })
}

/// What has been done to the schema of the store, and what is pending. Changes nothing.
///
/// # Errors
/// [`StoreError`]: it cannot be read.
pub fn status(dsn: &Dsn) -> Result<Status, StoreError> {
    with_connection(dsn, async |client, location| {
        runner::Place::read(client).await?.check()?;
        let recorded = state::recorded(client).await?;
        let store_id = if recorded.is_empty() { None } else { runner::store_id(client).await? };
        Ok(Status { location, store_id, migrations: state::compare(embedded::MIGRATIONS, &recorded) })
    })
}

/// How the schema of the store differs from what its migrations make; nothing: it does not. The expected
/// one is built in a transaction that is rolled back, so nothing stays of it.
///
/// # Errors
/// [`StoreError`]: they cannot be compared, as where the role may not create a schema.
pub fn check(dsn: &Dsn) -> Result<Vec<Difference>, StoreError> {
    with_connection(dsn, async |client, _| check::check(client).await)
}

/// Runs `work` on a connection of its own, which the calling thread drives.
fn with_connection<T>(
    dsn: &Dsn,
    work: impl AsyncFnOnce(&mut Client, String) -> Result<T, MigrationError>,
) -> Result<T, StoreError> {
    on_this_thread(async {
        let link = connect(dsn, "migrate", STATEMENT_TIMEOUT).await;
        let link = link.map_err(|error| Box::new(PostgresError::from(error)))?;
        let Link { mut client, mut messages, .. } = link;
        // Ends with the runtime, or when the connection does.
        tokio::spawn(async move { while poll_fn(|cx| messages.as_mut().poll_next(cx)).await.is_some() {} });
        work(&mut client, dsn.location()).await.map_err(|error| Box::new(PostgresError::from(error)).into())
    })
}

/// Runs `work` on the calling thread.
fn on_this_thread<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| StoreError::io("open", &error))?.block_on(work)
}
