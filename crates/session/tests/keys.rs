//! Master keys: rotation that is interrupted at every step, what a missing key and a damaged record mean, and what
//! is stored of a password.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use std::path::PathBuf;
use std::sync::Arc;

use common::{Client, KEY, Rig, sensitive};
use dataglot_model::{Name, OrgName, Row};
use dataglot_pgtest::{Cluster, Database};
use dataglot_session::{Engine, EngineConfig, OpenError, OsEntropy, SystemClock};
use dataglot_store::fault::{Fault, FaultStore};
use dataglot_store::{
    Base, Dsn, Group, ImageSink, MetaStore, OrgGroup, PostgresOptions, RedbOptions, RowSink, Rows, StoreError, Table,
    record,
};
use dataglot_vault::KeyRing;
use tokio::runtime::Runtime;

const NEW_KEY: &str = "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
/// Of the password `pw-of-all`.
const VERIFIER: &str = "SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==$\
                        AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn ring(keys: &[&str]) -> KeyRing {
    KeyRing::parse(&keys.join(",")).unwrap()
}

/// A store that outlives the engines on it.
enum Backend {
    Memory(Arc<dyn MetaStore>),
    Redb(PathBuf),
    Postgres(Database),
}

impl Backend {
    fn each(directory: &tempfile::TempDir) -> Vec<Backend> {
        vec![
            Backend::Memory(dataglot_store::open_memory().unwrap()),
            Backend::Redb(directory.path().join("meta.redb")),
            Backend::Postgres(Cluster::shared().database()),
        ]
    }

    fn store(&self) -> Arc<dyn MetaStore> {
        match self {
            Backend::Memory(store) => Arc::clone(store),
            Backend::Redb(path) => dataglot_store::open_redb(path, RedbOptions::default()).unwrap(),
            Backend::Postgres(database) => {
                let options = PostgresOptions::new(Dsn::parse(&database.dsn()).unwrap());
                dataglot_store::open_postgres(options).unwrap()
            }
        }
    }

    /// A server's life on it: what `work` does, with commits spoiled in that order. It ends as by kill -9, as
    /// far as the store can tell: what was committed is there, and nothing else.
    fn live<T>(&self, keys: &[&str], faults: &[Fault], work: impl AsyncFnOnce(&Arc<Engine>) -> T) -> T {
        let store = FaultStore::new(self.store());
        let engine = open(Arc::clone(&store) as Arc<dyn MetaStore>, keys).unwrap();
        let runtime = Runtime::new().unwrap();
        let is_new = engine.is_new().unwrap();
        let done = runtime.block_on(async {
            if is_new {
                engine.bootstrap(Name::new("admin").unwrap(), None).await.unwrap();
            }
            store.next(faults.iter().copied());
            work(&engine).await
        });
        engine.shutdown();
        done
    }
}

fn open(store: Arc<dyn MetaStore>, keys: &[&str]) -> Result<Arc<Engine>, OpenError> {
    let ring = if keys.is_empty() { KeyRing::none() } else { ring(keys) };
    Engine::open(store, ring, EngineConfig::default(), Arc::new(SystemClock), Arc::new(OsEntropy))
}

async fn admin(engine: &Arc<Engine>) -> Client {
    common::login(engine, "admin", None).await.unwrap()
}

/// `SHOW SECRET KEYS`, a key a row, without fingerprints, nor which are retired.
async fn keys(client: &mut Client) -> Vec<String> {
    let rows = client.rows("SHOW SECRET KEYS").await;
    rows.iter().map(|row| row.split_once('|').unwrap().1.rsplit_once('|').unwrap().0.to_owned()).collect()
}

