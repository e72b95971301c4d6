//! Values are resolved in the process that has the key, and by no statement.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::{KEY, NOW, Rig};
use dataglot_model::{HeadRecord, Name, OrgName, Problem as _, Seq, SqlState};
use dataglot_session::Clock;
use dataglot_session::resolve::{CatalogOption, ResolveError, Resolver, SecretRef};
use dataglot_store::{Base, Group, ImageSink, MetaStore, OrgGroup, RowSink, Rows, StoreError, Table};
use dataglot_vault::{KeyRing, VaultError};

const CANARY: &str = "CANARY-7Q";
/// A key that nothing was sealed with.
const OTHER_KEY: &str = "1f1e1d1c1b1a191817161514131211100f0e0d0c0b0a09080706050403020100";

fn secret(name: &str) -> SecretRef {
    SecretRef { org: OrgName::default_org(), name: Name::new(name).unwrap(), version: 1, as_file: false }
}

fn resolver(rig: &Rig) -> Resolver<'_> {
    let clock: Arc<dyn Clock> = rig.clock.clone();
    Resolver::new(rig.store.as_ref(), KeyRing::parse(KEY).unwrap()).with_clock(clock)
}

#[track_caller]
fn value(resolver: &Resolver<'_>, name: &str) -> String {
    resolver.resolve(&secret(name)).unwrap().open().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_come_with_references_and_values_by_a_call_of_their_own() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let org = OrgName::default_org();
    let resolver = resolver(&rig);
    assert_eq!(resolver.catalogs(&org).unwrap(), []);
    admin
        .run(
            "CREATE SECRET pw AS 'CANARY-7Q one'; CREATE SECRET wallet AS 'CANARY-7Q wallet';
             CREATE CATALOG ora USING oracle WITH (host = 'h', port = 1521, password = SECRET pw,
                 wallet = SECRET wallet AS FILE, user = 'u', schemas = '[\"a\"]');
             CREATE CATALOG lake USING object_storage WITH (url = 's3://b', access_key_id = ENV 'KEY_ID',
                 allow_http = true);
             ALTER CATALOG lake DISABLE",
        )
        .await;
    let (seq, catalogs) = resolver.catalogs_at(&org).unwrap();
    assert!(seq > Seq(1));
    let [lake, ora] = catalogs.as_slice() else { panic!("{catalogs:?}") };
    assert_eq!((lake.name.as_str(), lake.connector, lake.enabled), ("lake", "object_storage", false));
    assert_eq!(lake.options["access_key_id"], CatalogOption::Env("KEY_ID".to_owned()));
    assert!(ora.enabled && ora.unreadable.is_empty());
    let found: Vec<_> = ora.secrets().map(|s| (s.name.as_str(), s.version, s.as_file)).collect();
    assert_eq!(found, [("pw", 1, false), ("wallet", 1, true)]);
    assert_eq!(
        ora.to_json().to_string(),
        r#"{"connector":"oracle","enabled":true,"name":"ora","options":{"host":{"text":"h"},"password":{"secret":{"as_file":false,"name":"pw","version":1}},"port":{"integer":1521},"schemas":{"json":["a"]},"user":{"text":"u"},"wallet":{"secret":{"as_file":true,"name":"wallet","version":1}}},"version":1}"#
    );
    assert!(!format!("{catalogs:?} {resolver:?}").contains(CANARY));
    for reference in ora.secrets() {
        let value = resolver.resolve(reference).unwrap();
        assert!(value.open().starts_with(CANARY));
        assert!(!format!("{value:?}").contains(CANARY));
    }
    // Each call is of the newest state.
    admin.run("ALTER SECRET pw AS 'CANARY-7Q two'; DROP CATALOG lake").await;
    assert_eq!(value(&resolver, "pw"), "CANARY-7Q two");
    let catalogs = resolver.catalogs(&org).unwrap();
    assert_eq!(catalogs.len(), 1);
    assert_eq!(catalogs[0].secrets().next().unwrap().version, 2);
    let other = OrgName::new("other").unwrap();
    let error = resolver.catalogs(&other).unwrap_err();
    assert_eq!((error.sqlstate(), error.secret()), (SqlState::UndefinedDatabase, None));
    let error = resolver.resolve(&secret("none")).unwrap_err();
    assert_eq!(error, ResolveError::NoSecret { secret: Name::new("none").unwrap() });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_value_resolves_until_its_grace_is_over() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let resolver = resolver(&rig);
    let version = |version| resolver.resolve_version(&secret("s"), version).map(|v| v.open().to_owned());
    let gone = |version| Err(ResolveError::Gone { secret: Name::new("s").unwrap(), version });
    admin.run("CREATE SECRET s AS 'one'; ALTER SECRET s AS 'two' GRACE '1 hour'").await;
    assert_eq!(value(&resolver, "s"), "two");
    assert_eq!((version(1), version(2)), (Ok("one".to_owned()), Ok("two".to_owned())));
    assert_eq!((version(0), version(3)), (gone(0), gone(3)));
    rig.clock.0.store(NOW + 3_600_000_000 - 1, Ordering::Relaxed);
    assert_eq!(version(1), Ok("one".to_owned()));
    rig.clock.0.store(NOW + 3_600_000_000, Ordering::Relaxed);
    assert_eq!((version(1), version(2)), (gone(1), Ok("two".to_owned())));
    assert_eq!(value(&resolver, "s"), "two");

    // Both follow a rename, and both outlive a change of the key.
    admin.run("ALTER SECRET s AS 'three' GRACE '1 day'; ALTER SECRET s RENAME TO t; ALTER SECRET t RENAME TO s").await;
    assert_eq!((version(2), version(3)), (Ok("two".to_owned()), Ok("three".to_owned())));
    admin.run("REWRAP SECRETS").await;
    assert_eq!((version(2), version(3)), (Ok("two".to_owned()), Ok("three".to_owned())));
    // Without GRACE it is gone at once, and with a drop both are.
    admin.run("ALTER SECRET s AS 'four'").await;
    assert_eq!((version(3), version(4)), (gone(3), Ok("four".to_owned())));
    admin.run("ALTER SECRET s AS 'five' GRACE '1 day'; DROP SECRET s; CREATE SECRET s AS 'new'").await;
    assert_eq!((version(4), version(5), version(1)), (gone(4), gone(5), Ok("new".to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_in_the_store_is_read_by_the_process_that_resolves() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let directory = std::env::temp_dir().join(format!("dataglot-resolve-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    std::fs::write(path("unix"), "CANARY-7Q file\n").unwrap();
    std::fs::write(path("dos"), "CANARY-7Q\n\r\n").unwrap();
    std::fs::write(path("bytes"), b"CANARY-7Q\xff").unwrap();
    std::fs::write(path("long"), "x".repeat(64 * 1024 + 1)).unwrap();
    for (name, file) in [("unix", "unix"), ("dos", "dos"), ("bytes", "bytes"), ("long", "long"), ("missing", "none")] {
        admin.run(&format!("CREATE SECRET {name} AS FILE '{}'", path(file))).await;
    }
    admin.run(&format!("CREATE SECRET directory AS FILE '{}'", directory.display())).await;
    // Cargo sets it.
    admin
        .run(
            "CREATE SECRET env AS ENV 'CARGO_PKG_NAME'; CREATE SECRET unset AS ENV 'NO_SUCH_VARIABLE';
             CREATE SECRET ours AS ENV 'DATAGLOT_SECRET_KEY'",
        )
        .await;
    // None of it needs a key.
    let resolver = Resolver::new(rig.store.as_ref(), KeyRing::none());
    assert_eq!(value(&resolver, "env"), "dataglot-session");
    assert_eq!(value(&resolver, "unix"), "CANARY-7Q file");
    assert_eq!(value(&resolver, "dos"), "CANARY-7Q\n");
    for (name, said) in [
        ("bytes", "which is not UTF-8"),
        ("long", "which is too long"),
        ("missing", "which cannot be read: "),
        ("directory", "which is not a regular file"),
        ("ours", "which is one of dataglot's own"),
        ("unset", "secret \"unset\" is in the environment variable NO_SUCH_VARIABLE, which is not set"),
    ] {
        let error = resolver.resolve(&secret(name)).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!((error.sqlstate(), error.secret().unwrap().as_str()), (SqlState::SystemError, name));
        assert!(!format!("{error} {error:?}").contains(CANARY));
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Flips a bit of the record of a secret's value.
fn damage(store: &dyn MetaStore, secret: &str) {
    struct Found(Vec<u8>, Vec<u8>);
    impl ImageSink for Found {
        fn begin(&mut self, _head: HeadRecord) {}
        fn row(&mut self, table: Table, key: &[u8], value: &[u8]) {
            if table == Table::Secrets && key == self.0 {
                self.1 = value.to_vec();
            }
        }
    }
    impl Rows for Found {
        fn write(&self, sink: &mut RowSink<'_>) -> Result<(), StoreError> {
            sink(Table::Secrets, &self.0, Some(&self.1))
        }
    }
    let org = OrgName::default_org();
    let mut rows = Found(secret.as_bytes().to_vec(), Vec::new());
    store.load(&org, &mut rows).unwrap();
    *rows.1.last_mut().unwrap() ^= 1;
    let head = store.head(&org).unwrap().unwrap();
    let group = OrgGroup { org: &org, base: Base::from(&head), erase: false, head: Some(head), rows: &rows };
    store.commit(&Group { orgs: vec![group] }).unwrap();
}

/// C039
#[tokio::test(flavor = "multi_thread")]
async fn c039_one_unreadable_secret_fails_alone() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    for n in 1..=3 {
        admin
            .run(&format!(
                "CREATE SECRET s{n} AS 'former {n}'; ALTER SECRET s{n} AS 'value {n}' GRACE '1 hour';
                 CREATE CATALOG c{n} USING mock WITH (password = SECRET s{n})"
            ))
            .await;
    }
    damage(rig.store.as_ref(), "s2");
    let resolver = resolver(&rig);
    let catalogs = resolver.catalogs(&OrgName::default_org()).unwrap();
    let unreadable: Vec<_> =
        catalogs.iter().map(|c| c.unreadable.iter().map(Name::as_str).collect::<Vec<_>>()).collect();
    assert_eq!(unreadable, [vec![], vec!["s2"], vec![]]);
    assert!(catalogs[1].to_json().to_string().contains(r#""unreadable":["s2"]"#));
    let lost = ResolveError::Sealed { secret: Name::new("s2").unwrap(), error: VaultError::Damaged };
    assert_eq!(resolver.resolve(&secret("s2")).unwrap_err(), lost);
    assert_eq!((value(&resolver, "s1"), value(&resolver, "s3")), ("value 1".to_owned(), "value 3".to_owned()));
    // Its former value is another record.
    assert_eq!(resolver.resolve_version(&secret("s2"), 1).unwrap().open(), "former 2");

    // A key that is not there is told apart from damage, secret by secret.
    let other = Resolver::new(rig.store.as_ref(), KeyRing::parse(OTHER_KEY).unwrap());
    for name in ["s1", "s3"] {
        let error = other.resolve(&secret(name)).unwrap_err();
        assert!(matches!(&error, ResolveError::Sealed { error: VaultError::WrongKey { .. }, .. }), "{error}");
    }
    let none = Resolver::new(rig.store.as_ref(), KeyRing::none());
    assert!(none.resolve(&secret("s1")).is_err());
    assert_eq!(none.catalogs(&OrgName::default_org()).unwrap().len(), 3);
}
