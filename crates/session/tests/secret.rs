//! No credential is in any answer, trace or byte of the store, whatever the statement and whatever
//! becomes of it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};

use common::{KEY, Rig, render};
use dataglot_model::{Name, OrgName};
use dataglot_session::{EngineConfig, OpenError, Response};
use dataglot_store::fault::{Fault, FaultStore};
use dataglot_store::{ImageSink, MetaStore, Table};
use dataglot_vault::KeyRing;

const CANARY: &str = "CANARY-7Q";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Every place where the grammar admits a credential, and places where one is put by mistake.
const STATEMENTS: &[&str] = &[
    "CREATE SECRET s AS 'CANARY-7Q'",
    "CREATE SECRET s AS 'CANARY-7Q'",
    "CREATE SECRET IF NOT EXISTS s AS 'CANARY-7Q-other'",
    "CREATE OR REPLACE SECRET s AS 'CANARY-7Q-other' COMMENT 'c'",
    "ALTER SECRET s AS E'CANARY-7Q\\n'",
    "ALTER SECRET s AS $t$CANARY-7Q$t$",
    "ALTER SECRET nope AS 'CANARY-7Q'",
    "ALTER SECRET IF EXISTS nope AS 'CANARY-7Q'",
    "ALTER SECRET s RENAME TO s2",
    "ALTER SECRET s2 RENAME TO s",
    "CREATE SECRET s AS \"CANARY-7Q\"",
    "CREATE SECRET s AS 'CANARY-7Q",
    "CREATE SECRET s AS 'CANARY-7Q' 'x'",
    "CREATE SECRET s VALUE 'CANARY-7Q'",
    "CREATE SECRET (AS 'CANARY-7Q')",
    "CREATE SECRET s3 TYPE http (bearer_token = 'CANARY-7Q')",
    "CREATE USER u1 PASSWORD 'CANARY-7Q'",
    "CREATE USER u2 WITH ENCRYPTED PASSWORD 'CANARY-7Q' VALID UNTIL '2030-01-01'",
    "CREATE USER u1 PASSWORD 'CANARY-7Q'",
    "CREATE USER IF NOT EXISTS u1 PASSWORD 'CANARY-7Q'",
    "CREATE OR ALTER USER u1 PASSWORD 'CANARY-7Q'",
    "CREATE USER u9 PASSWORD 'CANARY-7Q' PASSWORD 'CANARY-7Q'",
    "CREATE USER u9 PASWORD 'CANARY-7Q'",
    "CREATE USER u9 VALID UNTIL 'CANARY-7Q'",
    "ALTER ROLE u1 PASSWORD E'CANARY-7Q'",
    "ALTER USER u1 RENAME TO u3",
    "ALTER USER u3 PASSWORD $t$CANARY-7Q$t$",
    "ALTER USER nope PASSWORD 'CANARY-7Q'",
    "ALTER USER u3 PASSWORD 'SCRAM-SHA-256$CANARY-7Q'",
    "ALTER ROLE u3 SET statement_timeout = 'CANARY-7Q'",
    "CREATE CATALOG c USING postgres WITH (dsn = 'host=h password=CANARY-7Q')",
    "CREATE CATALOG c USING mock WITH (port = 'CANARY-7Q')",
    "CREATE CATALOG c USING mock WITH (pasword = 'CANARY-7Q')",
    "CREATE CATALOG c USING mock WITH (password = 'CANARY-7Q')",
    "CREATE ORG o ADMIN a PASSWORD 'CANARY-7Q'",
    "CREATE ORG o ADMIN a PASSWORD 'CANARY-7Q'",
    "EXPLAIN CREATE SECRET s5 AS 'CANARY-7Q'",
    "EXPLAIN (FORMAT JSON) CREATE USER u5 PASSWORD 'CANARY-7Q'",
    "EXPLAIN CREATE SECRET s AS 'CANARY-7Q'",
    "SET statement_timeout = 'CANARY-7Q'",
    "ALTER SYSTEM SET statement_timeout = 'CANARY-7Q'",
    "CREATE ROLE x; CREATE SECRET s6 AS 'CANARY-7Q'; CREATE USER u6 PASSWORD 'CANARY-7Q'",
    "CREATE SECRET s7 AS 'CANARY-7Q'; DROP ROLE nope",
    "SELECT 'CANARY-7Q' FROM nope",
    "SELEKT 'CANARY-7Q'",
    "PREPARE p AS CREATE SECRET s AS 'CANARY-7Q'",
];

