//! The schema of a store in PostgreSQL is made once, whole or not at all, by whoever may; what is not as
//! this version would have made it is refused and left alone.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::sync::Mutex;
use std::time::{Duration, Instant};

use dataglot_model::Problem as _;
use dataglot_pgtest::{Cluster, ClusterOptions, Database};
use dataglot_store::migrate::{self, Applied, MigrationError, MigrationState, UpOptions};
use dataglot_store::{Dsn, PostgresError, StoreError};

const TABLES: &str = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('dataglot') AND relkind = 'r' \
                      ORDER BY relname";
const ALL_TABLES: [&str; 15] = [
    "changes",
    "data_keys",
    "derived_products",
    "entries",
    "grants",
    "heads",
    "meta",
    "migrations",
    "objects",
    "policies",
    "previous_secrets",
    "role_members",
    "roles",
    "secrets",
    "users",
];

fn dsn(database: &Database) -> Dsn {
    Dsn::parse(&database.dsn()).unwrap()
}

/// The database as another role sees it.
fn dsn_of(database: &Database, role: &str) -> Dsn {
    Dsn::parse(&database.superuser_dsn().replace("user=postgres", &format!("user={role}"))).unwrap()
}

/// A role that may log in and nothing else.
fn role(database: &Database, suffix: &str) -> String {
    let role = format!("{}_{suffix}", database.name());
    database.execute(&format!("DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN"));
    role
}

fn up(database: &Database) -> Result<Vec<Applied>, StoreError> {
    migrate::up(&dsn(database), UpOptions::default())
}

#[track_caller]
fn refusal<T: std::fmt::Debug>(result: Result<T, StoreError>) -> MigrationError {
    let StoreError::Postgres(error) = result.unwrap_err() else { panic!("another error") };
    let PostgresError::Migration(error) = *error else { panic!("another error: {error}") };
    error
}

#[track_caller]
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

/// The sessions in this database that wait for a lock.
const WAITING: &str = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";

fn waiting(database: &Database, count: usize) -> bool {
    database.query(&format!("SELECT pid {WAITING}")).len() == count
}

/// A session of its own that can hold something.
struct Session {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
}

impl Session {
    fn open(database: &Database) -> Session {
        // The calls of the test drive it, and nothing has to happen in between.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let dsn = database.superuser_dsn();
        let connect = tokio_postgres::connect(&dsn, tokio_postgres::NoTls);
        let (client, connection) = runtime.block_on(connect).unwrap();
        runtime.spawn(connection);
        Session { runtime, client }
    }

    fn execute(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).unwrap();
    }
}

/// The migrations that there are.
fn all() -> Vec<Applied> {
    let names = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations")).unwrap();
    let mut all: Vec<_> = names
        .map(|file| {
            let name = file.unwrap().file_name().into_string().unwrap();
            let (number, name) = name.strip_suffix(".sql").unwrap().split_once('_').unwrap();
            Applied { number: number.parse().unwrap(), name: name.to_owned() }
        })
        .collect();
    all.sort_by_key(|applied| applied.number);
    all
}

#[test]
fn a_store_is_made_once() {
    let database = Cluster::shared().database();
    let before = migrate::status(&dsn(&database)).unwrap();
    assert_eq!(before.store_id, None);
    assert_eq!(before.migrations[0].state, MigrationState::Pending);
    assert_eq!(before.migrations[0].applied, None);
    let all = all();
    assert_eq!(all[0], Applied { number: 1, name: "control_plane".to_owned() });
    assert_eq!(before.pending(), Ok(all.clone()));
    assert!(!before.location.contains(database.password()));

    assert_eq!(up(&database).unwrap(), all);
    assert_eq!(database.query(TABLES), ALL_TABLES);
    let status = migrate::status(&dsn(&database)).unwrap();
    assert_eq!(status.migrations[0].state, MigrationState::Applied);
    assert_eq!(status.migrations[0].applied.as_ref().unwrap().by, database.name());
    assert_eq!(status.pending(), Ok(vec![]));
    assert!(status.store_id.is_some_and(|id| id != [0; 16]));

    // Nothing is done twice: not a row is written again.
    let rows = "SELECT xmin::text FROM dataglot.migrations UNION ALL SELECT xmin::text FROM dataglot.meta";
    let written = database.query(rows);
    assert_eq!(up(&database).unwrap(), []);
    assert_eq!(database.query(rows), written);
    assert_eq!(migrate::status(&dsn(&database)).unwrap(), status);
    assert_eq!(migrate::check(&dsn(&database)).unwrap(), []);
}

