//! One connection to the server. It runs on whatever thread uses it: it has a runtime of its own, which
//! stands still while nobody waits for an answer, so an idle connection costs no thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep_until};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Notification, Statement};

use super::PostgresError;
use super::connect::{Link, MessageStream, connect};
use super::dsn::Dsn;
use super::migrate::{self, ensure};
use super::probe::{Finding, probe};
use crate::{StoreError, Table};

/// How much longer than the server we wait for an answer: it is the server that says that a statement
/// took too long, unless nothing is heard from it at all.
const GRACE: Duration = Duration::from_secs(2);
/// Prepared statements that are kept; there are far fewer kinds of groups than that.
const STATEMENTS_MAX: usize = 200;

/// Why something could not be done on a connection.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server refused a statement, and goes on.
    Refused(Refused),
    /// The connection is gone.
    Lost(Arc<str>),
    /// Nothing was heard from the server for too long.
    Silent,
    /// It was committed, and the server warned that it may be nowhere else.
    Warned,
    /// It was given up on this side.
    Store(StoreError),
}

/// A statement that the server refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) code: SqlState,
    /// The constraint or the like, for the log.
    message: String,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Store(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(refused) if !is_fatal(refused.parsed_severity()) => {
                Failure::Refused(Refused { code: refused.code().clone(), message: refused.message().to_owned() })
            }
            // The server says why, and hangs up.
            Some(fatal) => Failure::Lost(reason_of_server(fatal.code())),
            None if error.is_closed() => Failure::Lost("the server closed the connection".into()),
            None => {
                use std::error::Error as _;
                let io = error.source().and_then(|e| e.downcast_ref::<std::io::Error>());
                match io {
                    Some(io) => Failure::Lost(io.kind().to_string().into()),
                    None => {
                        tracing::error!(%error, "meta store: the driver failed");
                        Failure::Lost("the server sent what makes no sense".into())
                    }
                }
            }
        }
    }
}

fn is_fatal(severity: Option<Severity>) -> bool {
    matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

/// The server's words may hold what it was sent: only its code is shown.
fn reason_of_server(code: &SqlState) -> Arc<str> {
    let known = [
        (SqlState::ADMIN_SHUTDOWN, "the server closed the connection by an administrator's command"),
        (SqlState::CRASH_SHUTDOWN, "the server restarts after a crash"),
        (SqlState::CANNOT_CONNECT_NOW, "the server is starting up or shutting down"),
        (SqlState::TOO_MANY_CONNECTIONS, "the server has no connection left"),
    ];
    let words = known.iter().find(|(known, _)| known == code).map(|(_, words)| *words);
    words.map_or_else(|| format!("the server closed the connection with SQLSTATE {}", code.code()).into(), Arc::from)
}

impl Failure {
    /// The same, where the connection is what was wanted.
    pub(super) fn into_unavailable(self, doing: &'static str) -> StoreError {
        let error = self.into_store_error(doing);
        if error != StoreError::ConnectionLost {
            return error;
        }
        StoreError::Unavailable { reason: "the server closed the connection".into() }
    }

    /// What it means for a caller who wanted to read, or to write what surely was not written.
    pub(super) fn into_store_error(self, doing: &'static str) -> StoreError {
        match self {
            Failure::Store(error) => error,
            Failure::Lost(reason) => {
                tracing::warn!(doing, %reason, "meta store: the connection was lost");
                StoreError::ConnectionLost
            }
            Failure::Silent => silent(),
            Failure::Warned => {
                let reason = "the server did not wait for the standby that a commit has to reach".into();
                StoreError::Unavailable { reason }
            }
            Failure::Refused(Refused { code, message }) => {
                tracing::error!(doing, sqlstate = code.code(), message, "meta store: the server refused a statement");
                if code == SqlState::DISK_FULL {
                    return StoreError::DiskFull;
                }
                if code == SqlState::QUERY_CANCELED || code == SqlState::LOCK_NOT_AVAILABLE {
                    return StoreError::Unavailable { reason: "the server took too long".into() };
                }
                if code == SqlState::READ_ONLY_SQL_TRANSACTION {
                    return StoreError::Unavailable { reason: "the server takes no writes".into() };
                }
                StoreError::Io { doing, reason: Some(format!("SQLSTATE {}", code.code()).into()) }
            }
        }
    }
}

/// The error where the server does not answer.
pub(super) fn silent() -> StoreError {
    StoreError::Unavailable { reason: "the server did not answer in time".into() }
}

/// What every connection of a store is made from.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) dsn: Dsn,
    pub(super) statement_timeout: Duration,
}

