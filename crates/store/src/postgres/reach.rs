//! Whether the server can be reached, and as whose store. What one connection finds out spares the
//! others: while the server is known to be down, nobody waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::PostgresError;
use super::connection::{Connection, Failure, Session, Settings, silent};
use crate::StoreError;

/// How long the word of a thread that follows the server is taken for it: longer than any of its tries to
/// connect, so that nobody tries beside it.
const FOLLOWED: Duration = Duration::from_secs(30);

/// How to open connections, and how the last try went.
pub(super) struct Reach {
    pub(super) settings: Settings,
    pub(super) location: String,
    pub(super) store_id: [u8; 16],
    pub(super) poll_interval: Duration,
    down: Mutex<Option<Down>>,
    /// A thread tries again and again while the server is down.
    followed: AtomicBool,
}

/// The server could not be reached.
struct Down {
    since: Instant,
    error: StoreError,
    /// It does not answer on connections that are there either.
    silent: bool,
}

impl Reach {
    pub(super) fn new(settings: Settings, store_id: [u8; 16], poll_interval: Duration) -> Self {
        let location = settings.dsn.location();
        Reach { settings, location, store_id, poll_interval, down: Mutex::new(None), followed: AtomicBool::new(false) }
    }

    /// Opens a connection, unless the server has been seen down just now.
    pub(super) fn open(&self, purpose: &'static str) -> Result<Connection, StoreError> {
        if let Some(down) = &*self.down()
            && self.is_trusted(down)
        {
            return Err(down.error.clone());
        }
        self.try_to_open(purpose)
    }

    /// Whether the server is known not to answer on connections that are there. Who would use one waits in vain.
    pub(super) fn is_silent(&self) -> bool {
        self.down().as_ref().is_some_and(|down| down.silent && self.is_trusted(down))
    }

    fn is_trusted(&self, down: &Down) -> bool {
        let trusted = if self.followed.load(Ordering::Acquire) { FOLLOWED } else { self.poll_interval };
        down.since.elapsed() < trusted
    }

    /// The server did not answer what it answers at once.
    pub(super) fn fell_silent(&self) {
        *self.down() = Some(Down { since: Instant::now(), error: silent(), silent: true });
    }

    /// Opens a connection, whatever is known of the server.
    pub(super) fn try_to_open(&self, purpose: &'static str) -> Result<Connection, StoreError> {
        let opened = Connection::open(&self.settings, purpose).and_then(|mut connection| {
            connection.run(async |session| self.check(session).await)?;
            Ok(connection)
        });
        self.note(opened)
    }

    /// Whether this is the store that was opened first: a name may lead elsewhere by now.
    pub(super) async fn check(&self, session: &Session) -> Result<(), Failure> {
        if store_id(session).await? == Some(self.store_id) {
            return Ok(());
        }
        let error = PostgresError::AnotherStore { location: self.location.clone() };
        Err(Failure::Store(StoreError::Postgres(Box::new(error))))
    }

    /// Remembers how a try to connect went.
    pub(super) fn note<T>(&self, tried: Result<T, Failure>) -> Result<T, StoreError> {
        let mut down = self.down();
        match tried {
            Ok(value) => {
                *down = None;
                Ok(value)
            }
            Err(failure) => {
                let error = failure.into_unavailable("open");
                let silent = down.as_ref().is_some_and(|before| before.silent);
                *down = Some(Down { since: Instant::now(), error: error.clone(), silent });
                Err(error)
            }
        }
    }

    /// Whether there is somebody who notices when the server is back.
    pub(super) fn set_followed(&self, followed: bool) {
        self.followed.store(followed, Ordering::Release);
    }

    /// The server has answered.
    pub(super) fn is_up(&self) {
        *self.down() = None;
    }

    fn down(&self) -> MutexGuard<'_, Option<Down>> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The id of the store, if the database is one.
pub(super) async fn store_id(session: &Session) -> Result<Option<[u8; 16]>, Failure> {
    let row = session.client.query_typed_opt("SELECT value FROM meta WHERE key = 'store_id'", &[]).await?;
    let Some(row) = row else { return Ok(None) };
    let value: &[u8] = row.try_get(0)?;
    Ok(value.try_into().ok())
}
