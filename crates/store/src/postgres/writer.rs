//! The one connection that commits use.
//!
//! It holds a session lock whose key is this store handle's own. A transaction whose answer was lost may
//! still be at work in its old session; whoever opens the next connection takes the lock first, ending
//! the old session if it has to. After that the transaction is there or never will be.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dataglot_model::OrgName;
use tokio_postgres::types::Type;

use super::connection::{Connection, Failure, Session};
use super::reach::Reach;
use crate::StoreError;

/// How long to wait before asking for the lock again.
const AGAIN: Duration = Duration::from_millis(10);

/// The connection, and what is known of the last commit.
pub(super) struct Writer {
    connection: Option<Connection>,
    /// A random number of this handle.
    lock: i64,
    /// A commit was sent, and what became of it is not known yet.
    in_doubt: bool,
    /// Nobody has tried to find that out.
    fresh: bool,
    /// The connection is in a transaction that has locked the head of an org.
    turn: bool,
    fences: Fences,
}

/// Where the writer has seen the fence of each org that it writes to. It looks again only when a commit came
/// to nothing, and then all that was in that commit gets other ids: so no id that was ever sent with an older
/// fence is sent with a newer one.
pub(super) type Fences = BTreeMap<OrgName, i64>;

impl Writer {
    pub(super) fn new() -> Result<Self, StoreError> {
        let mut lock = [0; 8];
        getrandom::fill(&mut lock).map_err(|error| {
            tracing::error!(%error, "no random number for a lock");
            StoreError::Internal
        })?;
        Ok(Writer {
            connection: None,
            lock: i64::from_ne_bytes(lock),
            in_doubt: false,
            fresh: false,
            turn: false,
            fences: Fences::new(),
        })
    }

    /// The connection, opened if there is none, or if the server has hung up or does not answer. It is given back with
    /// [`Writer::keep`], or closed.
    pub(super) fn take(&mut self, reach: &Reach) -> Result<Connection, StoreError> {
        if let Some(mut connection) = self.connection.take()
            && !reach.is_silent()
            && !connection.is_closed()
        {
            return Ok(connection);
        }
        self.turn = false;
        // The first try after a lost answer is worth a wait: it tells a client what became of his transaction.
        let opened = if std::mem::take(&mut self.fresh) { reach.try_to_open("writer") } else { reach.open("writer") };
        let mut connection = opened?;
        connection.run(async |session| fence(session, self.lock).await).map_err(|f| f.into_store_error("write"))?;
        Ok(connection)
    }

    /// What is known of the fences of orgs.
    pub(super) fn fences(&mut self) -> &mut Fences {
        &mut self.fences
    }

    /// The connection that is given back is in a transaction that has the lock.
    pub(super) fn begun(&mut self) {
        self.turn = true;
    }

    /// Whether the connection that was taken is in a transaction. It is up to the caller from now on.
    pub(super) fn take_turn(&mut self) -> bool {
        std::mem::take(&mut self.turn)
    }

    /// The connection, if it is in a transaction. Closing it ends that too.
    pub(super) fn held(&mut self) -> Option<Connection> {
        if self.take_turn() { self.connection.take() } else { None }
    }

    pub(super) fn keep(&mut self, connection: Connection) {
        self.connection = Some(connection);
    }

    /// The answer to a commit was lost with its connection.
    pub(super) fn lost(&mut self) {
        self.in_doubt = true;
        self.fresh = true;
    }

    /// Whether the fate of a commit of this handle is open: it may yet be done, or be done here and not on
    /// the standby that it has to reach.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// What was committed before is as durable as a commit can be.
    pub(super) fn settled(&mut self) {
        self.in_doubt = false;
    }
}

/// Takes the lock for as long as the session lasts.
async fn fence(session: &Session, lock: i64) -> Result<(), Failure> {
    let started = Instant::now();
    while started.elapsed() < session.patience() {
        let sql = "SELECT pg_try_advisory_lock($1)";
        if session.client.query_typed_one(sql, &[(&lock, Type::INT8)]).await?.try_get(0)? {
            return Ok(());
        }
        // A lock of one big number is shown as two halves.
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_locks \
                   WHERE locktype = 'advisory' AND objsubid = 1 AND granted \
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                     AND (classid::int8 << 32 | objid::int8) = $1";
        session.client.query_typed(sql, &[(&lock, Type::INT8)]).await?;
        session.heard();
        tokio::time::sleep(AGAIN).await;
    }
    let reason = "an earlier session of this process does not end".into();
    Err(Failure::Store(StoreError::Unavailable { reason }))
}
