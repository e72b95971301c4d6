//! What is looked at before a database is used as a store: whether it can be one, and which of its
//! settings weaken what is promised.
//!
//! Sessions are used as they come and left as they were: behind a proxy that shares them, whatever is set
//! would meet others.

mod pooler;
mod settings;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio_postgres::{Error, SimpleQueryMessage};

use super::PostgresError;
use super::connect::{Attempt, ConnectError, ConnectFailure, Link, connect_bare};
use super::dsn::{Dsn, SslMode, Target};

/// How long one answer may take. Nothing that is asked here takes any time, unless it has to wait.
const ANSWER: Duration = Duration::from_secs(10);

/// Something about the server that is worth a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is and what it may lead to: a clause.
    pub what: String,
    /// What to do about it, as a sentence.
    pub hint: String,
}

/// Looks at the database. Err: it is not to be used. Ok: what is to be warned about.
pub(crate) async fn probe(dsn: &Dsn) -> Result<Vec<Finding>, PostgresError> {
    let mut link = connect_bare(dsn).await.map_err(|error| match error.only_replicas() {
        true => PostgresError::Replica { location: dsn.location() },
        false => PostgresError::Connect(error),
    })?;
    // All further sessions have to be on the server that this one is on.
    let here = dsn.only(link.target.clone());
    let location = here.location();
    if link.role.standby || link.role.read_only {
        return Err(PostgresError::Replica { location });
    }
    let facts = settings::read(&mut link).await?;
    facts.check(&location)?;
    if let Some(sign) = pooler::sign(&here, &mut link).await? {
        return Err(PostgresError::Pooler { location, sign });
    }
    Ok(unchecked_server(dsn).into_iter().chain(facts.findings(dsn.targets.len())).collect())
}

/// That a server elsewhere is believed without its certificate having been checked in full.
fn unchecked_server(dsn: &Dsn) -> Option<Finding> {
    let unchecked = |target: &&Target| !target.is_loopback() && dsn.mode_for(target) < SslMode::VerifyFull;
    let target = dsn.targets.iter().find(unchecked)?;
    Some(Finding {
        what: format!("sslmode is weaker than verify-full: whoever answers in place of {target} is believed"),
        hint: "Use sslmode=verify-full, with sslrootcert where the authority is one of your own.".to_owned(),
    })
}

/// Runs statements and gives the last row's columns as texts.
async fn ask(link: &mut Link, sql: &str) -> Result<Vec<Option<String>>, PostgresError> {
    let work = async {
        let messages = link.client.simple_query(sql).await?;
        let row = messages.iter().rev().find_map(|message| {
            let SimpleQueryMessage::Row(row) = message else { return None };
            Some(row)
        });
        let Some(row) = row else { return Ok(Vec::new()) };
        (0..row.len()).map(|i| row.try_get(i).map(|text| text.map(str::to_owned))).collect::<Result<Vec<_>, Error>>()
    };
    let failure = match tokio::time::timeout(ANSWER, Link::drive(&mut link.messages, work)).await {
        Ok(Ok(row)) => return Ok(row),
        Ok(Err(error)) => ConnectFailure::from_driver(&error),
        Err(_) => ConnectFailure::Timeout,
    };
    Err(ConnectError { attempts: vec![Attempt { server: link.location.clone(), failure }] }.into())
}
