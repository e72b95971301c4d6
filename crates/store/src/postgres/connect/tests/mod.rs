//! Connections to real servers: every protection, every way to log in, and what is said when it fails.

mod login;
mod place;
mod protection;
mod secure;

use std::future::Future;
use std::time::Duration;

use tokio_postgres::SimpleQueryMessage;

use crate::postgres::connect::{ConnectFailure, Link, connect};
use crate::postgres::dsn::Dsn;
use crate::postgres::dsn::tests::Surroundings;

/// The longest that a statement may take.
const TIMEOUT: Duration = Duration::from_secs(7);

/// Runs a test's work on a runtime of its own.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// The connection string in surroundings that hold nothing.
pub(crate) fn dsn(text: &str) -> Dsn {
    Dsn::parse_with(text, &Surroundings::default()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// The values of one row, through a new connection.
fn values(dsn: &Dsn, sql: &str) -> Result<Vec<String>, ConnectFailure> {
    run(async {
        let mut link =
            connect(dsn, "writer", TIMEOUT).await.map_err(|mut error| error.attempts.pop().unwrap().failure)?;
        Ok(ask(&mut link, sql).await)
    })
}

async fn ask(link: &mut Link, sql: &str) -> Vec<String> {
    let messages = Link::drive(&mut link.messages, link.client.simple_query(sql)).await.unwrap();
    let rows: Vec<_> = messages
        .iter()
        .filter_map(|message| {
            let SimpleQueryMessage::Row(row) = message else { return None };
            Some(row)
        })
        .collect();
    (0..rows[0].len()).map(|i| rows[0].get(i).unwrap_or_default().to_owned()).collect()
}