/// Everything still opens: the same value again changes nothing, and a password is the user's.
async fn all_opens(client: &mut Client) {
    let before = client.rows("SHOW SECRETS").await;
    for name in 0..3 {
        client.ok(&format!("ALTER SECRET s{name} AS 'value {name}'")).await;
    }
    assert_eq!(client.rows("SHOW SECRETS").await, before);
    client.ok(&format!("ALTER ROLE u7 PASSWORD '{VERIFIER}'")).await;
    let seq = client.rows("SHOW dataglot.version").await;
    client.ok(&format!("ALTER ROLE u8 PASSWORD '{VERIFIER}'")).await;
    assert_eq!(client.rows("SHOW dataglot.version").await, seq);
}

/// S-13: a rotation that is cut off before and after each of its commits goes on from there; everything opens
/// meanwhile; the old key can go when nothing needs it, and not before.
#[test]
fn s13_a_rotation_killed_at_every_step_resumes() {
    let directory = tempfile::tempdir().unwrap();
    for backend in Backend::each(&directory) {
        // Users from before there was a key.
        backend.live(&[], &[], async |engine| {
            let mut client = admin(engine).await;
            let users: Vec<String> = (0..250).map(|n| format!("CREATE USER u{n} PASSWORD '{VERIFIER}'")).collect();
            client.ok(&users.join(";")).await;
        });
        backend.live(&[KEY], &[], async |engine| {
            let mut client = admin(engine).await;
            for n in 0..3 {
                client.ok(&format!("CREATE SECRET s{n} AS 'value {n}'")).await;
            }
            assert_eq!(keys(&mut client).await, ["t|t|1|3|0|t"]);
            client.ok("CREATE ORG other ADMIN boss PASSWORD 'boss'").await;
        });
        // The end comes before the first batch, after it, after one whose answer got lost, and in the last one.
        let lives: [&[Fault]; 4] =
            [&[Fault::Fail], &[Fault::None, Fault::Fail], &[Fault::LostReply, Fault::Fail], &[Fault::Full]];
        for (number, faults) in lives.into_iter().enumerate() {
            backend.live(&[NEW_KEY, KEY], faults, async |engine| {
                let mut client = admin(engine).await;
                let said = client.run("REWRAP SECRETS").await;
                assert!(said.contains("ERROR"), "{number}: {said}");
                all_opens(&mut client).await;
            });
            // Whoever takes the old key away now does not get far.
            assert!(matches!(open(backend.store(), &[NEW_KEY]), Err(OpenError::Key(_))));
        }
        backend.live(&[NEW_KEY, KEY], &[], async |engine| {
            let mut client = admin(engine).await;
            let said = client.run("REWRAP SECRETS").await;
            assert!(said.contains("C REWRAP SECRETS") && said.contains("is still needed"), "{said}");
        });
        backend.live(&[NEW_KEY, KEY], &[], async |engine| {
            let mut client = admin(engine).await;
            assert_eq!(keys(&mut client).await, ["t|t|1|3|250|f", "f|t|0|0|0|t"]);
            let said = client.run("REWRAP SECRETS").await;
            assert!(said.contains("nothing is left") && said.contains("is still needed"), "{said}");
            // The other org is all that needs it.
            let mut boss = common::login(engine, "boss", Some("other")).await.unwrap();
            let said = boss.run("REWRAP SECRETS").await;
            // Nobody else is told of the keys that the store needs.
            assert!(said.contains("wrapped data keys: 1") && !said.contains("needed"), "{said}");
            assert_eq!(keys(&mut client).await, ["t|t|1|3|250|f", "f|t|0|0|0|t"]);
            let said = client.run("REWRAP SECRETS").await;
            assert!(said.contains("is not needed any more"), "{said}");
            assert_eq!(keys(&mut client).await, ["t|t|1|3|250|t", "f|t|0|0|0|f"]);
        });
        backend.live(&[NEW_KEY], &[], async |engine| {
            let mut client = admin(engine).await;
            assert_eq!(keys(&mut client).await, ["t|t|1|3|250|t"]);
            all_opens(&mut client).await;
            let credentials = engine.credentials("boss", Some("other")).await.unwrap();
            assert!(credentials.is_password(&sensitive("boss")) && !credentials.is_password(&sensitive("other")));
        });
        assert!(matches!(open(backend.store(), &[KEY]), Err(OpenError::Key(_))));
    }
}

