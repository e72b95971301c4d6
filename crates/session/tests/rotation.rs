//! Master keys on several coordinators, what somebody put back in the store, and randomness that fails.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use common::{Client, KEY};
use dataglot_model::{HeadRecord, Name, OrgName, Sensitive};
use dataglot_pgtest::{Cluster, Database};
use dataglot_session::resolve::{ResolveError, Resolver, SecretRef};
use dataglot_session::{Engine, EngineConfig, OpenError, OsEntropy, SystemClock};
use dataglot_store::{
    Base, Dsn, Group, ImageSink, MetaStore, OrgGroup, PostgresOptions, RedbOptions, RowSink, Rows, StoreError, Table,
};
use dataglot_vault::{self as vault, DataKeys, Entropy, EntropyError, KeyRing, Place};

const NEW_KEY: &str = "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn ring(keys: &[&str]) -> KeyRing {
    KeyRing::parse(&keys.join(",")).unwrap()
}

fn open_with(store: Arc<dyn MetaStore>, keys: &[&str], entropy: Arc<dyn Entropy>) -> Result<Arc<Engine>, OpenError> {
    let config = EngineConfig { scram_iterations: 4096, ..EngineConfig::default() };
    Engine::open(store, ring(keys), config, Arc::new(SystemClock), entropy)
}

fn open(store: Arc<dyn MetaStore>, keys: &[&str]) -> Result<Arc<Engine>, OpenError> {
    open_with(store, keys, Arc::new(OsEntropy))
}

fn shared(database: &Database) -> Arc<dyn MetaStore> {
    dataglot_store::open_postgres(PostgresOptions::new(Dsn::parse(&database.dsn()).unwrap())).unwrap()
}

async fn admin(engine: &Arc<Engine>) -> Client {
    common::login(engine, "admin", None).await.unwrap()
}

const REFUSED: &str = "ERROR 55000: another secret key has taken the place of key ";

/// S-13: on two coordinators of one store. Once the new key has taken the place of the old one, no coordinator makes
/// anything that needs the old one, though it has it in front: not by a statement, nor by one that it had sealed
/// before, nor by wrapping back. Such a one does not start any more. What it has it still reads and writes.
#[tokio::test(flavor = "multi_thread")]
async fn s13_a_key_that_was_replaced_seals_nothing_on_any_coordinator() {
    let database = Cluster::shared().database();
    let (late, early) = tokio::task::block_in_place(|| {
        let late = open(shared(&database), &[KEY, NEW_KEY]).unwrap();
        (late, open(shared(&database), &[NEW_KEY, KEY]).unwrap())
    });
    late.bootstrap(Name::new("admin").unwrap(), None).await.unwrap();
    let mut on_late = admin(&late).await;
    on_late.ok("CREATE SECRET s AS 'one'\nCREATE ORG other ADMIN boss\nCREATE ORG third ADMIN boss").await;
    let mut in_other = common::login(&late, "boss", Some("other")).await.unwrap();
    in_other.ok("BEGIN\nCREATE SECRET before AS 'sealed before'").await;

    let mut on_early = admin(&early).await;
    let said = on_early.run("REWRAP SECRETS").await;
    assert!(said.contains("is not needed any more"), "{said}");
    let (old, new) = (ring(&[KEY]).primary_id().unwrap(), ring(&[NEW_KEY]).primary_id().unwrap());
    let expected = [format!("{new}|t|t|1|1|0|t|f"), format!("{old}|f|t|0|0|0|f|t")];
    assert_eq!(on_early.rows("SHOW SECRET KEYS").await, expected);

    let refused = in_other.run("COMMIT").await;
    assert!(refused.starts_with(REFUSED), "{refused}");
    let refused = in_other.run("CREATE SECRET after AS 'x'").await;
    assert!(refused.starts_with(REFUSED), "{refused}");
    for sql in ["REWRAP SECRETS", "CREATE ORG fourth ADMIN boss PASSWORD 'x'"] {
        let refused = on_late.run(sql).await;
        assert!(refused.starts_with(REFUSED), "{sql}: {refused}");
    }
    // What the other one has wrapped it reads and writes.
    on_late.ok("ALTER SECRET s AS 'two'\nCREATE SECRET t AS 'three'\nCREATE USER u PASSWORD 'pw'").await;
    let mut early_in_other = common::login(&early, "boss", Some("other")).await.unwrap();
    early_in_other.ok("CREATE SECRET first AS 'x'").await;
    in_other.ok("CREATE SECRET after AS 'x'").await;
    for client in [&mut on_early, &mut on_late, &mut early_in_other, &mut in_other] {
        assert_eq!(client.rows("SHOW SECRET PROBLEMS").await, [""; 0]);
        let rows = client.rows("SHOW SECRET KEYS").await;
        assert!(rows.iter().filter(|row| row.starts_with(&old.to_string())).all(|row| row.contains("|0|0|0|f|t")));
    }
    tokio::task::block_in_place(|| {
        for (keys, starts) in [(&[KEY, NEW_KEY][..], false), (&[NEW_KEY, KEY], true), (&[NEW_KEY], true)] {
            let opened = open(shared(&database), keys);
            assert_eq!(opened.is_ok(), starts);
            assert!(starts || matches!(opened, Err(OpenError::RetiredKey(key)) if key == old));
        }
        assert!(matches!(open(shared(&database), &[KEY]), Err(OpenError::Key(_))));
        late.shutdown();
        early.shutdown();
    });
}