/// A statement that is prepared once a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Prepared {
    Heads,
    HeadsOf,
    Head,
    ChangesAfter,
    FindTransaction,
    Fence,
    Tell,
    Moved,
    MetaGet,
    Metas,
    /// Rows by their keys.
    Touched(Table),
    /// Deletes rows by their keys.
    Delete(Table),
    /// Writes rows.
    Put(Table),
    /// Writes a group that touches one org: which tables lose rows, get rows, get new rows.
    Commit {
        gone: u16,
        put: u16,
        new: u16,
    },
}

/// A connection that is being used.
pub(super) struct Session {
    pub(super) client: Client,
    statements: RefCell<BTreeMap<Prepared, Statement>>,
    /// Until when something has to be heard from the server.
    deadline: Cell<Instant>,
    patience: Duration,
}

impl Session {
    /// The statement, prepared if this connection has not done so before.
    pub(super) async fn prepare(
        &self,
        which: Prepared,
        types: &[Type],
        sql: impl FnOnce() -> String,
    ) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.statements.borrow().get(&which) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare_typed(&sql(), types).await?;
        let mut statements = self.statements.borrow_mut();
        if statements.len() >= STATEMENTS_MAX {
            statements.clear();
        }
        statements.insert(which, statement.clone());
        Ok(statement)
    }

    /// How long nothing may be heard from the server.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Something was heard from the server.
    pub(super) fn heard(&self) {
        self.deadline.set(Instant::now() + self.patience);
    }

    /// The server was given a statement that it may take `limit` for.
    pub(super) fn asked_much(&self, limit: Duration) {
        self.deadline.set(Instant::now() + limit + GRACE);
    }
}

/// What carries a session's statements.
pub(super) struct Driver {
    /// `None`: the connection has ended.
    messages: Option<MessageStream>,
    /// What came in unasked: notifications, if the session listens.
    pub(super) notifications: Vec<Notification>,
    /// The server has warned of something since this was taken back.
    warned: bool,
}

/// A connection.
pub(super) struct Connection {
    /// There until it is dropped.
    runtime: Option<Runtime>,
    session: Session,
    driver: Driver,
}

/// A runtime for one connection.
pub(super) fn runtime() -> Result<Runtime, StoreError> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build();
    runtime.map_err(|e| StoreError::io("start a runtime for", &e))
}

/// Connects, and sets up the session.
/// `patience`: how long nothing may be heard from the server.
pub(super) async fn open_session(
    settings: &Settings,
    purpose: &'static str,
    patience: Duration,
) -> Result<(Session, Driver), Failure> {
    let link = connect(&settings.dsn, purpose, settings.statement_timeout).await;
    let Link { client, messages, role, target, .. } = link.map_err(|error| {
        tracing::debug!(purpose, %error, "meta store: cannot connect");
        Failure::Store(StoreError::Unavailable { reason: error.to_string().into() })
    })?;
    if role.standby || role.read_only {
        // What it has may be older than what was seen already, whatever `target_session_attrs` admits.
        let error = PostgresError::Replica { location: settings.dsn.only(target).location() };
        return Err(Failure::Store(StoreError::Unavailable { reason: error.to_string().into() }));
    }
    let deadline = Cell::new(Instant::now() + patience);
    let session = Session { client, statements: RefCell::default(), deadline, patience };
    let mut driver = Driver { messages: Some(messages), notifications: Vec::new(), warned: false };
    driver.drive(&session, async { Ok(session.client.batch_execute(PLANNING).await?) }).await?;
    Ok((session, driver))
}

