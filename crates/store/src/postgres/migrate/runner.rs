//! Brings the schema of a store up to date.
//!
//! Each migration is one transaction, so that a store is always between two of them. A session-wide
//! advisory lock lets one process do it; the others wait, and find it done.

use tokio_postgres::{Client, GenericClient, error::SqlState};

use super::embedded::{MIGRATIONS, Migration};
use super::error::{MigrationError, server_error};
use super::{Applied, grant, state};

/// Where a store is in its database.
pub(super) const SCHEMA: &str = "dataglot";

/// What holds in each transaction of ours, whatever the role or the database is set to. A statement
/// that waits for a table in use holds up every later one, so it does not wait for long.
pub(super) const SETTINGS: &str = "SET LOCAL search_path = dataglot, pg_temp;
    SET LOCAL statement_timeout = 0;
    SET LOCAL lock_timeout = '10s';
    SET LOCAL idle_in_transaction_session_timeout = 0;
    SET LOCAL client_min_messages = warning;
    SET LOCAL standard_conforming_strings = on;
    SET LOCAL check_function_bodies = on;
    SET LOCAL quote_all_identifiers = off";

/// The tracking table.
pub(super) const TRACKING: &str = "CREATE TABLE migrations (
        number integer PRIMARY KEY CHECK (number > 0),
        name text NOT NULL,
        checksum text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now(),
        applied_by text NOT NULL DEFAULT current_user,
        version text NOT NULL
    );
    COMMENT ON TABLE migrations IS 'The migrations that were applied to this store. Append-only.';
    COMMENT ON COLUMN migrations.checksum IS 'The SHA-256 of its text.';
    COMMENT ON COLUMN migrations.version IS 'The version of dataglot that applied it.'";

/// `dataglot` in ASCII: advisory locks are numbers, one for all databases' stores (each database has
/// locks of its own).
const LOCK: i64 = 0x6461_7461_676c_6f74;
/// How long another process may take.
const LOCK_WAIT: &str = "60s";
/// What the functions of the schema are written for.
const SERVER_VERSION_MIN: i32 = 140_000;

/// `name` as an identifier of PostgreSQL.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// What an administrator runs for the role that serves.
pub(super) fn command(role: &str) -> String {
    format!("dataglot migrate up --store \"dsn=…\" --role '{}'", role.replace('\'', r"'\''"))
}

/// Sees to it that the schema is as this version has it; see [`super::ensure`].
pub(super) async fn ensure(client: &mut Client, store_id: Option<[u8; 16]>) -> Result<(), MigrationError> {
    let (tables, privileges) = grant::needed();
    let sql = format!("SELECT number, checksum, {} FROM migrations ORDER BY number", grant::LACKING);
    let up_to_date = match client.query(&sql, &[&tables, &privileges]).await {
        Ok(rows) => {
            let failed = |error: &_| MigrationError::statement("read the migrations of the meta store", error);
            let mut same = rows.len() == MIGRATIONS.len();
            let mut missing = Vec::new();
            for (row, migration) in rows.iter().zip(MIGRATIONS) {
                let (number, checksum) = (
                    row.try_get::<_, i32>(0).map_err(|e| failed(&e))?,
                    row.try_get::<_, String>(1).map_err(|e| failed(&e))?,
                );
                same &= number == migration.number && checksum == migration.checksum();
                missing = row.try_get(2).map_err(|e| failed(&e))?;
            }
            if same && !missing.is_empty() {
                let role = Place::read(client).await?.role;
                return Err(grant::not_granted(role.clone(), missing, &role));
            }
            same
        }
        // There is none, or it is hidden from this role: what is there is looked at below.
        Err(error) if is_absent(&error) || is_denied(&error) => false,
        Err(error) => return Err(MigrationError::statement("read the migrations of the meta store", &error)),
    };
    if !up_to_date {
        bring_up_to_date(client, store_id).await?;
    }
    match store_id {
        Some(id) => become_copy(client, id).await,
        None => Ok(()),
    }
}

/// Applies what is pending.
pub(super) async fn bring_up_to_date(
    client: &mut Client,
    store_id: Option<[u8; 16]>,
) -> Result<Vec<Applied>, MigrationError> {
    let place = Place::read(client).await?;
    place.check()?;
    // Looked at without the lock first: a store that has nothing to be done to it is left alone.
    if state::pending(MIGRATIONS, &state::compare(MIGRATIONS, &state::recorded(client).await?))?.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(denied) = place.denied() {
        return Err(place.no_rights(denied));
    }
    lock(client, LOCK_WAIT).await?;
    let applied = apply_pending(client, &place, store_id).await;
    // Where the connection is gone, so is the lock.
    if let Err(error) = client.query_one("SELECT pg_advisory_unlock($1)", &[&LOCK]).await {
        tracing::warn!(%error, "meta store: the lock of the migrations could not be released");
    }
    applied
}

