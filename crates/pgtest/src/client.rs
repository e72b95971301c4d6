//! Statements from a test, blocking, each over a connection of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_postgres::{Config, NoTls, SimpleQueryMessage};

use crate::process::PATIENCE;

/// What these connections are known by, so that they are not taken for the test's.
pub(crate) const APPLICATION: &str = "pgtest";

/// Where a server listens.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub sockets: String,
    pub port: u16,
    /// Whether somebody answers there: not while the server is stopped or paused.
    pub answers: Arc<AtomicBool>,
}

impl Address {
    fn config(&self, user: &str, database: &str) -> Config {
        let mut config = Config::new();
        config.host_path(&self.sockets).port(self.port).user(user).dbname(database).application_name(APPLICATION);
        config
    }

    pub(crate) fn set_answers(&self, answers: bool) {
        self.answers.store(answers, Ordering::Relaxed);
    }

    pub(crate) fn answers(&self) -> bool {
        self.answers.load(Ordering::Relaxed)
    }

    /// Runs `sql` as the superuser; the first column of each row of each result.
    pub(crate) fn run(&self, database: &str, sql: &str) -> Result<Vec<Option<String>>, String> {
        self.run_as("postgres", database, &[sql])
    }

    /// The same for several messages in turn, each of which is a transaction, up to the first that fails.
    pub(crate) fn run_as(&self, user: &str, database: &str, sql: &[&str]) -> Result<Vec<Option<String>>, String> {
        let config = self.config(user, database);
        // A thread of its own, since a test may call from inside a runtime, where none can be driven.
        std::thread::scope(|scope| scope.spawn(|| drive(&config, sql)).join()).unwrap_or_else(|panic| {
            std::panic::resume_unwind(panic);
        })
    }
}

fn drive(config: &Config, sql: &[&str]) -> Result<Vec<Option<String>>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let work = async {
        let (client, connection) = config.connect(NoTls).await.map_err(|e| described(&e))?;
        let driver = tokio::spawn(connection);
        let mut out = Ok(Vec::new());
        for message in sql {
            out = client.simple_query(message).await.map_err(|e| described(&e));
            if out.is_err() {
                break;
            }
        }
        drop(client);
        let _ = driver.await;
        let mut rows = Vec::new();
        for message in out? {
            if let SimpleQueryMessage::Row(row) = message {
                rows.push(row.try_get(0).map_err(|e| described(&e))?.map(str::to_owned));
            }
        }
        Ok(rows)
    };
    let late = || format!("no answer within {PATIENCE:?}");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await.map_err(|_| late())? })
}

fn described(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{}: {}", db.code().code(), db.message()),
        None => {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            text
        }
    }
}

/// `text` as a literal of SQL.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
