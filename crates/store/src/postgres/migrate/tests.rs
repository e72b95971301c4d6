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

fn newest() -> i32 {
    embedded::MIGRATIONS.last().unwrap().number
}

/// Whatever migrations a store has had, the next start applies the others, and its rows stay.
#[test]
fn a_store_of_each_earlier_version_is_brought_up_to_date() {
    for applied in 1..embedded::MIGRATIONS.len() {
        let database = Cluster::shared().database();
        let dsn = Dsn::parse(&database.dsn()).unwrap();
        with_connection(&dsn, async |client, _| {
            let place = runner::Place::read(client).await?;
            for migration in &embedded::MIGRATIONS[..applied] {
                runner::apply(client, migration, &place, Some([7; 16])).await?;
            }
            Ok(())
        })
        .unwrap();
        database.execute(
            "SET search_path = dataglot;
             INSERT INTO heads VALUES ('o', 1, 1, 2, 0);
             INSERT INTO objects (org, key, format, checksum, body, id, owner)
                  VALUES ('o', '{catalog,c}', 1, 1, '{}', 1, 'a'), ('o', '{role,a}', 1, 1, '{}', 2, NULL);
             INSERT INTO role_members (org, role, member, format, checksum, body) VALUES ('o', 'a', 'b', 1, 1, '{}');
             INSERT INTO grants (org, key, format, checksum, body) VALUES ('o', '{system,public,a}', 1, 1, '{}')",
        );
        let rows = "SELECT o::text FROM dataglot.objects o UNION ALL SELECT m::text FROM dataglot.role_members m \
                    UNION ALL SELECT g::text FROM dataglot.grants g UNION ALL SELECT h::text FROM dataglot.heads h";
        let before = database.query(rows);
        assert_eq!(before.len(), 5);
        let pending = check(&dsn).unwrap();
        assert_eq!(pending.len(), embedded::MIGRATIONS.len() - applied, "{pending:?}");

        assert_eq!(start(&dsn, None), Ok(()));
        assert_eq!(check(&dsn).unwrap(), []);
        assert_eq!(database.query(rows), before);
        assert_eq!(status(&dsn).unwrap().store_id, Some([7; 16]));
    }
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
    database.execute("INSERT INTO dataglot.migrations VALUES (1000, 'later', 'x', now(), 'y', '9.9')");
    assert_eq!(start(&dsn, None), Err(MigrationError::Newer { found: 1000, known: newest() }));
    database.execute(
        "ALTER TABLE dataglot.migrations DISABLE TRIGGER append_only; \
         DELETE FROM dataglot.migrations WHERE number = 1000; UPDATE dataglot.migrations SET checksum = 'x'",
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