type StoredRow = (Table, Vec<u8>, Vec<u8>);

/// The org's rows of some tables.
struct Stored(Option<HeadRecord>, Vec<StoredRow>, &'static [Table]);

impl ImageSink for Stored {
    fn begin(&mut self, head: HeadRecord) {
        self.0 = Some(head);
    }
    fn row(&mut self, table: Table, key: &[u8], value: &[u8]) {
        if self.2.contains(&table) {
            self.1.push((table, key.to_vec(), value.to_vec()));
        }
    }
}

impl Rows for Stored {
    fn write(&self, sink: &mut RowSink<'_>) -> Result<(), StoreError> {
        self.1.iter().try_for_each(|(table, key, value)| sink(*table, key, Some(value)))
    }
}

fn take(store: &dyn MetaStore, tables: &'static [Table]) -> Stored {
    let mut stored = Stored(None, Vec::new(), tables);
    store.load(&OrgName::default_org(), &mut stored).unwrap();
    stored
}

/// Writes rows past the servers, as an administrator of the store can.
fn put_back(store: &dyn MetaStore, rows: &Stored) {
    let org = OrgName::default_org();
    let head = store.head(&org).unwrap().unwrap();
    let group = OrgGroup { org: &org, base: Base::from(&head), erase: false, head: Some(head), rows };
    store.commit(&Group { orgs: vec![group] }).unwrap();
}

fn resolved(store: &dyn MetaStore) -> Result<Sensitive, ResolveError> {
    let (org, name) = (OrgName::default_org(), Name::new("s").unwrap());
    Resolver::new(store, ring(&[KEY])).resolve(&SecretRef { org, name, version: 0, as_file: false })
}

/// S-03: an older envelope of the same secret that somebody puts back in the store does not open, since its number is
/// bound into it. If its object is put back with it, so that both fit, it opens (nothing in the store itself could
/// tell), and the comparison with history finds it. So it does for a data key.
#[test]
fn s03_an_older_envelope_that_is_put_back_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let database = Cluster::shared().database();
    let path = directory.path().join("meta.redb");
    let stores: [&dyn Fn() -> Arc<dyn MetaStore>; 2] =
        [&|| dataglot_store::open_redb(&path, RedbOptions::default()).unwrap(), &|| shared(&database)];
    for store in stores {
        let live = |keys: &[&str], sql: &str| -> Vec<String> {
            let engine = open(store(), keys).unwrap();
            let problems = tokio::runtime::Runtime::new().unwrap().block_on(async {
                if engine.superuser(&OrgName::default_org()).await.unwrap().is_none() {
                    engine.bootstrap(Name::new("admin").unwrap(), None).await.unwrap();
                }
                let mut client = admin(&engine).await;
                client.ok(sql).await;
                client.rows("SHOW SECRET PROBLEMS").await
            });
            engine.shutdown();
            problems
        };
        assert_eq!(live(&[KEY], "CREATE SECRET s AS 'old'\nCREATE SECRET other AS 'other'"), [""; 0]);
        let value = take(store().as_ref(), &[Table::Secrets]);
        let whole = take(store().as_ref(), &[Table::Secrets, Table::Objects]);
        assert_eq!(live(&[KEY], "ALTER SECRET s AS 'new'\nALTER SECRET other AS 'newer'"), [""; 0]);
        assert_eq!(resolved(store().as_ref()).unwrap().open(), "new");
        let today = take(store().as_ref(), &[Table::Secrets, Table::Objects]);

        put_back(store().as_ref(), &value);
        assert!(matches!(resolved(store().as_ref()), Err(ResolveError::Sealed { .. })));
        let problems = live(&[KEY], "");
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[1].starts_with("the value of secret \"s\"|"), "{problems:?}");

        put_back(store().as_ref(), &whole);
        let problems = live(&[KEY], "");
        let expected = "is not the one that history recorded last: an older one may have been put back";
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems.iter().all(|problem| problem.ends_with(expected)), "{problems:?}");
        assert!(problems.iter().all(|problem| !problem.contains("old'") && !problem.contains("new")), "{problems:?}");

        put_back(store().as_ref(), &today);
        assert_eq!(live(&[KEY], ""), [""; 0]);
        let data_keys = take(store().as_ref(), &[Table::DataKeys]);
        assert_eq!(live(&[NEW_KEY, KEY], "REWRAP SECRETS"), [""; 0]);
        put_back(store().as_ref(), &data_keys);
        let problems = live(&[NEW_KEY, KEY], "");
        assert!(problems.len() == 1 && problems[0].starts_with("data key 1|it is not the one"), "{problems:?}");
        // Without its key it is what needs it that is named.
        let problems = live(&[NEW_KEY], "");
        assert!(problems.len() == 3 && problems.iter().all(|p| p.contains("sealed with key")), "{problems:?}");
        assert_eq!(live(&[NEW_KEY, KEY], "REWRAP SECRETS"), [""; 0]);
    }
}

