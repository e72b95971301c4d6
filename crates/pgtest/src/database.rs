//! A database of a test's own.

use crate::client::{APPLICATION, Address, literal};

/// A fresh, empty database, owned by a fresh role that may log in and nothing else. Dropping this
/// drops both, whoever is connected.
///
/// Statements given here run as the superuser, so that a test can damage what it likes.
#[derive(Debug)]
pub struct Database {
    address: Address,
    name: String,
    password: String,
}

impl Database {
    pub(crate) fn create(address: Address, name: String) -> Database {
        let mut bytes = [0_u8; 12];
        getrandom::fill(&mut bytes).expect("the system gives random bytes");
        let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let made = Database { address, name, password };
        let (name, password) = (&made.name, &made.password);
        let role =
            format!("CREATE ROLE {name} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION PASSWORD '{password}'");
        // template0: nobody is ever connected to it, so the copy never waits.
        let database = format!("CREATE DATABASE {name} OWNER {name} TEMPLATE template0");
        if let Err(error) = made.address.run_as("postgres", "postgres", &[&role, &database]) {
            panic!("{error}");
        }
        made
    }

    /// The owner's connection string over the Unix socket, as keywords and values.
    #[must_use]
    pub fn dsn(&self) -> String {
        format!("host={} {}", self.address.sockets, self.rest(&self.name, &self.password))
    }

    /// The owner's connection string over TCP.
    #[must_use]
    pub fn tcp_dsn(&self) -> String {
        format!("host=127.0.0.1 {}", self.rest(&self.name, &self.password))
    }

    /// The superuser's connection string to this database, over the Unix socket.
    #[must_use]
    pub fn superuser_dsn(&self) -> String {
        format!("host={} port={} user=postgres dbname={}", self.address.sockets, self.address.port, self.name)
    }

    fn rest(&self, user: &str, password: &str) -> String {
        format!("port={} user={user} password={password} dbname={}", self.address.port, self.name)
    }

    /// The name, which is the owner's name too.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The owner's password. Servers that trust everyone do not ask for it.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Runs statements as the superuser.
    ///
    /// # Panics
    /// One failed.
    pub fn execute(&self, sql: &str) {
        drop(self.query(sql));
    }

    /// Runs statements as the superuser, for a test in which they may fail: `SQLSTATE: message`.
    ///
    /// # Errors
    /// One failed.
    pub fn try_execute(&self, sql: &str) -> Result<(), String> {
        self.address.run(&self.name, sql).map(drop)
    }

    /// As [`Database::try_execute`], as the owner.
    ///
    /// # Errors
    /// One failed.
    pub fn try_execute_as_owner(&self, sql: &str) -> Result<(), String> {
        self.address.run_as(&self.name, &self.name, &[sql]).map(drop)
    }

    /// The first column of each row, as text; NULL is the empty text.
    ///
    /// # Panics
    /// The statement failed.
    #[must_use]
    pub fn query(&self, sql: &str) -> Vec<String> {
        match self.address.run(&self.name, sql) {
            Ok(rows) => rows.into_iter().map(Option::unwrap_or_default).collect(),
            Err(error) => panic!("{error}"),
        }
    }

    /// The one value that `sql` gives, as text; NULL is the empty text.
    ///
    /// # Panics
    /// The statement failed, or gave another number of rows than one.
    #[must_use]
    pub fn query_one(&self, sql: &str) -> String {
        let mut rows = self.query(sql);
        assert_eq!(rows.len(), 1, "one row is wanted");
        rows.remove(0)
    }

    /// How many connections there are to this database.
    #[must_use]
    pub fn connections(&self) -> usize {
        let count = self.others("count(*)");
        count.parse().expect("a count is a number")
    }

    /// Cuts every connection to this database, as an administrator or a dying server does, and waits until
    /// their processes are gone; how many.
    pub fn terminate_connections(&self) -> usize {
        let count = self.others("count(*) FILTER (WHERE pg_terminate_backend(pid, 10000))");
        count.parse().expect("a count is a number")
    }

    /// Of every connection to this database but those of this crate, which end a little after their answer.
    fn others(&self, what: &str) -> String {
        self.query_one(&format!(
            "SELECT {what} FROM pg_stat_activity WHERE datname = {} AND application_name <> {}",
            literal(&self.name),
            literal(APPLICATION)
        ))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // They end with their cluster in any case; a server that does not answer is not waited for.
        if !self.address.answers() {
            return;
        }
        let database = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let role = format!("DROP ROLE IF EXISTS {}", self.name);
        let _ = self.address.run_as("postgres", "postgres", &[&database, &role]);
    }
}