/// Takes the lock, for as long as the session lasts, if it is to be had within `wait`.
pub(super) async fn lock(client: &mut Client, wait: &str) -> Result<(), MigrationError> {
    let failed = |error: &_| MigrationError::statement("lock the migrations of the meta store", error);
    let transaction = client.transaction().await.map_err(|e| failed(&e))?;
    let sql = format!("{SETTINGS}; SET LOCAL lock_timeout = '{wait}'; SELECT pg_advisory_lock({LOCK})");
    if let Err(error) = transaction.batch_execute(&sql).await {
        if error.code() != Some(&SqlState::LOCK_NOT_AVAILABLE) {
            return Err(failed(&error));
        }
        transaction.rollback().await.map_err(|e| failed(&e))?;
        let holder = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted \
                      AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                      AND (classid::bigint << 32 | objid::bigint) = $1";
        let row = client.query_opt(holder, &[&LOCK]).await.map_err(|e| failed(&e))?;
        return Err(MigrationError::Busy { pid: row.and_then(|row| row.try_get(0).ok()) });
    }
    transaction.commit().await.map_err(|e| failed(&e))
}

async fn apply_pending(
    client: &mut Client,
    place: &Place,
    store_id: Option<[u8; 16]>,
) -> Result<Vec<Applied>, MigrationError> {
    let statuses = state::compare(MIGRATIONS, &state::recorded(client).await?);
    let mut applied = Vec::new();
    for migration in state::pending(MIGRATIONS, &statuses)? {
        apply(client, migration, place, store_id).await?;
        let Migration { number, name, sql: _ } = *migration;
        tracing::info!(number, name, "meta store: migration applied");
        applied.push(Applied { number, name: name.to_owned() });
    }
    Ok(applied)
}

pub(super) async fn apply(
    client: &mut Client,
    migration: &Migration,
    place: &Place,
    store_id: Option<[u8; 16]>,
) -> Result<(), MigrationError> {
    let Migration { number, name, sql } = *migration;
    let failed = |error: tokio_postgres::Error| match server_error(&error) {
        Some(_) if is_denied(&error) => place.no_rights("it does not own what is to be changed"),
        Some(reason) => MigrationError::Failed { number, name, reason },
        None => MigrationError::ConnectionLost,
    };
    let transaction = client.transaction().await.map_err(failed)?;
    transaction.batch_execute(SETTINGS).await.map_err(failed)?;
    let first = MIGRATIONS.first().is_some_and(|m| m.number == number);
    if first {
        let there =
            transaction.query_one("SELECT to_regnamespace($1) IS NOT NULL", &[&SCHEMA]).await.map_err(failed)?;
        if !there.try_get::<_, bool>(0).map_err(failed)? {
            let create = format!(
                "CREATE SCHEMA {SCHEMA}; COMMENT ON SCHEMA {SCHEMA} IS 'The control plane of dataglot: see the audit_ views.'"
            );
            transaction.batch_execute(&create).await.map_err(failed)?;
        }
        transaction.batch_execute(TRACKING).await.map_err(failed)?;
    }
    transaction.batch_execute(sql).await.map_err(failed)?;
    let record = "INSERT INTO migrations (number, name, checksum, version) VALUES ($1, $2, $3, $4)";
    let version = env!("CARGO_PKG_VERSION");
    transaction.execute(record, &[&number, &name, &migration.checksum(), &version]).await.map_err(failed)?;
    if first {
        let id = store_id.map(Vec::from);
        let identify = "INSERT INTO meta (key, value) VALUES ('store_id', coalesce($1, uuid_send(gen_random_uuid())))";
        transaction.execute(identify, &[&id]).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

/// The id of the store. Nothing, where this role may not read it.
pub(super) async fn store_id(client: &Client) -> Result<Option<[u8; 16]>, MigrationError> {
    let failed = |error: &_| MigrationError::statement("read the id of the meta store", error);
    let row = match client.query_opt("SELECT value FROM meta WHERE key = 'store_id'", &[]).await {
        Ok(row) => row,
        Err(error) if is_denied(&error) => None,
        Err(error) => return Err(failed(&error)),
    };
    let value: Option<Vec<u8>> = row.map(|row| row.try_get(0)).transpose().map_err(|e| failed(&e))?;
    Ok(value.and_then(|value| value.try_into().ok()))
}

/// Gives a store without an org the id of the one that is going to be copied into it.
pub(super) async fn become_copy(client: &Client, id: [u8; 16]) -> Result<(), MigrationError> {
    let failed = |error: &_| MigrationError::statement("set the id of the meta store", error);
    let sql = "UPDATE meta SET value = $1 WHERE key = 'store_id' AND value <> $1";
    match client.execute(sql, &[&id.as_slice()]).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(&SqlState::INTEGRITY_CONSTRAINT_VIOLATION) => {
            Err(MigrationError::OtherStore)
        }
        Err(error) => Err(failed(&error)),
    }
}

fn is_denied(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}

fn is_absent(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::UNDEFINED_TABLE)
}