#[test]
fn a_schema_that_an_administrator_made_will_do() {
    let database = Cluster::shared().database();
    let role = role(&database, "owner");
    database.execute(&format!("CREATE SCHEMA dataglot AUTHORIZATION {role}"));
    assert_eq!(migrate::up(&dsn_of(&database, &role), UpOptions::default()).unwrap(), all());
    assert_eq!(database.query(TABLES), ALL_TABLES);
}

#[test]
fn the_id_of_a_copy_is_given() {
    let database = Cluster::shared().database();
    let with = |id: [u8; 16]| migrate::up(&dsn(&database), UpOptions { store_id: Some(id), grant_to: None });
    assert_eq!(with([7; 16]).unwrap(), all());
    let id = || migrate::status(&dsn(&database)).unwrap().store_id;
    assert_eq!(id(), Some([7; 16]));
    // While it is empty it may become another one; then never again.
    assert_eq!(with([8; 16]).unwrap(), []);
    assert_eq!(id(), Some([8; 16]));
    database.execute("INSERT INTO dataglot.heads VALUES ('o', 1, 0, 1, 0)");
    assert_eq!(with([8; 16]).unwrap(), []);
    assert_eq!(refusal(with([9; 16])), MigrationError::OtherStore);
    assert_eq!(id(), Some([8; 16]));
}

#[test]
fn of_two_at_once_one_migrates_and_the_other_finds_it_done() {
    let database = Cluster::shared().database();
    // Both are held where they take the lock, so they are at it at the same time.
    let holder = Session::open(&database);
    holder.execute("SELECT pg_advisory_lock(x'64617461676c6f74'::bigint)");
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let applied = up(&database);
                results.lock().unwrap().push(applied.map(|a| a.len()));
            });
        }
        wait_until("both to wait for the lock", || waiting(&database, 2));
        assert_eq!(database.query(TABLES), [""; 0]);
        holder.execute("SELECT pg_advisory_unlock_all()");
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|r| r.clone().ok());
    assert_eq!(results, [Ok(0), Ok(all().len())]);
    let locks = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
                 WHERE d.datname = current_database() AND l.locktype = 'advisory'";
    assert_eq!(database.query_one(locks), "0");
}

/// Nothing but what the damage changed is changed by a refusal.
#[track_caller]
fn is_refused(damage: &str, expected: &MigrationError) {
    let database = Cluster::shared().database();
    up(&database).unwrap();
    database.execute(damage);
    let all = "SELECT m::text FROM dataglot.migrations m UNION ALL SELECT relname || xmin FROM pg_class ORDER BY 1";
    let before = database.query(all);
    assert_eq!(&refusal(up(&database)), expected);
    assert_eq!(&refusal(migrate::check(&dsn(&database))), expected);
    assert_eq!(&migrate::status(&dsn(&database)).unwrap().pending().unwrap_err(), expected);
    assert_eq!(database.query(all), before);
}

#[test]
fn a_later_version_s_store_is_left_alone() {
    let known = all().last().unwrap().number;
    is_refused(
        &format!("INSERT INTO dataglot.migrations VALUES ({}, 'later', 'x', now(), 'y', '9.9')", known + 1),
        &MigrationError::Newer { found: known + 1, known },
    );
    // Whatever else a later version may have done.
    is_refused(
        "ALTER TABLE dataglot.migrations DISABLE TRIGGER append_only;
         UPDATE dataglot.migrations SET checksum = 'x';
         INSERT INTO dataglot.migrations VALUES (1000, 'later', 'x', now(), 'y', '9.9')",
        &MigrationError::Newer { found: 1000, known },
    );
}

#[test]
fn an_edited_migration_is_refused() {
    is_refused(
        "ALTER TABLE dataglot.migrations DISABLE TRIGGER append_only; UPDATE dataglot.migrations SET checksum = 'x'",
        &MigrationError::Edited { number: 1, name: "control_plane".to_owned() },
    );
}

