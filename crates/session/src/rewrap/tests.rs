//! What only the inside can make: values that are sealed as before there were data keys, and a lost data key.

use std::sync::Arc;

use dataglot_model::def::SecretOrigin;
use dataglot_model::{Mutation, Name, OrgName, RowKey, Sensitive};
use dataglot_planner::{Image, RewrapBatch, Rewrapped};
use dataglot_store::{MetaStore, Submission};
use dataglot_vault::{self as vault, DataKeys, KeyRing, Place, SealedWith};

use crate::compiler::{Request, RewrapRequest};
use crate::engine::{Engine, EngineConfig};
use crate::response::Response;
use crate::seal::keys::{self, Sealer};
use crate::session::Session;
use crate::{Login, OsEntropy, SystemClock};

const OLD: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const NEW: &str = "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn engine(store: &Arc<dyn MetaStore>, keys: &str) -> Arc<Engine> {
    let ring = KeyRing::parse(keys).unwrap();
    Engine::open(Arc::clone(store), ring, EngineConfig::default(), Arc::new(SystemClock), Arc::new(OsEntropy)).unwrap()
}

async fn login(engine: &Arc<Engine>) -> Session {
    let login = Login { user: "admin".to_owned(), pid: 1, ..Login::default() };
    Session::start(Arc::clone(engine), login).await.unwrap()
}

/// What came back: notices, errors and rows, a line each.
async fn run(session: &mut Session, sql: &str) -> String {
    let mut out: Vec<Response> = Vec::new();
    session.simple(sql, &mut out).await;
    let lines = out.iter().filter_map(|response| match response {
        Response::Notice(notice) => {
            Some(format!("{}: {}\n", notice.message, notice.detail.as_deref().unwrap_or_default()))
        }
        Response::Error { report, .. } => Some(format!("ERROR {}: {}\n", report.sqlstate.code(), report.message)),
        Response::Row(values) => {
            let cells = values.iter().map(|v| String::from_utf8_lossy(v.as_deref().unwrap_or_default()).into_owned());
            Some(format!("{}\n", cells.collect::<Vec<_>>().join("|")))
        }
        Response::ParameterDescription(_)
        | Response::RowDescription(..)
        | Response::NoData
        | Response::Complete(_)
        | Response::EmptyQuery
        | Response::ParseComplete
        | Response::BindComplete
        | Response::CloseComplete
        | Response::PortalSuspended
        | Response::ParameterStatus(..) => None,
    });
    lines.collect()
}

async fn image(engine: &Engine) -> Image {
    engine.image(&OrgName::default_org()).await.unwrap().unwrap().0.clone()
}

/// Puts the value of `secret` back into the form of before there were data keys.
async fn as_before(engine: &Arc<Engine>, session: &mut Session, secret: &str, text: &str) {
    let org = OrgName::default_org();
    let at = Place { store_id: engine.store_id(), org: &org, kind: "secret", name: secret, value_version: 1 };
    let value = Sensitive::new(text.to_owned());
    let old = vault::seal(engine.ring(), &DataKeys::none(), &at, &value, engine.entropy()).unwrap();
    put(engine, session, secret, &old.bytes).await;
}

/// Writes a ciphertext in the place of another one.
async fn put(engine: &Arc<Engine>, session: &mut Session, secret: &str, envelope: &Arc<[u8]>) {
    let (name, image) = (Name::new(secret).unwrap(), image(engine).await);
    let SecretOrigin::Sealed(seen) = image.secret(&name).unwrap().meta.origin else { panic!("not sealed") };
    let (envelope, hash) = (Arc::clone(envelope), vault::hash(envelope));
    let row = Rewrapped::Secret { name, is_previous: false, seen, envelope, hash };
    let batch = RewrapBatch { by: None, rows: vec![row] };
    let (actor, now) = (session.actor(&image).unwrap(), engine.now());
    let request = Request::Rewrap(Box::new(RewrapRequest { actor, now, batch, sql: "".into() }));
    let (org, id, actor) = (OrgName::default_org(), engine.transaction_id().unwrap(), Name::new("admin").unwrap());
    let submission = Submission { org, id, at: now, actor, session: "test".into(), request };
    assert!(engine.hub().submit(submission).await.is_ok_and(|done| done.seq.is_some()));
}

fn sealed_with(image: &Image, secret: &str) -> SealedWith {
    vault::sealed_with(image.secret(&Name::new(secret).unwrap()).unwrap().envelope.unwrap()).unwrap()
}