/// C025, C027, C031, C033
#[tokio::test]
async fn no_canary_anywhere() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let rig = Rig::new().await;
    let mut seen = String::new();
    for user in ["admin", "plain"] {
        let mut admin = rig.admin().await;
        admin.run("CREATE USER plain").await;
        let mut client = rig.login(user).await;
        for sql in STATEMENTS {
            seen.push_str(&client.run(sql).await);
            seen.push_str(&client.extended(sql, &[]).await);
        }
        // In a block, and in one that has failed.
        client.run("BEGIN").await;
        for sql in STATEMENTS {
            seen.push_str(&client.run("SAVEPOINT a").await);
            seen.push_str(&client.run(sql).await);
            seen.push_str(&client.run("ROLLBACK TO a").await);
        }
        client.run("SELEKT").await;
        for sql in STATEMENTS {
            seen.push_str(&client.run(sql).await);
        }
        client.run("ROLLBACK").await;
        for sql in
            ["CREATE SECRET sp AS $1", "ALTER SECRET sp AS $1", "CREATE USER up PASSWORD $1", "SHOW ROLES LIKE $1"]
        {
            seen.push_str(&client.extended(sql, &[Some(CANARY)]).await);
            seen.push_str(&client.extended(sql, &[Some(CANARY), Some(CANARY)]).await);
            seen.push_str(&client.extended(sql, &[]).await);
        }
    }
    let mut admin = rig.admin().await;
    for sql in [
        "SHOW SECRETS",
        "SHOW CREATE SECRET s",
        "SHOW CREATE ROLE u3",
        "DESCRIBE SECRET s",
        "DESCRIBE ROLE u3",
        "SHOW CHANGES SINCE 0",
        "SHOW USERS",
        "SHOW CATALOGS",
        "SELECT * FROM pg_roles",
        "SELECT * FROM pg_settings",
        "SHOW ALL",
        "SHOW DEPENDENCIES ON SECRET s",
    ] {
        let got = admin.run(sql).await;
        assert!(!got.contains("ERROR"), "{sql}\n{got}");
        seen.push_str(&got);
    }
    assert!(!seen.contains("7Q"), "{}", seen.lines().filter(|l| l.contains("7Q")).collect::<Vec<_>>().join("\n"));
    assert!(!seen.contains("XX000"), "{}", seen.lines().filter(|l| l.contains("XX000")).collect::<Vec<_>>().join("\n"));
    let log = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(!log.contains("7Q"), "{log}");

    struct Bytes(Vec<u8>);
    impl ImageSink for Bytes {
        fn begin(&mut self, _head: dataglot_model::HeadRecord) {}
        fn row(&mut self, _table: Table, key: &[u8], value: &[u8]) {
            self.0.extend_from_slice(key);
            self.0.extend_from_slice(value);
        }
    }
    let mut bytes = Bytes(Vec::new());
    rig.store.load(&OrgName::default_org(), &mut bytes).unwrap();
    // Shorter pieces are in ciphertexts by chance.
    assert!(!bytes.0.windows(4).any(|w| w == b"Y-7Q"));
}

