//! Blocks, implicit transactions and savepoints answer as PostgreSQL does.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use common::Rig;

#[tokio::test]
async fn c077_error_in_the_middle_of_a_simple_query() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .check(
            "CREATE ROLE a; CREATE ROLE a; CREATE ROLE b;",
            "C CREATE ROLE
             ERROR 42710: role \"a\" already exists @28
             Z I",
        )
        .await;
    assert!(admin.rows("SHOW ROLES LIKE 'a'").await.is_empty());
}

#[tokio::test]
async fn a_syntax_error_applies_nothing_and_answers_nothing() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .check("CREATE ROLE a; SELEKT 1; CREATE ROLE b", "ERROR 42601: syntax error at or near \"SELEKT\" @16\nZ I")
        .await;
    // An earlier fault of another kind does not come before it.
    admin.check("DROP ROLE nope; SELEKT 1", "ERROR 42601: syntax error at or near \"SELEKT\" @17\nZ I").await;
    // Nor does a COMMIT in the string.
    admin.check("CREATE ROLE a; COMMIT; SELEKT 1", "ERROR 42601: syntax error at or near \"SELEKT\" @24\nZ I").await;
    assert!(admin.rows("SHOW ROLES LIKE 'a'").await.is_empty());
}

/// A long script is parsed ahead: not past what its parsing depends on.
#[tokio::test]
async fn a_search_path_set_in_a_long_script_holds_for_the_rest_of_it() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let sets = [
        ("SET search_path = a", "dataglot.a.v"),
        ("SELECT set_config('search_path', 'b', false)", "dataglot.b.v"),
        ("SELECT pg_catalog.set_config('search_path', 'c', true)", "dataglot.c.v"),
    ];
    for (set, view) in sets {
        let script = format!("{set};{}CREATE VIEW v AS SELECT 1", "CREATE ROLE IF NOT EXISTS r;".repeat(1_000));
        admin.ok(&script).await;
        admin.ok(&format!("SHOW CREATE VIEW {view}")).await;
        let script = format!("{}{set};CREATE VIEW w AS SELECT 1", "CREATE ROLE IF NOT EXISTS r;".repeat(1_000));
        admin.ok(&script).await;
        admin.ok(&format!("DROP VIEW {view}, {}", view.replace(".v", ".w"))).await;
    }
}

#[tokio::test]
async fn inner_commit_and_begin() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .check(
            "CREATE ROLE x; COMMIT; DROP ROLE nope",
            "C CREATE ROLE
             WARNING 25P01: there is no transaction in progress
             C COMMIT
             ERROR 42704: role \"nope\" does not exist @34
             Z I",
        )
        .await;
    admin
        .check(
            "CREATE ROLE y; BEGIN; CREATE ROLE z
             ROLLBACK",
            "C CREATE ROLE
             C BEGIN
             C CREATE ROLE
             Z T
             C ROLLBACK
             Z I",
        )
        .await;
    assert_eq!(admin.rows("SHOW ROLES LIKE '_'").await.len(), 1);
}

#[tokio::test]
async fn a_failed_block_waits_for_its_end() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .check(
            "BEGIN
             CREATE ROLE a
             DROP ROLE nope
             CREATE ROLE b
             SHOW ROLES
             BEGIN
             SELEKT 1
             COMMIT
             COMMIT
             ROLLBACK",
            "C BEGIN
             Z T
             C CREATE ROLE
             Z T
             ERROR 42704: role \"nope\" does not exist @11
             Z E
             ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block
             Z E
             ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block
             Z E
             ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block
             Z E
             ERROR 42601: syntax error at or near \"SELEKT\" @1
             Z E
             C ROLLBACK
             Z I
             WARNING 25P01: there is no transaction in progress
             C COMMIT
             Z I
             WARNING 25P01: there is no transaction in progress
             C ROLLBACK
             Z I",
        )
        .await;
    assert!(admin.rows("SHOW ROLES LIKE 'a'").await.is_empty());
}