/// Every byte of an org's image.
fn bytes_of(store: &dyn MetaStore, org: &OrgName) -> Vec<u8> {
    struct Bytes(Vec<u8>);
    impl ImageSink for Bytes {
        fn begin(&mut self, _head: dataglot_model::HeadRecord) {}
        fn row(&mut self, _table: Table, key: &[u8], value: &[u8]) {
            self.0.extend_from_slice(key);
            self.0.extend_from_slice(value);
        }
    }
    let mut bytes = Bytes(Vec::new());
    store.load(org, &mut bytes).unwrap();
    bytes.0
}

/// A stolen store gives nothing to guess at: no verifier is in it in clear, by whichever way it came.
#[tokio::test]
async fn verifiers_are_sealed_where_there_is_a_key() {
    let rig = Rig::new().await;
    let mut client = rig.admin().await;
    client
        .ok(&format!(
            "CREATE USER a PASSWORD 'pw'
             CREATE USER b PASSWORD '{VERIFIER}'
             CREATE OR ALTER USER a PASSWORD 'pw2'
             ALTER USER b RENAME TO c
             CREATE ORG o ADMIN boss PASSWORD 'bp'
             BEGIN
             CREATE USER d PASSWORD 'pd'
             ALTER USER d RENAME TO e
             COMMIT"
        ))
        .await;
    for org in [OrgName::default_org(), OrgName::new("o").unwrap()] {
        let bytes = bytes_of(rig.store.as_ref(), &org);
        assert!(!bytes.windows(5).any(|w| w == b"SCRAM"));
        assert!(bytes.windows(7).any(|w| w == b"sealed:"));
    }
    // They are still what they were.
    let is_of = async |user: &str, org: Option<&str>, password: &str| {
        rig.engine.credentials(user, org).await.unwrap().is_password(&sensitive(password))
    };
    assert!(is_of("a", None, "pw2").await && !is_of("a", None, "pw").await);
    assert!(is_of("e", None, "pd").await && is_of("boss", Some("o"), "bp").await);
    let before = client.rows("SHOW dataglot.version").await;
    client.ok(&format!("ALTER USER a PASSWORD 'pw2'\nALTER USER c PASSWORD '{VERIFIER}'")).await;
    assert_eq!(client.rows("SHOW dataglot.version").await, before, "the same password again changes nothing");
    assert_eq!(keys(&mut client).await, ["t|t|1|0|3|t"]);
}

/// Of two transactions that both make the org's first data key, one has to start over: it never comes to values
/// that no stored key opens.
#[tokio::test]
async fn two_that_bring_the_first_data_key() {
    let rig = Rig::new().await;
    let (mut one, mut two) = (rig.admin().await, rig.admin().await);
    one.ok("BEGIN\nCREATE SECRET a AS 'a'\nCREATE SECRET b AS 'b'").await;
    two.ok("CREATE SECRET c AS 'c'").await;
    let refused = one.run("COMMIT").await;
    assert!(refused.starts_with("ERROR 40001"), "{refused}");
    one.ok("BEGIN\nCREATE SECRET a AS 'a'\nCREATE SECRET b AS 'b'\nCOMMIT").await;
    assert_eq!(keys(&mut one).await, ["t|t|1|3|0|t"]);
    let before = one.rows("SHOW SECRETS").await;
    one.ok("ALTER SECRET a AS 'a'\nALTER SECRET b AS 'b'\nALTER SECRET c AS 'c'").await;
    assert_eq!(one.rows("SHOW SECRETS").await, before);
    // Alone, whoever loses seals again by itself.
    let mut tasks = Vec::new();
    let rig = Rig::new().await;
    for n in 0..4 {
        let mut client = rig.admin().await;
        tasks.push(tokio::spawn(async move { client.run(&format!("CREATE SECRET s{n} AS 'x'")).await }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), "C CREATE SECRET\nZ I\n");
    }
}