/// Values of before open, and come to be sealed with the data key.
#[tokio::test]
async fn values_of_before_data_keys_open_and_are_sealed_anew() {
    let store = dataglot_store::open_memory().unwrap();
    let old = engine(&store, OLD);
    old.bootstrap(Name::new("admin").unwrap(), None).await.unwrap();
    let mut session = login(&old).await;
    assert_eq!(run(&mut session, "CREATE SECRET a AS 'a'; CREATE SECRET b AS 'b'").await, "");
    as_before(&old, &mut session, "a", "a").await;
    let state = image(&old).await;
    assert!(matches!(sealed_with(&state, "a"), SealedWith::Master(_)), "it is as before");
    assert_eq!(sealed_with(&state, "b"), SealedWith::DataKey(1));
    let before = run(&mut session, "SHOW SECRETS").await;
    assert_eq!(run(&mut session, "ALTER SECRET a AS 'a'").await, "");
    assert_eq!(run(&mut session, "SHOW SECRETS").await, before, "it opens: the same value changes nothing");
    drop(session);
    drop(old);

    let both = engine(&store, &format!("{NEW},{OLD}"));
    let mut session = login(&both).await;
    let said = run(&mut session, "REWRAP SECRETS").await;
    assert!(said.starts_with("wrapped data keys: 1; sealed values: 1, passwords: 0"), "{said}");
    assert!(said.contains("is not needed any more"), "{said}");
    drop(session);
    drop(both);

    let new = engine(&store, NEW);
    assert_eq!(sealed_with(&image(&new).await, "a"), SealedWith::DataKey(1));
    let mut session = login(&new).await;
    let before = run(&mut session, "SHOW SECRETS").await;
    assert_eq!(run(&mut session, "ALTER SECRET a AS 'a'; ALTER SECRET b AS 'b'").await, "");
    assert_eq!(run(&mut session, "SHOW SECRETS").await, before);
}

/// C039: what does not open is named, keeps the old key in use if it names that, and takes nothing else along. A new
/// value repairs it.
#[tokio::test]
async fn c039_what_does_not_open_is_named_and_stays() {
    let store = dataglot_store::open_memory().unwrap();
    let old = engine(&store, OLD);
    old.bootstrap(Name::new("admin").unwrap(), None).await.unwrap();
    let mut session = login(&old).await;
    run(&mut session, "CREATE SECRET a AS 'a'; CREATE SECRET b AS 'b'; CREATE SECRET c AS 'c'").await;
    as_before(&old, &mut session, "a", "a").await;
    // Sealed for another name, with hashes that fit: nothing but the key can tell.
    as_before(&old, &mut session, "c", "c").await;
    let moved = image(&old).await.secret(&Name::new("c").unwrap()).unwrap().envelope.unwrap().clone();
    put(&old, &mut session, "a", &moved).await;
    drop(session);
    drop(old);

    let both = engine(&store, &format!("{NEW},{OLD}"));
    let mut session = login(&both).await;
    let said = run(&mut session, "REWRAP SECRETS").await;
    assert!(
        said.contains("1 could not be opened, and stay as they are: the value of secret \"a\": sealed value is"),
        "{said}"
    );
    assert!(said.contains("is still needed"), "{said}");
    assert_eq!(sealed_with(&image(&both).await, "c"), SealedWith::DataKey(1));
    assert_eq!(run(&mut session, "ALTER SECRET a AS 'again'").await, "");
    let said = run(&mut session, "REWRAP SECRETS").await;
    assert!(said.contains("is not needed any more"), "{said}");
}

/// A data key whose record is lost: its values do not open, a new value gets a data key of another number, and
/// nobody is told that the lost ones are fine.
#[tokio::test]
async fn a_lost_data_key_is_not_replaced_under_its_number() {
    let store = dataglot_store::open_memory().unwrap();
    let engine = engine(&store, OLD);
    engine.bootstrap(Name::new("admin").unwrap(), None).await.unwrap();
    let mut session = login(&engine).await;
    run(&mut session, "CREATE SECRET a AS 'a'; CREATE SECRET b AS 'b'").await;
    let mut image = image(&engine).await;
    image.apply(&Mutation::Delete(RowKey::DataKey(1)));
    let sealer = Sealer::of(&engine, &image).unwrap();
    assert_eq!((sealer.by().no, sealer.by().made.is_some()), (2, true));
    // The cache of unwrapped keys does not hide the loss.
    let at = Place { store_id: engine.store_id(), org: image.org(), kind: "secret", name: "a", value_version: 1 };
    let envelope = image.secret(&Name::new("a").unwrap()).unwrap().envelope.unwrap();
    let opened = keys::open(&engine, &image, &at, envelope);
    assert_eq!(opened.unwrap_err(), vault::VaultError::NoDataKey { no: 1 });
}