/// What decides whether a role can make or change a store here.
pub(super) struct Place {
    pub role: String,
    database: String,
    encoding: String,
    version: String,
    version_num: i32,
    /// Whose the schema is, if there is one.
    owner: Option<String>,
    may_use_schema: bool,
    may_create_in_schema: bool,
    pub may_create_schema: bool,
    has_store: bool,
    may_read: bool,
}

impl Place {
    pub(super) async fn read(client: &impl GenericClient) -> Result<Self, MigrationError> {
        let failed = |error: &_| MigrationError::statement("look for the meta store", error);
        let sql = "SELECT current_user::text, current_database()::text, pg_encoding_to_char(d.encoding)::text,
                   current_setting('server_version'), current_setting('server_version_num')::integer,
                   pg_get_userbyid(n.nspowner)::text, coalesce(has_schema_privilege(n.oid, 'USAGE'), false),
                   coalesce(has_schema_privilege(n.oid, 'CREATE'), false),
                   has_database_privilege(d.oid, 'CREATE'), m.oid IS NOT NULL,
                   coalesce(has_table_privilege(m.oid, 'SELECT'), false)
              FROM pg_database d
              LEFT JOIN pg_namespace n ON n.nspname = $1
              LEFT JOIN pg_class m ON m.relnamespace = n.oid AND m.relname = 'migrations'
             WHERE d.datname = current_database()";
        let row = client.query_one(sql, &[&SCHEMA]).await.map_err(|e| failed(&e))?;
        let read = || {
            Ok(Place {
                role: row.try_get(0)?,
                database: row.try_get(1)?,
                encoding: row.try_get(2)?,
                version: row.try_get(3)?,
                version_num: row.try_get(4)?,
                owner: row.try_get(5)?,
                may_use_schema: row.try_get(6)?,
                may_create_in_schema: row.try_get(7)?,
                may_create_schema: row.try_get(8)?,
                has_store: row.try_get(9)?,
                may_read: row.try_get(10)?,
            })
        };
        read().map_err(|e: tokio_postgres::Error| failed(&e))
    }

    /// Whether a store can be here, and this role can see it if there is one.
    pub(super) fn check(&self) -> Result<(), MigrationError> {
        if self.version_num < SERVER_VERSION_MIN {
            return Err(MigrationError::Server { found: self.version.clone() });
        }
        if self.encoding != "UTF8" {
            return Err(MigrationError::Encoding { found: self.encoding.clone() });
        }
        if self.has_store && !(self.may_use_schema && self.may_read) {
            let missing = match self.may_use_schema {
                true => "SELECT on migrations".to_owned(),
                false => format!("USAGE on schema {SCHEMA}"),
            };
            return Err(grant::not_granted(self.role.clone(), vec![missing], &self.role));
        }
        Ok(())
    }

    /// What keeps the role from making or changing it, as far as that can be told before.
    fn denied(&self) -> Option<&'static str> {
        match self.owner {
            None if !self.may_create_schema => Some("it may not create a schema"),
            Some(_) if !self.may_create_in_schema || !self.may_use_schema => {
                Some("it may not create tables in the schema")
            }
            None | Some(_) => None,
        }
    }

    pub(super) fn no_rights(&self, denied: &'static str) -> MigrationError {
        let role = quote(&self.role);
        let statement = match &self.owner {
            None => format!("CREATE SCHEMA {SCHEMA} AUTHORIZATION {role};"),
            Some(owner) if self.has_store => format!("GRANT {} TO {role};", quote(owner)),
            Some(_) => format!("GRANT USAGE, CREATE ON SCHEMA {SCHEMA} TO {role};"),
        };
        let command = command(&self.role);
        MigrationError::NoRights { role: self.role.clone(), denied, statement, command }
    }

    /// The same, for a schema beside that of the store.
    pub(super) fn no_scratch(&self) -> MigrationError {
        let statement = format!("GRANT CREATE ON DATABASE {} TO {};", quote(&self.database), quote(&self.role));
        MigrationError::NoScratch { role: self.role.clone(), statement }
    }
}