/// One row that somebody writes past the server.
struct One(Table, Vec<u8>, Option<Vec<u8>>);

impl Rows for One {
    fn write(&self, sink: &mut RowSink<'_>) -> Result<(), StoreError> {
        sink(self.0, &self.1, self.2.as_deref())
    }
}

fn write(store: &dyn MetaStore, head: dataglot_model::HeadRecord, row: One) {
    let org = OrgName::default_org();
    let group = OrgGroup { org: &org, base: Base::from(&head), erase: false, head: Some(head), rows: &row };
    store.commit(&Group { orgs: vec![group] }).unwrap();
}

/// Puts the ciphertext of one secret into the record of another one.
fn move_value(store: &dyn MetaStore, from: &str, to: &str) {
    struct Find(Option<(dataglot_model::HeadRecord, Vec<u8>)>, Vec<u8>, String);
    impl ImageSink for Find {
        fn begin(&mut self, head: dataglot_model::HeadRecord) {
            self.0 = Some((head, Vec::new()));
        }
        fn row(&mut self, table: Table, key: &[u8], value: &[u8]) {
            if table == Table::Secrets && key == self.2.as_bytes() {
                self.1 = value.to_vec();
            }
        }
    }
    let org = OrgName::default_org();
    let mut found = Find(None, Vec::new(), from.to_owned());
    store.load(&org, &mut found).unwrap();
    let head = found.0.unwrap().0;
    let Ok(Row::Secret(_, envelope, hash)) = record::decode_row(Table::Secrets, from.as_bytes(), &found.1) else {
        panic!("no secret {from}")
    };
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record::encode_row(&Row::Secret(Name::new(to).unwrap(), envelope, hash), &mut key, &mut value).unwrap();
    write(store, head, One(Table::Secrets, key, Some(value)));
}

/// S-02, S-03: a ciphertext that somebody moved to another secret, or put back, does not open there. C039: the one
/// is listed, the others go on, and a new value repairs it.
#[test]
fn c039_one_that_does_not_open_takes_nothing_else_down() {
    let directory = tempfile::tempdir().unwrap();
    let backend = Backend::Redb(directory.path().join("meta.redb"));
    backend.live(&[KEY], &[], async |engine| {
        let mut client = admin(engine).await;
        client.ok("CREATE SECRET s1 AS 'one'\nCREATE SECRET s2 AS 'two'\nCREATE SECRET s3 AS 'three'").await;
        client.ok("CREATE USER u PASSWORD 'pw'").await;
    });
    // The envelope of s1 under the name of s2, with a frame and hashes that fit: what an administrator of the
    // store can do, and no accident.
    move_value(backend.store().as_ref(), "s1", "s2");
    backend.live(&[NEW_KEY, KEY], &[], async |engine| {
        let mut client = admin(engine).await;
        let status = |rows: Vec<String>| -> Vec<String> {
            rows.iter().map(|row| row.split('|').nth(2).unwrap().to_owned()).collect()
        };
        assert_eq!(status(client.rows("SHOW SECRETS").await), ["ok", "unreadable", "ok"]);
        let refused = client.run("ALTER SECRET s2 RENAME TO s9").await;
        assert!(refused.starts_with("ERROR XX001"), "{refused}");
        let said = client.run("REWRAP SECRETS").await;
        assert!(said.contains("C REWRAP SECRETS"), "{said}");
        client.ok("ALTER SECRET s2 AS 'again'\nALTER SECRET s2 RENAME TO s4").await;
        assert_eq!(status(client.rows("SHOW SECRETS").await), ["ok", "ok", "ok"]);
    });
}

