//! Where the state of a test's servers is kept.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dataglot_pgtest::{Cluster, Database};
use dataglot_store::{Dsn, MetaStore, PostgresOptions, RedbOptions, StoreError, open_memory, open_postgres, open_redb};

/// The kinds of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the backends are")]
pub enum Backend {
    Memory,
    Redb,
    Postgres,
}

impl Backend {
    /// Every backend: each gives the same bytes.
    pub const ALL: [Backend; 3] = [Backend::Memory, Backend::Redb, Backend::Postgres];
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Memory => "memory",
            Backend::Redb => "redb",
            Backend::Postgres => "postgres",
        })
    }
}

/// One place, new for each test.
pub(crate) enum Place {
    Memory(Arc<dyn MetaStore>),
    Redb(tempfile::TempDir),
    Postgres(Database),
}

impl Place {
    pub(crate) fn new(backend: Backend) -> std::io::Result<Place> {
        Ok(match backend {
            Backend::Memory => Place::Memory(open_memory().map_err(std::io::Error::other)?),
            Backend::Redb => Place::Redb(tempfile::tempdir()?),
            Backend::Postgres => Place::Postgres(Cluster::shared().database()),
        })
    }

    pub(crate) fn open(&self, node: &str) -> Result<Arc<dyn MetaStore>, StoreError> {
        match self {
            Place::Memory(store) => Ok(Arc::clone(store)),
            Place::Redb(directory) => open_redb(&directory.path().join("meta.redb"), RedbOptions::default()),
            Place::Postgres(database) => {
                let dsn = Dsn::parse(&database.dsn()).map_err(|error| StoreError::Postgres(Box::new(error.into())))?;
                let node = node.to_owned();
                // Nothing here may depend on being told by it.
                let poll_interval = Duration::from_secs(1);
                open_postgres(PostgresOptions { node, poll_interval, ..PostgresOptions::new(dsn) })
            }
        }
    }

    pub(crate) fn database(&self) -> Option<&Database> {
        match self {
            Place::Memory(_) | Place::Redb(_) => None,
            Place::Postgres(database) => Some(database),
        }
    }

    /// All that is stored, as bytes, for a search: whoever opened it has to have closed it.
    pub(crate) fn bytes(&self) -> std::io::Result<Vec<u8>> {
        match self {
            Place::Memory(_) => Ok(Vec::new()),
            Place::Redb(directory) => {
                let mut all = Vec::new();
                for entry in std::fs::read_dir(directory.path())? {
                    all.extend(std::fs::read(entry?.path())?);
                }
                Ok(all)
            }
            Place::Postgres(database) => Ok(dump(database)),
        }
    }
}

/// Every row of every table, as text, with what is `bytea` in it once more as the bytes that it is.
fn dump(database: &Database) -> Vec<u8> {
    let tables = database.query(
        "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'",
    );
    let mut all = Vec::new();
    for table in tables {
        for row in database.query(&format!("SELECT t::text FROM {table} t")) {
            all.extend(row.bytes());
            all.push(b'\n');
            for hexadecimal in row.split("\\x").skip(1) {
                all.extend(decoded(hexadecimal));
                all.push(b'\n');
            }
        }
    }
    all
}

/// The bytes that the hexadecimal digits at the beginning of `text` stand for.
fn decoded(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map_while(|c| c.to_digit(16)).filter_map(|d| u8::try_from(d).ok()).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_table_is_found() {
        let database = Cluster::shared().database();
        database.execute("CREATE SCHEMA s; CREATE TABLE s.t (a text, b bytea, c json)");
        database.execute("INSERT INTO s.t VALUES ('one', 'two', '{\"a\": \"three\"}'), ('x', NULL, NULL)");
        let all = dump(&database);
        for word in ["one", "two", "three"] {
            assert!(all.windows(word.len()).any(|w| w == word.as_bytes()), "{word} is not found");
        }
    }
}