#[tokio::test]
async fn savepoints() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .check(
            "SAVEPOINT s
             CREATE ROLE x; SAVEPOINT s
             BEGIN
             CREATE ROLE a
             SAVEPOINT s
             CREATE ROLE b
             DROP ROLE nope
             ROLLBACK TO s
             CREATE ROLE c
             RELEASE s
             ROLLBACK TO s
             ROLLBACK TO SAVEPOINT s
             COMMIT",
            "ERROR 25P01: SAVEPOINT can only be used in transaction blocks
             Z I
             C CREATE ROLE
             ERROR 25P01: SAVEPOINT can only be used in transaction blocks
             Z I
             C BEGIN
             Z T
             C CREATE ROLE
             Z T
             C SAVEPOINT
             Z T
             C CREATE ROLE
             Z T
             ERROR 42704: role \"nope\" does not exist @11
             Z E
             C ROLLBACK
             Z T
             C CREATE ROLE
             Z T
             C RELEASE
             Z T
             ERROR 3B001: savepoint \"s\" does not exist @13
             Z E
             ERROR 3B001: savepoint \"s\" does not exist @23
             Z E
             C ROLLBACK
             Z I",
        )
        .await;
    admin.ok("BEGIN\nCREATE ROLE a\nSAVEPOINT s\nCREATE ROLE b\nROLLBACK TO s\nCREATE ROLE c\nCOMMIT").await;
    let names: Vec<_> =
        admin.rows("SHOW ROLES LIKE '_'").await.iter().map(|r| r.split('|').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["a", "c"]);
}

#[tokio::test]
async fn read_only_and_modes() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .check(
            "BEGIN READ ONLY
             DROP ROLE IF EXISTS nope
             ROLLBACK
             BEGIN
             SHOW CURRENT ROLES
             SET TRANSACTION ISOLATION LEVEL READ COMMITTED
             ROLLBACK
             SET TRANSACTION READ ONLY
             START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY
             SHOW transaction_isolation
             SHOW transaction_read_only
             COMMIT AND CHAIN
             SHOW transaction_isolation
             BEGIN
             ROLLBACK
             COMMIT AND CHAIN",
            "C BEGIN
             Z T
             ERROR 25006: cannot execute DROP ROLE in a read-only transaction
             Z E
             C ROLLBACK
             Z I
             C BEGIN
             Z T
             T role
             D admin
             C SHOW
             Z T
             ERROR 25001: SET TRANSACTION ISOLATION LEVEL must be called before any query
             Z E
             C ROLLBACK
             Z I
             WARNING 25P01: SET TRANSACTION can only be used in transaction blocks
             C SET
             Z I
             C START TRANSACTION
             Z T
             T transaction_isolation
             D repeatable read
             C SHOW
             Z T
             T transaction_read_only
             D on
             C SHOW
             Z T
             C COMMIT
             Z T
             T transaction_isolation
             D repeatable read
             C SHOW
             Z T
             WARNING 25001: there is already a transaction in progress
             C BEGIN
             Z T
             C ROLLBACK
             Z I
             ERROR 25P01: COMMIT AND CHAIN can only be used in transaction blocks
             Z I",
        )
        .await;
}

#[tokio::test]
async fn default_read_only_holds_for_the_direct_road_too() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin.run("SET default_transaction_read_only = on").await;
    admin.check("CREATE ROLE a", "ERROR 25006: cannot execute CREATE ROLE in a read-only transaction\nZ I").await;
    admin.check("CREATE ORG o", "ERROR 25006: cannot execute CREATE ORG in a read-only transaction\nZ I").await;
}

#[tokio::test]
async fn dry_run_commits_nothing() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .check(
            "SET dry_run = on
             CREATE ROLE a
             BEGIN
             CREATE ROLE a
             COMMIT
             CREATE ROLE a; CREATE ROLE b
             SHOW ROLES LIKE 'a'",
            "C SET
             Z I
             NOTICE 00000: dry run: nothing was committed
             C CREATE ROLE
             Z I
             C BEGIN
             Z T
             C CREATE ROLE
             Z T
             NOTICE 00000: dry run: nothing was committed
             C ROLLBACK
             Z I
             C CREATE ROLE
             NOTICE 00000: dry run: nothing was committed
             C CREATE ROLE
             Z I
             T name|login|superuser|createrole|inherit|bypassrls|connection_limit|valid_until|has_password|member_of|comment|version|created|changed
             C SHOW
             Z I",
        )
        .await;
}

