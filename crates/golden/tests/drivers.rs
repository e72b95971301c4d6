//! Stock drivers against the server: what they prepare, look up and expect.

#![allow(clippy::unwrap_used, reason = "a test's own helpers")]

use dataglot_golden::backend::Backend;
use dataglot_golden::rig::Rig;
use tokio_postgres::NoTls;
use tokio_postgres::types::Type;

/// tokio-postgres prepares everything, looks up types that it does not know, and reads results in
/// binary. SHOW has columns of types that it knows, so there is nothing to look up.
#[test]
fn c089_tokio_postgres_prepares_ddl_and_reads_show() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for backend in Backend::ALL {
        let rig = Rig::start(backend).unwrap();
        let port = rig.address().unwrap().port();
        runtime.block_on(async {
            let settings = format!("host=127.0.0.1 port={port} user=admin dbname=default application_name=driver");
            let (mut client, connection) = tokio_postgres::connect(&settings, NoTls).await.unwrap();
            tokio::spawn(connection);

            assert_eq!(client.execute("CREATE ROLE r", &[]).await.unwrap(), 0);
            let made =
                client.execute("CREATE USER u PASSWORD $1 VALID UNTIL $2", &[&"canary-p$1", &"2031-01-01"]).await;
            assert_eq!(made.unwrap(), 0);

            let rows = client.query("SHOW ROLES", &[]).await.unwrap();
            let user = rows.iter().find(|row| row.get::<_, &str>("name") == "u").unwrap();
            assert!(user.get::<_, bool>("login"));
            assert_eq!(user.get::<_, i32>("connection_limit"), -1);
            assert_eq!(user.get::<_, i64>("version"), 1);
            let created = user.columns().iter().find(|c| c.name() == "created").unwrap();
            assert_eq!(*created.type_(), Type::TIMESTAMPTZ);

            let transaction = client.transaction().await.unwrap();
            transaction.execute("CREATE ROLE gone", &[]).await.unwrap();
            let error = transaction.execute("CREATE ROLE gone", &[]).await.unwrap_err();
            assert_eq!(error.code().unwrap().code(), "42710");
            transaction.rollback().await.unwrap();

            let statement = client.prepare("SHOW ROLES").await.unwrap();
            for _ in 0..6 {
                assert_eq!(client.query(&statement, &[]).await.unwrap().len(), 3);
            }
            client.batch_execute("DEALLOCATE ALL; GRANT r TO u").await.unwrap();
            let error = client.batch_execute("CREATE CATALOG c USING mock WITH (port = 'x')").await.unwrap_err();
            let error = error.as_db_error().unwrap().clone();
            assert_eq!(error.code().code(), "22023");
            assert_eq!(error.position(), Some(&tokio_postgres::error::ErrorPosition::Original(42)));
        });
    }
}
