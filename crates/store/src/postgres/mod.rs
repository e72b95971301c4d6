//! The backend for several coordinators: a PostgreSQL database.
//!
//! In: the same calls as every backend gets, on plain threads. Out: rows that a person can query, one
//! durable commit a group, and the news of what other coordinators wrote.
//!
//! * `dsn`, `connect`, `tls`: how to get in. `migrate`: the schema.
//! * `connection`, `reach`: one connection, and whether there can be one.
//! * `pool`: those that read. `writer`: the one that commits. `follow`: the one that listens, and tells the
//!   others; `told`: what it tells; `interest`: whether anybody wants to know.
//! * `layout`, `wire`, `rows`, `chunk`, `scan`: records as columns.
//! * `load`, `delta`, `read`, `commit`, `at_once`: the statements.
//!
//! Everything is unqualified in SQL: each session has a fixed `search_path`.

mod at_once;
mod chunk;
mod commit;
mod connect;
mod connection;
mod delta;
mod dsn;
mod error;
mod follow;
pub mod history;
mod interest;
mod layout;
mod load;
pub mod migrate;
mod pool;
mod probe;
mod reach;
mod read;
mod rows;
mod scan;
mod tls;
mod told;
mod wire;
mod writer;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dataglot_model::{HeadRecord, OrgName, Seq, TransactionId};

use self::connection::{Connection, Failure, Session, Settings, ensure_schema};
use self::follow::Follower;
use self::pool::Readers;
use self::reach::Reach;
use self::told::Told;
use self::writer::Writer;
use crate::{CommitError, DeltaSink, Group, ImageSink, MetaStore, StoreError, StoreFacts, Watcher};

pub use connect::{Attempt, ConnectError, ConnectFailure};
pub use dsn::{Dsn, DsnError, Origin};
pub use error::PostgresError;
pub use probe::Finding;

/// How a store in PostgreSQL is opened.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Where it is.
    pub dsn: Dsn,
    /// Who we are, for people who look at the server's sessions.
    pub node: String,
    /// How often the heads are read when no notification comes.
    pub poll_interval: Duration,
    /// The longest that the server may take for a statement.
    pub statement_timeout: Duration,
    /// The id of a store that is made now as a copy of another one.
    pub store_id: Option<[u8; 16]>,
}

impl PostgresOptions {
    /// As it is used without any settings.
    pub fn new(dsn: Dsn) -> Self {
        PostgresOptions {
            dsn,
            node: String::new(),
            poll_interval: Duration::from_secs(1),
            statement_timeout: Duration::from_secs(10),
            store_id: None,
        }
    }
}

/// A store in a PostgreSQL database.
struct PostgresStore {
    reach: Arc<Reach>,
    schema_version: u32,
    readers: Readers,
    writer: Mutex<Writer>,
    follower: Mutex<Option<Follower>>,
    told: Arc<Told>,
}

/// Opens the store in a PostgreSQL database. Its schema is made or brought up to date, if the role may.
///
/// # Errors
/// The server cannot be reached, does not do as a store, or the schema is not as it has to be.
pub fn open_postgres(options: PostgresOptions) -> Result<Arc<dyn MetaStore>, StoreError> {
    let PostgresOptions { dsn, node, poll_interval, statement_timeout, store_id } = options;
    let dsn = if node.is_empty() { dsn } else { dsn.for_node(&node) };
    ensure_schema(&dsn, store_id)?;
    let settings = Settings { dsn, statement_timeout };
    let cannot = |failure: Failure| failure.into_store_error("open");
    let mut connection = Connection::open(&settings, "reader").map_err(cannot)?;
    let look = async |session: &Session| Ok((reach::store_id(session).await?, read::schema_version(session).await?));
    let (store_id, schema_version) = connection.run(look).map_err(cannot)?;
    let Some(store_id) = store_id else {
        tracing::error!("the meta store has no id, though its schema is complete");
        return Err(StoreError::Internal);
    };
    let readers = Readers::default();
    readers.add(connection);
    Ok(Arc::new(PostgresStore {
        reach: Arc::new(Reach::new(settings, store_id, poll_interval)),
        schema_version,
        readers,
        writer: Mutex::new(Writer::new()?),
        follower: Mutex::new(None),
        told: Arc::default(),
    }))
}

impl PostgresStore {
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks something that may be asked twice.
    fn ask<T>(&self, ask: impl AsyncFn(&Session) -> Result<T, Failure>) -> Result<T, StoreError> {
        self.readers.read(&self.reach, |connection| connection.run(async |session| ask(session).await))
    }
}

impl MetaStore for PostgresStore {
    fn facts(&self) -> StoreFacts {
        StoreFacts {
            backend: "postgres",
            location: self.reach.location.clone(),
            path: None,
            store_id: self.reach.store_id,
            schema_version: self.schema_version,
            durable: true,
            shared: true,
        }
    }

    fn heads(&self) -> Result<Vec<(OrgName, HeadRecord)>, StoreError> {
        self.ask(read::read_heads)
    }

    fn head(&self, org: &OrgName) -> Result<Option<HeadRecord>, StoreError> {
        self.ask(async |session| read::read_head_of(session, org).await)
    }