#[tokio::test]
async fn a_stale_block_is_planned_again() {
    let rig = Rig::new().await;
    let (mut one, mut two) = (rig.admin().await, rig.admin().await);
    // Nothing that concerns it has changed: it commits.
    one.ok("BEGIN\nCREATE ROLE a").await;
    two.ok("CREATE ROLE b").await;
    one.check("COMMIT", "C COMMIT\nZ I").await;
    // It would answer otherwise now.
    one.ok("BEGIN\nCREATE ROLE c").await;
    two.ok("CREATE ROLE c").await;
    one.check("COMMIT", "ERROR 40001: could not serialize access due to concurrent update\nZ I").await;
    // It would say "skipping" now, which its client was not told.
    one.ok("BEGIN\nCREATE ROLE IF NOT EXISTS d").await;
    two.ok("CREATE ROLE d").await;
    one.check("COMMIT", "ERROR 40001: could not serialize access due to concurrent update\nZ I").await;
}

#[tokio::test]
async fn a_long_block_is_read_again_when_stale() {
    let rig = Rig::new().await;
    let (mut one, mut two) = (rig.admin().await, rig.admin().await);
    one.ok("BEGIN").await;
    for i in 0..1_100 {
        one.ok(&format!("CREATE ROLE r{i} CONNECTION LIMIT {i} COMMENT 'it''s {i}'")).await;
    }
    two.ok("CREATE ROLE other").await;
    one.check("COMMIT", "C COMMIT\nZ I").await;
    assert_eq!(one.rows("SHOW ROLES LIKE 'r%'").await.len(), 1_100);
    let last = one.rows("SHOW CREATE ROLE r1099").await;
    assert!(last[0].contains("CONNECTION LIMIT 1099"), "{last:?}");
}

#[tokio::test]
async fn what_changes_nothing_is_no_transaction() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin.ok("CREATE ROLE a").await;
    let before = admin.rows("SHOW CHANGES SINCE 0").await.len();
    admin.ok("CREATE ROLE IF NOT EXISTS a\nCREATE ROLE IF NOT EXISTS a; DROP ROLE IF EXISTS b").await;
    assert_eq!(admin.rows("SHOW CHANGES SINCE 0").await.len(), before);
    admin.ok("SET verbose_noop = on").await;
    admin
        .check(
            "ALTER ROLE a NOLOGIN",
            "NOTICE 00000: nothing to change
             C ALTER ROLE
             Z I",
        )
        .await;
}

#[tokio::test]
async fn orgs_are_made_outside_of_blocks() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .check(
            "CREATE ROLE a; CREATE ORG o
             BEGIN
             CREATE ORG o
             ROLLBACK
             CREATE ORG o",
            "C CREATE ROLE
             ERROR 25001: CREATE ORG cannot run inside a transaction block
             Z I
             C BEGIN
             Z T
             ERROR 25001: CREATE ORG cannot run inside a transaction block
             Z E
             C ROLLBACK
             Z I
             C CREATE ORG
             Z I",
        )
        .await;
    let mut other = rig.try_login("admin", Some("o"), &[]).await.unwrap();
    other.ok("CREATE ROLE only_there").await;
    assert!(admin.rows("SHOW ROLES LIKE 'only_there'").await.is_empty());
    assert_eq!(admin.rows("SHOW ORGS").await.len(), 2);
    other.check("SHOW ORGS", "ERROR 42501: permission denied to show orgs\nZ I").await;
    admin.ok("DROP ORG o CASCADE").await;
    other.check("SHOW ROLES", "FATAL 57P01: terminating connection because its org was dropped\nZ I").await;
    assert!(other.session.terminate_reason().is_some());
}

/// C051: what is revoked is gone for open sessions too, for what they had prepared, and for a block
/// that was begun before.
#[tokio::test]
async fn c051_revoked_in_an_open_session() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin.ok("CREATE USER boss SUPERUSER").await;
    let (mut one, mut two) = (rig.login("boss").await, rig.login("boss").await);
    let mut out = Vec::new();
    one.session.parse("p", "CREATE ROLE x", &[], &mut out).await;
    two.ok("BEGIN\nCREATE ROLE y").await;
    admin.ok("ALTER USER boss NOSUPERUSER").await;
    one.check("CREATE ROLE x", "ERROR 42501: permission denied to create role\nS is_superuser=off\nZ I").await;
    out.clear();
    one.session.bind("", "p", &[], vec![], &[], &mut out).await;
    one.session.execute("", 0, &mut out).await;
    one.session.sync(&mut out).await;
    assert_eq!(common::render(&out), "2\nERROR 42501: permission denied to create role\n");
    two.check("COMMIT", "ERROR 40001: could not serialize access due to concurrent update\nS is_superuser=off\nZ I")
        .await;
    assert!(admin.rows("SHOW ROLES LIKE '_'").await.is_empty());
}
