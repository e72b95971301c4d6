//! A master key that is gone for good: what is lost, what is not, and that it can be cut off anywhere.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use std::sync::Arc;

use common::{Client, KEY};
use dataglot_model::{Name, OrgName, SqlState};
use dataglot_pgtest::Cluster;
use dataglot_session::{Engine, EngineConfig, Lost, OpenError, OsEntropy, Reset, SystemClock};
use dataglot_store::fault::{Fault, FaultStore};
use dataglot_store::{Dsn, MetaStore, PostgresOptions, RedbOptions};
use dataglot_vault::KeyRing;
use tokio::runtime::Runtime;

const NEXT: &str = "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const PLAIN: &str = "SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==$\
                     AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn ring(keys: &[&str]) -> KeyRing {
    if keys.is_empty() { KeyRing::none() } else { KeyRing::parse(&keys.join(",")).unwrap() }
}

fn open(store: &Arc<dyn MetaStore>, keys: &[&str]) -> Result<Arc<Engine>, OpenError> {
    let config = EngineConfig { scram_iterations: 4096, ..EngineConfig::default() };
    Engine::open(Arc::clone(store), ring(keys), config, Arc::new(SystemClock), Arc::new(OsEntropy))
}

fn reset(store: &Arc<dyn MetaStore>, keys: &[&str]) -> Reset {
    Reset::open(Arc::clone(store), ring(keys), Arc::new(SystemClock), Arc::new(OsEntropy)).unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

async fn login(engine: &Arc<Engine>, user: &str, org: Option<&str>) -> Client {
    common::login(engine, user, org).await.unwrap()
}

/// A store with a user from before there was a key, and two orgs with what is sealed.
fn fill(runtime: &Runtime, store: &Arc<dyn MetaStore>) {
    let engine = open(store, &[]).unwrap();
    runtime.block_on(async {
        engine.bootstrap(name("admin"), None).await.unwrap();
        login(&engine, "admin", None).await.ok(&format!("CREATE USER plain PASSWORD '{PLAIN}'")).await;
    });
    engine.shutdown();
    let engine = open(store, &[KEY]).unwrap();
    runtime.block_on(async {
        let sealed = format!(
            "CREATE SECRET a AS 'one'
             ALTER SECRET a AS 'two' GRACE '1 hour'
             CREATE SECRET b AS 'b' COMMENT 'kept'
             CREATE SECRET e AS ENV 'X'
             CREATE USER ana PASSWORD '{PLAIN}'
             CREATE CATALOG c USING postgres WITH (host = 'h', password = SECRET a)
             GRANT USAGE ON SECRET a TO ana
             CREATE ORG acme ADMIN boss PASSWORD '{PLAIN}'"
        );
        login(&engine, "admin", None).await.ok(&sealed).await;
        login(&engine, "boss", Some("acme")).await.ok("CREATE SECRET a AS 'of acme'").await;
    });
    engine.shutdown();
}

fn expected() -> Vec<(OrgName, Lost)> {
    let [a, b] = ["a", "b"].map(name);
    let acme = Lost { data_keys: vec![1], secrets: vec![a.clone()], former: Vec::new(), passwords: vec![name("boss")] };
    let default =
        Lost { data_keys: vec![1], secrets: vec![a.clone(), b], former: vec![a], passwords: vec![name("ana")] };
    vec![(OrgName::new("acme").unwrap(), acme), (OrgName::default_org(), default)]
}

/// `name|status|value_version` of each secret.
async fn secrets(client: &mut Client) -> Vec<String> {
    let rows = client.rows("SHOW SECRETS").await;
    rows.iter()
        .map(|row| {
            let cells: Vec<&str> = row.split('|').collect();
            format!("{}|{}|{}", cells[0], cells[2], cells[3])
        })
        .collect()
}

fn lost_and_found(store: Arc<dyn MetaStore>) {
    let runtime = Runtime::new().unwrap();
    let losses = |reset: &Reset| runtime.block_on(reset.losses()).unwrap();
    let missing = |reset: &Reset| runtime.block_on(reset.missing_key()).unwrap();
    fill(&runtime, &store);
    assert!(matches!(open(&store, &[NEXT]), Err(OpenError::Key(_))));
    // With the key nothing is lost, whichever is first.
    for keys in [&[KEY][..], &[KEY, NEXT], &[NEXT, KEY]] {
        let whole = reset(&store, keys);
        assert_eq!((losses(&whole), missing(&whole)), (Vec::new(), None));
        whole.close();
    }
    let asked = reset(&store, &[NEXT]);
    assert_eq!(losses(&asked), expected());
    assert!(missing(&asked).is_some());
    asked.close();
    // Asking changes nothing.
    assert!(matches!(open(&store, &[NEXT]), Err(OpenError::Key(_))));
    // Cut off at each commit, it is gone on with; until it is through, no server starts with the key.
    for faults in [&[Fault::Fail][..], &[Fault::None, Fault::Full], &[Fault::LostReply]] {
        let faulty = FaultStore::new(Arc::clone(&store));
        let cut = reset(&(Arc::clone(&faulty) as Arc<dyn MetaStore>), &[NEXT]);
        faulty.next(faults.iter().copied());
        let is_through = runtime.block_on(cut.run()).is_ok();
        cut.close();
        assert_eq!(is_through, faults == [Fault::LostReply]);
        assert_eq!(open(&store, &[NEXT]).is_ok(), is_through);
    }
    let again = reset(&store, &[NEXT]);
    runtime.block_on(again.run()).unwrap();
    assert_eq!((losses(&again), missing(&again)), (Vec::new(), None));
    again.close();
    let engine = open(&store, &[NEXT]).unwrap();
    runtime.block_on(after(&engine));
    engine.shutdown();
}

/// What is there afterwards, and what becomes of it.
async fn after(engine: &Arc<Engine>) {
    let mut admin = login(engine, "admin", None).await;
    assert_eq!(secrets(&mut admin).await, ["a|lost|2", "b|lost|1", "e|ok|1"]);
    let catalogs = admin.rows("SHOW CATALOGS").await;
    assert!(catalogs[0].contains("error: secret \"a\" is lost"), "{catalogs:?}");
    // What was sealed with no key is still there.
    let users = admin.rows("SHOW USERS").await;
    let has_password = |row: &String| row.split('|').nth(8).unwrap().to_owned();
    assert_eq!(users.iter().map(has_password).collect::<Vec<_>>(), ["f", "f", "t"], "{users:?}");
    assert_eq!(admin.rows("SHOW GRANTS TO ana").await.len(), 1);
    let changes = admin.rows("SHOW CHANGES SINCE 0").await;
    assert_eq!(changes.iter().filter(|row| row.contains("RESET SECRETS")).count(), 1, "{changes:?}");
    let keys = admin.rows("SHOW SECRET KEYS").await;
    assert_eq!(keys.len(), 1, "{keys:?}");
    // A lost value is not kept for a while, and not taken to another name; a placeholder does not bring it back.
    assert!(admin.run("ALTER SECRET a RENAME TO z").await.contains("XX001"));
    admin.ok("CREATE OR REPLACE SECRET b AS REDACTED COMMENT 'kept'").await;
    assert_eq!(secrets(&mut admin).await[1], "b|lost|1");
    admin
        .ok("ALTER SECRET a AS 'three' GRACE '1 hour'
             ALTER SECRET a AS 'four' GRACE '1 hour'
             ALTER SECRET a RENAME TO z
             DROP SECRET b
             ALTER USER ana PASSWORD 'new'
             REWRAP SECRETS")
        .await;
    assert_eq!(secrets(&mut admin).await, ["e|ok|1", "z|ok|4"]);
    let mut boss = login(engine, "boss", Some("acme")).await;
    assert_eq!(secrets(&mut boss).await, ["a|lost|1"]);
    boss.ok("CREATE OR REPLACE SECRET a AS 'again'").await;
    assert_eq!(secrets(&mut boss).await, ["a|ok|2"]);
}

#[test]
fn a_lost_key_loses_values_and_nothing_else_memory() {
    lost_and_found(dataglot_store::open_memory().unwrap());
}

#[test]
fn a_lost_key_loses_values_and_nothing_else_redb() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("meta.redb");
    lost_and_found(dataglot_store::open_redb(&path, RedbOptions::default()).unwrap());
}

#[test]
fn a_lost_key_loses_values_and_nothing_else_postgres() {
    let database = Cluster::shared().database();
    let options = PostgresOptions::new(Dsn::parse(&database.dsn()).unwrap());
    lost_and_found(dataglot_store::open_postgres(options).unwrap());
}

#[test]
fn a_reset_needs_a_key_to_go_on_with() {
    let store: Arc<dyn MetaStore> = dataglot_store::open_memory().unwrap();
    let refused = Reset::open(store, KeyRing::none(), Arc::new(SystemClock), Arc::new(OsEntropy)).unwrap_err();
    assert_eq!(refused.sqlstate, SqlState::SystemError);
}