/// A data key that is lost takes the values along that it sealed, which are listed as unreadable, and nothing else: a
/// new value gets a new data key.
#[test]
fn a_lost_data_key_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let backend = Backend::Redb(directory.path().join("meta.redb"));
    backend.live(&[KEY], &[], async |engine| {
        let mut client = admin(engine).await;
        client.ok("CREATE SECRET s1 AS 'one'\nCREATE SECRET s2 AS 'two'").await;
        client.ok("CREATE CATALOG c USING mock WITH (password = SECRET s2)\nCREATE SECRET e AS ENV 'E'").await;
    });
    let store = backend.store();
    let head = store.head(&OrgName::default_org()).unwrap().unwrap();
    write(store.as_ref(), head, One(Table::DataKeys, b"1".to_vec(), None));
    drop(store);
    backend.live(&[KEY], &[], async |engine| {
        let mut client = admin(engine).await;
        let status = |rows: Vec<String>, at| -> Vec<String> {
            rows.iter().map(|row| row.split('|').nth(at).unwrap().to_owned()).collect()
        };
        assert_eq!(status(client.rows("SHOW SECRETS").await, 2), ["ok", "unreadable", "unreadable"]);
        assert_eq!(status(client.rows("SHOW CATALOGS").await, 3), ["error: secret \"s2\" is unreadable"]);
        client.ok("ALTER SECRET s1 AS 'one'").await;
        assert_eq!(status(client.rows("SHOW SECRETS").await, 2), ["ok", "ok", "unreadable"]);
        assert_eq!(keys(&mut client).await, ["t|t|1|1|0|t"]);
        let refused = client.run("ALTER SECRET s2 RENAME TO s9").await;
        assert!(refused.starts_with("ERROR XX001"), "{refused}");
        client.ok("REWRAP SECRETS\nALTER SECRET s2 AS 'two'").await;
        assert_eq!(status(client.rows("SHOW CATALOGS").await, 3), ["ok"]);
    });
}

/// REWRAP is for superusers, alone, and needs a key.
#[tokio::test]
async fn who_may_rewrap_and_where() {
    let rig = Rig::new().await;
    let mut client = rig.admin().await;
    client.ok("CREATE USER plain").await;
    client
        .check(
            "REWRAP SECRETS
             BEGIN
             REWRAP SECRETS
             ROLLBACK
             REWRAP SECRETS; SHOW SECRET KEYS
             EXPLAIN REWRAP SECRETS",
            "NOTICE 00000: nothing is left to be wrapped or sealed anew
             C REWRAP SECRETS
             Z I
             C BEGIN
             Z T
             ERROR 25001: REWRAP SECRETS cannot run inside a transaction block
             Z E
             C ROLLBACK
             Z I
             ERROR 25001: REWRAP SECRETS cannot run inside a transaction block
             Z I
             ERROR 0A000: EXPLAIN of this statement is not supported @9
             Z I",
        )
        .await;
    rig.login("plain")
        .await
        .check(
            "REWRAP SECRETS
             SHOW SECRET KEYS",
            "ERROR 42501: permission denied to rewrap secrets
             Z I
             ERROR 42501: permission denied to show secret keys
             Z I",
        )
        .await;
    let keyless = Rig::with(KeyRing::none(), |_| {}).await;
    keyless.admin().await.check("REWRAP SECRETS", "ERROR 58000: no secret key is configured\nZ I").await;
}

/// An org that is dropped takes its data keys along: its values are gone from every copy of the store that does not
/// have them.
#[tokio::test]
async fn a_dropped_org_takes_its_keys_along() {
    let rig = Rig::new().await;
    let mut client = rig.admin().await;
    client.ok("CREATE ORG o ADMIN boss PASSWORD 'bp'").await;
    let org = OrgName::new("o").unwrap();
    assert!(!bytes_of(rig.store.as_ref(), &org).is_empty());
    client.ok("DROP ORG o CASCADE\nCREATE ORG o ADMIN boss").await;
    let mut boss = rig.try_login("boss", Some("o"), &[]).await.unwrap();
    assert_eq!(keys(&mut boss).await, ["t|t|0|0|0|t"]);
    boss.ok("CREATE SECRET s AS 'x'").await;
    assert_eq!(keys(&mut boss).await, ["t|t|1|1|0|t"]);
}
