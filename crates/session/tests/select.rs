//! What drivers and GUI tools ask at start is answered (C087).

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use common::Rig;

#[tokio::test]
async fn c087_probing() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .check(
            "SET extra_float_digits = 3
             SELECT current_schema(), session_user
             SHOW search_path
             SHOW TRANSACTION ISOLATION LEVEL
             SELECT n.oid, n.nspname FROM pg_catalog.pg_namespace n
             SELECT db.oid, db.datname FROM pg_catalog.pg_database db WHERE datname = 'control'
             SELECT datname FROM pg_database
             SELECT set_config('bytea_output','hex',false)
             SELECT 1
             SELECT oid, typname FROM pg_type WHERE typname IN ('text', 'bool') ORDER BY typname DESC LIMIT 1
             SELECT rolname FROM pg_roles WHERE rolsuper AND rolname LIKE 'ad%'
             SELECT current_setting('nope', true) IS NULL, current_setting('application_name')",
            "C SET
             Z I
             T current_schema|session_user
             D public|admin
             C SELECT 1
             Z I
             T search_path
             D public
             C SHOW
             Z I
             T transaction_isolation
             D serializable
             C SHOW
             Z I
             T oid|nspname
             D 11|pg_catalog
             D 13000|information_schema
             D 2200|public
             C SELECT 3
             Z I
             T oid|datname
             C SELECT 0
             Z I
             T datname
             D default
             C SELECT 1
             Z I
             T set_config
             D hex
             C SELECT 1
             Z I
             T ?column?
             D 1
             C SELECT 1
             Z I
             T oid|typname
             D 25|text
             C SELECT 1
             Z I
             T rolname
             D admin
             C SELECT 1
             Z I
             T ?column?|current_setting
             D t|
             C SELECT 1
             Z I",
        )
        .await;
    let version = admin.rows("SELECT version()").await;
    assert!(version[0].starts_with("PostgreSQL ") && version[0].contains("dataglot"), "{version:?}");
}

#[tokio::test]
async fn what_is_not_there() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .check(
            "SELECT nope FROM pg_type
             SELECT nope()
             SELECT * FROM orders
             SELECT current_setting('nope')",
            "ERROR 42703: column \"nope\" does not exist @8
             Z I
             ERROR 42883: function nope() does not exist @8
             Z I
             ERROR 0A000: relation \"orders\" cannot be queried here @15
             Z I
             ERROR 42704: unrecognized configuration parameter
             Z I",
        )
        .await;
}
