//! What every session is set to before it is used, whatever the role's and the database's defaults are.

use std::time::Duration;

use tokio_postgres::{Client, Error, SimpleQueryMessage};

/// What the server says about a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    /// It replays another server's log.
    pub(crate) standby: bool,
    /// Its transactions are read-only by default.
    pub(crate) read_only: bool,
}

/// Which role it plays; qualified, since nothing has been fixed yet.
const ROLE: &str = "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only')";

/// Bounds of what a session waits for, in milliseconds.
struct Bounds {
    lock: u32,
    idle_in_transaction: u32,
}

impl Bounds {
    /// Reading a whole store and moving it to a new schema take their time; a commit must not.
    fn of(purpose: &str) -> Bounds {
        match purpose {
            "migrate" => Bounds { lock: 10_000, idle_in_transaction: 60_000 },
            "reader" => Bounds { lock: 5_000, idle_in_transaction: 30_000 },
            _ => Bounds { lock: 5_000, idle_in_transaction: 10_000 },
        }
    }
}

/// Fixes the session and tells its role, in one round trip. `statement`: the longest that one may take.
pub(super) async fn set_up(client: &Client, purpose: &str, statement: Duration) -> Result<Role, Error> {
    let bounds = Bounds::of(purpose);
    // search_path comes first, so that nothing after it can mean another schema's function or operator.
    // What older servers do not have is set through pg_settings. A warning during a commit is listened to.
    let text = format!(
        "SET search_path = dataglot, pg_temp;
         SET statement_timeout = {statement};
         SET lock_timeout = {lock};
         SET idle_in_transaction_session_timeout = {idle};
         SET client_min_messages = warning;
         SET default_transaction_isolation = 'read committed';
         SET standard_conforming_strings = on;
         SET bytea_output = 'hex';
         SET DateStyle = 'ISO, YMD';
         SET IntervalStyle = 'postgres';
         SET TimeZone = 'UTC';
         SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('idle_session_timeout', 'transaction_timeout');
         SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply');
         {ROLE}",
        statement = statement.as_millis(),
        lock = bounds.lock,
        idle = bounds.idle_in_transaction,
    );
    role_in(&client.simple_query(&text).await?)
}

/// Tells the role and changes nothing.
pub(super) async fn look(client: &Client) -> Result<Role, Error> {
    role_in(&client.simple_query(ROLE).await?)
}

fn role_in(messages: &[SimpleQueryMessage]) -> Result<Role, Error> {
    let last = messages.iter().rev().find_map(|message| {
        let SimpleQueryMessage::Row(row) = message else { return None };
        Some(row)
    });
    let mut role = Role { standby: false, read_only: false };
    if let Some(row) = last {
        role.standby = row.try_get(0)? == Some("t");
        role.read_only = row.try_get(1)? == Some("on");
    }
    Ok(role)
}