#[tokio::test]
async fn values_passwords_and_versions() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let version = async |admin: &mut common::Client| {
        admin
            .rows("SHOW SECRETS LIKE 's%'")
            .await
            .iter()
            .map(|r| r.split('|').nth(3).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    admin.ok("CREATE SECRET s AS 'a'").await;
    assert_eq!(version(&mut admin).await, ["1"]);
    // The same value again is no new version.
    admin.ok("CREATE OR REPLACE SECRET s AS 'a'\nALTER SECRET s AS 'a'\nCREATE SECRET IF NOT EXISTS s AS 'b'").await;
    assert_eq!(version(&mut admin).await, ["1"]);
    admin.ok("ALTER SECRET s AS 'b'").await;
    assert_eq!(version(&mut admin).await, ["2"]);
    admin.ok("ALTER SECRET s RENAME TO s2\nALTER SECRET s2 AS 'b'").await;
    assert_eq!(version(&mut admin).await, ["2"]);
    admin.ok("BEGIN\nALTER SECRET s2 AS 'c'\nALTER SECRET s2 AS 'd'\nALTER SECRET s2 RENAME TO s\nCOMMIT").await;
    assert_eq!(version(&mut admin).await, ["4"]);
    let seq = |rows: Vec<String>| rows.last().unwrap().split('|').next().unwrap().to_owned();
    admin.ok("CREATE USER u PASSWORD 'pw'").await;
    let before = seq(admin.rows("SHOW CHANGES SINCE 0").await);
    admin.ok("ALTER USER u PASSWORD 'pw'\nCREATE OR ALTER USER u PASSWORD 'pw'").await;
    assert_eq!(seq(admin.rows("SHOW CHANGES SINCE 0").await), before);
    admin
        .check(
            "CREATE USER m PASSWORD 'md5aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'
             CREATE USER m PASSWORD 'SCRAM-SHA-256$x'
             CREATE USER e PASSWORD ''",
            "ERROR 22023: MD5 passwords are not supported
             Z I
             ERROR 22023: invalid SCRAM-SHA-256 verifier
             Z I
             NOTICE 00000: empty string is not a valid password, clearing password
             C CREATE ROLE
             Z I",
        )
        .await;
}

/// C037
#[tokio::test]
async fn another_key_at_start() {
    let rig = Rig::new().await;
    rig.admin().await.ok("CREATE SECRET s AS 'a'").await;
    let open = |ring: KeyRing| {
        dataglot_session::Engine::open(
            Arc::clone(&rig.store),
            ring,
            EngineConfig::default(),
            Arc::new(dataglot_session::SystemClock),
            Arc::new(dataglot_session::OsEntropy),
        )
        .err()
    };
    assert!(matches!(open(KeyRing::parse(&KEY.replace("00", "ff")).unwrap()), Some(OpenError::Key(_))));
    assert!(matches!(open(KeyRing::none()), Some(OpenError::Key(_))));
    assert!(open(KeyRing::parse(KEY).unwrap()).is_none());
}

#[tokio::test]
async fn without_a_key() {
    let rig = Rig::with(KeyRing::none(), |_| {}).await;
    let mut admin = rig.admin().await;
    let got = admin.run("CREATE SECRET s AS 'a'").await;
    assert!(got.starts_with("ERROR 58000"), "{got}");
    admin.ok("CREATE SECRET e AS ENV 'E'\nCREATE USER u PASSWORD 'x'").await;
    // A key can be given later, as long as there is no secret.
    let later = Rig::on(Arc::clone(&rig.store), KeyRing::parse(KEY).unwrap(), |_| {});
    later.admin().await.ok("CREATE SECRET s AS 'a'").await;
}

#[tokio::test]
async fn concurrent_values_of_one_secret() {
    let rig = Rig::new().await;
    rig.admin().await.ok("CREATE SECRET s AS 'start'").await;
    let mut tasks = Vec::new();
    for i in 0..8 {
        let mut client = rig.admin().await;
        tasks.push(tokio::spawn(async move {
            let mut out: Vec<Response> = Vec::new();
            client.session.simple(&format!("ALTER SECRET s AS 'v{i}'"), &mut out).await;
            render(&out)
        }));
    }
    let mut done = 0;
    for task in tasks {
        let got = task.await.unwrap();
        match got.as_str() {
            "C ALTER SECRET\n" => done += 1,
            other => assert!(other.starts_with("ERROR 40001"), "{other}"),
        }
    }
    let rows = rig.admin().await.rows("SHOW SECRETS").await;
    assert_eq!(rows[0].split('|').nth(3).unwrap(), (1 + done).to_string());
}

/// A new value that cannot be stored is not there: the secret keeps its version and its fingerprint, and takes
/// a new value afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c035_a_rotation_that_cannot_be_stored_changes_nothing() {
    for (fault, code) in [(Fault::Fail, "58030"), (Fault::Full, "53100"), (Fault::LostRequest, "")] {
        let store = FaultStore::new(dataglot_store::open_memory().unwrap());
        let rig = Rig::on(Arc::clone(&store) as Arc<dyn MetaStore>, KeyRing::parse(KEY).unwrap(), |_| {});
        rig.engine.bootstrap(Name::new("admin").unwrap(), None).await.unwrap();
        let mut admin = rig.admin().await;
        admin.ok("CREATE SECRET s1 AS 'CANARY-7Q'").await;
        let before = admin.run("SHOW SECRETS").await;
        store.next([fault]);
        let refused = admin.run("ALTER SECRET s1 AS 'CANARY-7Q-new'").await;
        assert!(refused.contains("ERROR") && refused.contains(code), "{fault:?}: {refused}");
        assert!(!refused.contains(CANARY), "{refused}");
        assert_eq!(admin.run("SHOW SECRETS").await, before, "{fault:?}");
        admin.ok("ALTER SECRET s1 AS 'CANARY-7Q-new'").await;
        assert_ne!(admin.run("SHOW SECRETS").await, before, "{fault:?}");
    }
}