/// The operating system's, until it has been asked that many times.
struct Failing(AtomicI64);

impl Entropy for Failing {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), EntropyError> {
        if self.0.fetch_sub(1, Ordering::Relaxed) <= 0 { Err(EntropyError) } else { OsEntropy.fill(buffer) }
    }
}

/// S-05, second half: without randomness a statement is refused, and nothing of it is stored, at whichever of its
/// nonces, salts, keys or identities it fails.
#[tokio::test]
async fn s05_without_randomness_nothing_is_stored() {
    let store = dataglot_store::open_memory().unwrap();
    let entropy = Arc::new(Failing(AtomicI64::new(i64::MAX)));
    let engine = open_with(Arc::clone(&store), &[KEY], Arc::clone(&entropy) as Arc<dyn Entropy>).unwrap();
    engine.bootstrap(Name::new("admin").unwrap(), None).await.unwrap();
    let mut client = admin(&engine).await;
    let all: &'static [Table] = &Table::IMAGE;
    let mut failed = 0;
    for sql in [
        "CREATE SECRET s AS 'one'",
        "ALTER SECRET s AS 'two' GRACE '1 hour'",
        "ALTER SECRET s RENAME TO t",
        "CREATE USER u PASSWORD 'pw'",
        "ALTER USER u PASSWORD 'pw2'",
        "ALTER USER u RENAME TO w",
        "CREATE ORG o ADMIN boss PASSWORD 'pw'",
        "BEGIN; CREATE SECRET x AS 'x'; CREATE USER y PASSWORD 'y'; COMMIT",
    ] {
        for after in 0.. {
            assert!(after < 20, "{sql}");
            let before = (take(store.as_ref(), all).1, store.heads().unwrap());
            entropy.0.store(after, Ordering::Relaxed);
            let said = client.run(sql).await;
            entropy.0.store(i64::MAX, Ordering::Relaxed);
            if !said.contains("ERROR") {
                break;
            }
            failed += 1;
            client.run("ROLLBACK").await;
            assert_eq!((take(store.as_ref(), all).1, store.heads().unwrap()), before, "{sql}, after {after}: {said}");
        }
    }
    assert!(failed >= 18, "{failed}");
    // Identities are drawn for many statements at a time: the one that finds none left is refused.
    entropy.0.store(0, Ordering::Relaxed);
    let mut made = 0;
    let (before, said) = loop {
        assert!(made < 100, "{made}");
        let before = (take(store.as_ref(), all).1, store.heads().unwrap());
        let said = client.run(&format!("CREATE ROLE r{made}")).await;
        if said.contains("ERROR") {
            break (before, said);
        }
        made += 1;
    };
    assert_eq!((take(store.as_ref(), all).1, store.heads().unwrap()), before, "{said}");
    entropy.0.store(i64::MAX, Ordering::Relaxed);
    client.ok(&format!("CREATE ROLE r{made}")).await;
    assert_eq!(client.rows("SHOW SECRET PROBLEMS").await, [""; 0]);
    // Wrapping anew needs nonces, too.
    engine.shutdown();
    let entropy = Arc::new(Failing(AtomicI64::new(i64::MAX)));
    let engine = open_with(Arc::clone(&store), &[NEW_KEY, KEY], Arc::clone(&entropy) as Arc<dyn Entropy>).unwrap();
    let mut client = admin(&engine).await;
    let before = take(store.as_ref(), all).1;
    entropy.0.store(0, Ordering::Relaxed);
    let said = client.run("REWRAP SECRETS").await;
    entropy.0.store(i64::MAX, Ordering::Relaxed);
    assert!(said.contains("WARNING") || said.contains("ERROR"), "{said}");
    assert_eq!(take(store.as_ref(), all).1, before);
}

/// S-05, first half. That 10^8 nonces differ follows from how they are made: 192 random bits each, of which two of 10^8
/// are equal with a probability of about 2^-140. What a test can find is a source that is not asked, or is asked
/// for less: so 50,000 seals of one value at one place, with the source that servers have, have nonces that all
/// differ, in each half, too.
#[test]
fn s05_nonces_differ() {
    let org = OrgName::default_org();
    let place = Place { store_id: [7; 16], org: &org, kind: "secret", name: "s", value_version: 1 };
    let (ring, value) = (ring(&[KEY]), Sensitive::new("x".to_owned()));
    let (mut first, mut second) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..50_000 {
        let sealed = vault::seal(&ring, &DataKeys::none(), &place, &value, &OsEntropy).unwrap();
        // After version, suite, key id and the number of the data key.
        assert!(first.insert(sealed.bytes[14..26].to_vec()) && second.insert(sealed.bytes[26..38].to_vec()));
    }
}