#[test]
fn without_rights_it_says_what_to_run() {
    let database = Cluster::shared().database();
    let (low, name) = (role(&database, "low"), database.name());
    let denied = refusal(migrate::up(&dsn_of(&database, &low), UpOptions::default()));
    let MigrationError::NoRights { statement, command, .. } = &denied else { panic!("{denied}") };
    assert_eq!(statement, &format!("CREATE SCHEMA dataglot AUTHORIZATION \"{low}\";"));
    assert_eq!(command, &format!("dataglot migrate up --store \"dsn=…\" --role '{low}'"));
    assert!(denied.hint().unwrap().contains(statement) && denied.hint().unwrap().contains(command));
    assert_eq!(database.query(TABLES), [""; 0]);

    // The statement is enough, and so is the command.
    database.execute(statement);
    assert_eq!(migrate::up(&dsn_of(&database, &low), UpOptions::default()).unwrap(), all());
    let denied = refusal(migrate::check(&dsn_of(&database, &low)));
    assert_eq!(
        denied,
        MigrationError::NoScratch {
            role: low.clone(),
            statement: format!("GRANT CREATE ON DATABASE \"{name}\" TO \"{low}\";")
        }
    );

    let database = Cluster::shared().database();
    let low = role(&database, "low");
    up(&database).unwrap();
    let denied = refusal(migrate::status(&dsn_of(&database, &low)));
    let MigrationError::NotGranted { missing, .. } = &denied else { panic!("{denied}") };
    assert_eq!(missing, &["USAGE on schema dataglot"]);
    migrate::up(&dsn(&database), UpOptions { grant_to: Some(low.clone()), store_id: None }).unwrap();
    assert!(migrate::status(&dsn_of(&database, &low)).is_ok());
    // Who serves may not let others serve.
    let other = role(&database, "other");
    let denied = refusal(migrate::up(&dsn_of(&database, &low), UpOptions { grant_to: Some(other), store_id: None }));
    assert!(matches!(denied, MigrationError::NotGranted { .. }), "{denied}");
}

#[test]
fn a_role_that_is_not_there_is_named_before_anything_is_done() {
    let database = Cluster::shared().database();
    let nobody = || Some("no\"body".to_owned());
    let denied = refusal(migrate::up(&dsn(&database), UpOptions { grant_to: nobody(), store_id: None }));
    let statement = "CREATE ROLE \"no\"\"body\" LOGIN PASSWORD '…';".to_owned();
    assert_eq!(denied, MigrationError::NoSuchRole { role: "no\"body".to_owned(), statement });
    assert_eq!(database.query(TABLES), [""; 0]);
}

#[test]
fn the_encoding_has_to_hold_every_text() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    let name = format!("{}_ascii", database.name());
    cluster.execute(&format!("CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0"));
    let dsn = database.superuser_dsn().replace(&format!("dbname={}", database.name()), &format!("dbname={name}"));
    let dsn = Dsn::parse(&dsn).unwrap();
    assert_eq!(refusal(migrate::status(&dsn)), MigrationError::Encoding { found: "SQL_ASCII".to_owned() });
    // This one looks at the server first.
    let StoreError::Postgres(denied) = migrate::up(&dsn, UpOptions::default()).unwrap_err() else {
        panic!("another error")
    };
    assert_eq!(*denied, PostgresError::Encoding { location: dsn.location(), encoding: "SQL_ASCII".to_owned() });
    cluster.execute(&format!("DROP DATABASE {name}"));
}

/// Holds a migration in its middle: it waits for the name of a table that another transaction is about
/// to take, when half of its statements are done. Then does `end` to it.
fn half_way(database: &Database, end: impl FnOnce()) {
    database.execute(&format!("CREATE SCHEMA dataglot AUTHORIZATION {}", database.name()));
    let holder = Session::open(database);
    holder.execute("BEGIN; CREATE TABLE dataglot.role_members ()");
    std::thread::scope(|scope| {
        let migrating = scope.spawn(|| up(database));
        wait_until("the migration to be half-way", || waiting(database, 1));
        end();
        let lost = refusal(migrating.join().unwrap());
        assert!(matches!(lost, MigrationError::ConnectionLost | MigrationError::Failed { .. }), "{lost}");
    });
}

#[test]
fn what_is_killed_half_way_leaves_nothing() {
    let database = Cluster::shared().database();
    half_way(&database, || {
        assert_eq!(database.query_one(&format!("SELECT pg_terminate_backend(pid) {WAITING}")), "t");
        wait_until("the backend to end", || waiting(&database, 0));
        assert_eq!(database.query(TABLES), [""; 0]);
    });
    assert_eq!(up(&database).unwrap(), all());
    assert_eq!(migrate::check(&dsn(&database)).unwrap(), []);
}

#[test]
fn a_server_that_dies_half_way_has_nothing_of_it() {
    let cluster = Cluster::start(ClusterOptions { fsync: true, ..ClusterOptions::default() });
    let database = cluster.database();
    half_way(&database, || cluster.stop_immediate());
    cluster.start_again();
    assert_eq!(database.query(TABLES), [""; 0]);
    assert_eq!(up(&database).unwrap(), all());
    assert_eq!(migrate::check(&dsn(&database)).unwrap(), []);
    cluster.stop_immediate();
    cluster.start_again();
    assert_eq!(up(&database).unwrap(), []);
    assert_eq!(migrate::check(&dsn(&database)).unwrap(), []);
}