    fn heads_of(&self, orgs: Vec<OrgName>) -> Result<Vec<(OrgName, Option<HeadRecord>)>, StoreError> {
        self.ask(async |session| read::read_heads_of(session, orgs.clone()).await)
    }

    fn load(&self, org: &OrgName, sink: &mut dyn ImageSink) -> Result<(), StoreError> {
        let mut begun = false;
        self.readers.read(&self.reach, |connection| load::load(connection, org, &mut begun, sink))
    }

    fn delta(&self, org: &OrgName, from: Seq, sink: &mut dyn DeltaSink) -> Result<(), StoreError> {
        let mut begun = false;
        self.readers.read(&self.reach, |connection| delta::delta(connection, org, from, &mut begun, sink))
    }

    fn watch(&self, watcher: Arc<dyn Watcher>) -> Result<(), StoreError> {
        let follower = Follower::start(Arc::clone(&self.reach), Arc::clone(&self.told), watcher)?;
        *self.follower.lock().unwrap_or_else(PoisonError::into_inner) = Some(follower);
        Ok(())
    }

    fn orgs_added(&self) {
        self.told.look_for_more();
    }

    fn halt(&self, org: &OrgName, seen: Seq) -> Result<(), StoreError> {
        self.ask(async |session| read::halt(session, org, seen).await)
    }

    fn take_turn(&self, org: &OrgName) -> Result<bool, StoreError> {
        let mut writer = self.writer();
        let mut connection = writer.take(&self.reach)?;
        let begun = writer.take_turn();
        let locked = commit::lock(&mut connection, org, begun, writer.fences());
        let is_fenced = locked.map_err(|failure| failure.into_store_error("write"))?;
        writer.begun();
        writer.keep(connection);
        Ok(is_fenced)
    }

    fn pass_turn(&self) {
        let mut writer = self.writer();
        if let Some(mut connection) = writer.held()
            && commit::roll_back(&mut connection).is_ok()
        {
            writer.keep(connection);
        }
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        if group.orgs.is_empty() {
            return Ok(());
        }
        let mut writer = self.writer();
        for again in [true, false] {
            let mut connection = writer.take(&self.reach).map_err(CommitError::Failed)?;
            let begun = writer.take_turn();
            let Err(given_up) = commit::write(&mut connection, group, begun, writer.fences()) else {
                writer.keep(connection);
                // Whatever was committed before it is behind it in the log.
                writer.settled();
                self.told.committed(group);
                return Ok(());
            };
            if !given_up.broken {
                writer.keep(connection);
            }
            if matches!(given_up.error, CommitError::Unknown(_)) {
                writer.lost();
            }
            if !(again && given_up.again) {
                return Err(given_up.error);
            }
        }
        Err(CommitError::Failed(StoreError::ConnectionLost))
    }

    fn changes(
        &self,
        org: &OrgName,
        after: Seq,
        limit: usize,
        sink: &mut dyn FnMut(Seq, u32, &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        let mut begun = false;
        self.readers.read(&self.reach, |connection| read::changes(connection, org, after, limit, &mut begun, sink))
    }

    fn find_transaction(&self, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, StoreError> {
        // One that is being committed is waited for.
        let mut writer = self.writer();
        if !writer.is_in_doubt() {
            drop(writer);
            return self.readers.read(&self.reach, |connection| read::find_transaction(connection, org, id));
        }
        let mut connection = writer.take(&self.reach)?;
        let found = read::find_transaction(&mut connection, org, id).map_err(|f| f.into_store_error("read"))?;
        // A session that was ended while it waited for a standby leaves its transaction visible here and perhaps
        // nowhere else. That may be another one than this, and there is no doubt about it from here on.
        commit::wait_for_standbys(&mut connection).map_err(|f| f.into_store_error("write"))?;
        writer.keep(connection);
        writer.settled();
        Ok(found)
    }

    fn settle_transaction(&self, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, StoreError> {
        let is_in_doubt = self.writer().is_in_doubt();
        if is_in_doubt && let Some(seq) = self.find_transaction(org, id)? {
            return Ok(Some(seq));
        }
        self.readers.read(&self.reach, |connection| read::settle(connection, org, id))
    }

    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.ask(async |session| read::read_meta(session, key).await)
    }

    fn metas(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.ask(read::read_metas)
    }

    fn meta_init(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.ask(async |session| {
            read::write_meta(session, key, value, false).await?;
            read::read_meta(session, key).await?.ok_or(Failure::Store(StoreError::Contended))
        })
    }

    fn meta_put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.ask(async |session| read::write_meta(session, key, value, true).await)
    }

    fn health(&self) -> Result<(), StoreError> {
        let takes_writes = self.ask(async |session| {
            self.reach.check(session).await?;
            read::takes_writes(session).await
        })?;
        if takes_writes {
            return Ok(());
        }
        Err(StoreError::Unavailable { reason: "the server takes no writes".into() })
    }

    fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let facts = self.facts();
        self.readers.read(&self.reach, |connection| load::back_up(connection, to, &facts))
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.ask(read::size)
    }
}
