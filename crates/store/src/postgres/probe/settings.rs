//! The server's version and settings, and what to say about them.

use super::{Finding, ask};
use crate::PostgresError;
use crate::postgres::connect::Link;

/// The oldest major version that is supported.
const OLDEST: u32 = 14;

/// What the server says about itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) version_number: u32,
    pub(super) version: String,
    pub(super) encoding: String,
    pub(super) superuser: bool,
    pub(super) fsync: bool,
    pub(super) full_page_writes: bool,
    /// As our sessions have it: raised where it was too low.
    pub(super) synchronous_commit: String,
    pub(super) synchronous_standby_names: String,
    pub(super) standbys: u64,
}

/// `synchronous_commit` is raised for the transaction of this one message only.
const FACTS: &str = "\
    SELECT pg_catalog.set_config('synchronous_commit', 'on', true) \
      WHERE NOT pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'remote_apply'; \
    SELECT pg_catalog.current_setting('server_version_num'), pg_catalog.current_setting('server_version'), \
      pg_catalog.current_setting('server_encoding'), pg_catalog.current_setting('is_superuser'), \
      pg_catalog.current_setting('fsync'), pg_catalog.current_setting('full_page_writes'), \
      pg_catalog.current_setting('synchronous_commit'), pg_catalog.current_setting('synchronous_standby_names'), \
      (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_replication)";

/// Asks the server.
pub(super) async fn read(link: &mut Link) -> Result<Facts, PostgresError> {
    let mut row = ask(link, FACTS).await?.into_iter().map(Option::unwrap_or_default);
    let mut next = || row.next().unwrap_or_default();
    Ok(Facts {
        version_number: next().parse().unwrap_or_default(),
        version: next(),
        encoding: next(),
        superuser: next() == "on",
        fsync: next() == "on",
        full_page_writes: next() == "on",
        synchronous_commit: next(),
        synchronous_standby_names: next(),
        standbys: next().parse().unwrap_or_default(),
    })
}

impl Facts {
    /// Whether it can be a store at all.
    pub(super) fn check(&self, location: &str) -> Result<(), PostgresError> {
        let location = location.to_owned();
        if self.version_number / 10_000 < OLDEST {
            return Err(PostgresError::TooOld { location, version: self.version.clone(), oldest: OLDEST });
        }
        if self.encoding != "UTF8" {
            return Err(PostgresError::Encoding { location, encoding: self.encoding.clone() });
        }
        Ok(())
    }

    /// What weakens the promise that an acknowledged change stays. `servers` is how many the connection
    /// string names: more than one says that a failover is to be expected.
    pub(super) fn findings(&self, servers: usize) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut say = |what: String, hint: &str| findings.push(Finding { what, hint: hint.to_owned() });
        if !self.fsync {
            say(
                "fsync is off: a crash of the server's machine may lose acknowledged changes or damage the store"
                    .to_owned(),
                "Set fsync = on in the server's postgresql.conf.",
            );
        }
        if !self.full_page_writes {
            say(
                "full_page_writes is off: a crash of the server's machine may damage the store".to_owned(),
                "Set full_page_writes = on in the server's postgresql.conf, unless its disk writes pages whole.",
            );
        }
        if !matches!(self.synchronous_commit.as_str(), "on" | "remote_apply") {
            say(
                format!(
                    "synchronous_commit is {} and cannot be raised: a crash may lose acknowledged changes",
                    self.synchronous_commit
                ),
                "Set synchronous_commit = on for the role or the database.",
            );
        }
        match (self.synchronous_standby_names.is_empty(), self.standbys) {
            (true, 0) if servers < 2 => {}
            (true, _) => say(
                "no standby is synchronous: a failover may lose acknowledged changes".to_owned(),
                "Name the standbys in synchronous_standby_names. A shorter history is noticed, and stops all writes.",
            ),
            (false, 0) => say(
                "synchronous_standby_names is set and no standby is connected: commits wait until one is".to_owned(),
                "Start the standby, or take its name out of synchronous_standby_names.",
            ),
            (false, _) => {}
        }
        if self.superuser {
            say(
                "the role is a superuser: whoever gets its password gets the whole server".to_owned(),
                "Use a role of its own that owns the store's schema and nothing else.",
            );
        }
        findings
    }
}
