//! What a server that starts makes of the schema that it finds.

use dataglot_pgtest::{Cluster, Database};

use super::*;

fn dsn_of(database: &Database, role: &str) -> Dsn {
    Dsn::parse(&database.superuser_dsn().replace("user=postgres", &format!("user={role}"))).unwrap()
}

fn start(dsn: &Dsn, store_id: Option<[u8; 16]>) -> Result<(), MigrationError> {
    let Err(error) = with_connection(dsn, async |client, _| ensure(client, store_id).await) else { return Ok(()) };
    let StoreError::Postgres(error) = error else { panic!("{error}") };
    let PostgresError::Migration(error) = *error else { panic!("{error}") };
    Err(error)
}

fn role(database: &Database) -> String {
    let role = format!("{}_starts", database.name());
    database.execute(&format!("DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN"));
    role
}

#[test]
fn the_owner_s_server_makes_the_store() {
    let database = Cluster::shared().database();
    let dsn = Dsn::parse(&database.dsn()).unwrap();
    assert_eq!(start(&dsn, Some([3; 16])), Ok(()));
    assert_eq!(status(&dsn).unwrap().store_id, Some([3; 16]));
    assert_eq!(check(&dsn).unwrap(), []);
    assert_eq!(start(&dsn, None), Ok(()));
    // As a copy it takes another id, while it is empty.
    assert_eq!(start(&dsn, Some([4; 16])), Ok(()));
    database.execute("INSERT INTO dataglot.heads VALUES ('o', 1, 0, 1, 0)");
    assert_eq!(start(&dsn, Some([5; 16])), Err(MigrationError::OtherStore));
    assert_eq!(status(&dsn).unwrap().store_id, Some([4; 16]));
}

#[test]
fn a_start_on_a_store_that_is_up_to_date_takes_no_lock() {
    let database = Cluster::shared().database();
    let dsn = Dsn::parse(&database.dsn()).unwrap();
    up(&dsn, UpOptions::default()).unwrap();
    // The lock is not to be had: this session keeps it to its end.
    with_connection(&dsn, async |client, _| {
        client.batch_execute("SELECT pg_advisory_lock(x'64617461676c6f74'::bigint)").await.unwrap();
        let other = dsn.clone();
        std::thread::spawn(move || start(&other, None)).join().unwrap()
    })
    .unwrap();
}

#[test]
fn who_only_serves_is_told_what_to_ask_for() {
    let database = Cluster::shared().database();
    let (owner, role) = (Dsn::parse(&database.dsn()).unwrap(), role(&database));
    let dsn = dsn_of(&database, &role);
    let command = format!("dataglot migrate up --store \"dsn=…\" --role '{role}'");
    let Err(MigrationError::NoRights { command: named, .. }) = start(&dsn, None) else { panic!("it was let") };
    assert_eq!(named, command);

    up(&owner, UpOptions::default()).unwrap();
    let missing = |error| match error {
        Err(MigrationError::NotGranted { missing, command: named, .. }) => {
            assert_eq!(named, command);
            missing
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(missing(start(&dsn, None)), ["USAGE on schema dataglot"]);
    database.execute(&format!("GRANT USAGE ON SCHEMA dataglot TO {role}"));
    assert_eq!(missing(start(&dsn, None)), ["SELECT on migrations"]);
    up(&owner, UpOptions { grant_to: Some(role.clone()), store_id: None }).unwrap();
    assert_eq!(start(&dsn, None), Ok(()));
    database.execute(&format!("REVOKE UPDATE ON dataglot.heads FROM {role}"));
    assert_eq!(missing(start(&dsn, None)), ["UPDATE on heads"]);
}

#[test]
fn a_store_that_is_not_ours_is_refused() {
    let database = Cluster::shared().database();
    let dsn = Dsn::parse(&database.dsn()).unwrap();
    up(&dsn, UpOptions::default()).unwrap();
    database.execute("INSERT INTO dataglot.migrations VALUES (2, 'later', 'x', now(), 'y', '9.9')");
    assert_eq!(start(&dsn, None), Err(MigrationError::Newer { found: 2, known: 1 }));
    database.execute(
        "ALTER TABLE dataglot.migrations DISABLE TRIGGER append_only; DELETE FROM dataglot.migrations WHERE number = 2; \
         UPDATE dataglot.migrations SET checksum = 'x'",
    );
    assert_eq!(start(&dsn, None), Err(MigrationError::Edited { number: 1, name: "control_plane".to_owned() }));
}

#[test]
fn another_one_that_is_at_it_for_too_long_is_named() {
    let database = Cluster::shared().database();
    let dsn = Dsn::parse(&database.dsn()).unwrap();
    with_connection(&dsn, async |client, _| {
        let row = client
            .query_one("SELECT pg_backend_pid(), pg_advisory_lock(x'64617461676c6f74'::bigint)::text", &[])
            .await
            .unwrap();
        let holder: i32 = row.get(0);
        let other = dsn.clone();
        let busy = std::thread::spawn(move || {
            with_connection(&other, async |client, _| runner::lock(client, "1ms").await).unwrap_err()
        });
        let expected = Box::new(PostgresError::from(MigrationError::Busy { pid: Some(holder) }));
        assert_eq!(busy.join().unwrap(), StoreError::Postgres(expected));
        Ok(())
    })
    .unwrap();
}