/// Looks at the server before it is used as a store: what it is, and whether the schema is as it has to be.
pub(super) fn ensure_schema(dsn: &Dsn, store_id: Option<[u8; 16]>) -> Result<(), StoreError> {
    let runtime = runtime()?;
    let looked = runtime.block_on(async {
        for Finding { what, hint } in probe(dsn).await? {
            tracing::warn!(
                location = dsn.location(),
                finding = what,
                hint,
                "meta store: the server weakens its promises"
            );
        }
        let Link { mut client, mut messages, .. } =
            connect(dsn, "migrate", migrate::STATEMENT_TIMEOUT).await.map_err(PostgresError::from)?;
        let mut ensured = pin!(ensure(&mut client, store_id));
        poll_fn(|cx| {
            if let Poll::Ready(done) = ensured.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            while let Poll::Ready(Some(Ok(_))) = messages.as_mut().poll_next(cx) {}
            Poll::Pending
        })
        .await
        .map_err(PostgresError::from)
    });
    runtime.shutdown_background();
    looked.map_err(|error| StoreError::Postgres(Box::new(error)))
}

/// Statements are planned once, when a store may still be empty: what is right for a few rows must not be
/// what is done with a million. Every statement finds its rows by an index.
const PLANNING: &str = "SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off; \
                        SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off";

impl Driver {
    /// Runs `work` while the connection is driven, for as long as the server is heard from.
    pub(super) async fn drive<T>(
        &mut self,
        session: &Session,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut work = pin!(work);
        session.heard();
        let mut alarm = pin!(sleep_until(session.deadline.get()));
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            // An answer wakes this task: `work` is polled again then.
            self.poll(cx);
            while alarm.as_mut().poll(cx).is_ready() {
                if Instant::now() >= session.deadline.get() {
                    return Poll::Ready(Err(Failure::Silent));
                }
                alarm.as_mut().reset(session.deadline.get());
            }
            Poll::Pending
        })
        .await
    }

    /// Sends what waits and takes what has come. Who waits for an answer when the connection ends is told.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        while let Some(stream) = &mut self.messages {
            match stream.as_mut().poll_next(cx) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(AsyncMessage::Notification(notification)))) => {
                    self.notifications.push(notification);
                }
                Poll::Ready(Some(Ok(AsyncMessage::Notice(notice)))) => {
                    if notice.parsed_severity() == Some(Severity::Warning) {
                        tracing::warn!(sqlstate = notice.code().code(), "meta store: the server warns");
                        self.warned = true;
                    }
                }
                // There is no other kind.
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => {
                    tracing::debug!(%error, "meta store: a connection ended");
                    self.messages = None;
                }
                Poll::Ready(None) => self.messages = None,
            }
        }
    }

    async fn take_what_is_there(&mut self) {
        poll_fn(|cx| {
            self.poll(cx);
            Poll::Ready(())
        })
        .await;
    }

    /// Whether the connection has ended.
    pub(super) fn is_over(&self) -> bool {
        self.messages.is_none()
    }
}

impl Connection {
    /// Connects.
    pub(super) fn open(settings: &Settings, purpose: &'static str) -> Result<Self, Failure> {
        let runtime = runtime()?;
        let opened = runtime.block_on(open_session(settings, purpose, settings.statement_timeout + GRACE));
        match opened {
            Ok((session, driver)) => Ok(Connection { runtime: Some(runtime), session, driver }),
            Err(failure) => {
                runtime.shutdown_background();
                Err(failure)
            }
        }
    }

    /// Runs `work` on it. After an error it may be in the middle of a transaction.
    pub(super) fn run<T>(&mut self, work: impl AsyncFnOnce(&Session) -> Result<T, Failure>) -> Result<T, Failure> {
        let Connection { runtime: Some(runtime), session, driver } = self else {
            return Err(Failure::Store(StoreError::Internal));
        };
        let session = &*session;
        runtime.block_on(driver.drive(session, work(session)))
    }

    /// The same for what ends with a commit. A server that is told not to wait for a standby any longer says that
    /// all went well, and warns.
    pub(super) fn run_to_commit<T>(
        &mut self,
        work: impl AsyncFnOnce(&Session) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.driver.warned = false;
        let done = self.run(work)?;
        if self.driver.warned { Err(Failure::Warned) } else { Ok(done) }
    }

    /// Whether the server has hung up meanwhile, as far as is known here.
    pub(super) fn is_closed(&mut self) -> bool {
        let Connection { runtime: Some(runtime), driver, .. } = self else { return true };
        runtime.block_on(async {
            driver.take_what_is_there().await;
            // Lets the runtime ask the operating system what has come in.
            tokio::task::yield_now().await;
            driver.take_what_is_there().await;
        });
        self.driver.is_over()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Whoever drops a store may do so on a thread of another runtime, where nothing may block.
            runtime.shutdown_background();
        }
    }
}
