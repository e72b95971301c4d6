//! SET, SHOW and RESET, roles and startup parameters.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use common::Rig;

#[tokio::test]
async fn c085_reported_settings() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let names: Vec<&str> = admin.session.parameters().iter().map(|(n, _)| *n).collect();
    for wanted in [
        "server_version",
        "server_encoding",
        "client_encoding",
        "standard_conforming_strings",
        "DateStyle",
        "IntervalStyle",
        "TimeZone",
        "integer_datetimes",
        "is_superuser",
        "session_authorization",
        "application_name",
    ] {
        assert!(names.contains(&wanted), "{wanted}");
    }
    admin
        .check(
            "SET application_name = 'x'; SET client_encoding = 'UTF8'; SET TimeZone = 'Europe/Berlin'
             SET application_name = 'x'
             SHOW application_name
             SHOW timezone
             BEGIN
             SET application_name = 'y'
             ROLLBACK
             BEGIN
             SET LOCAL application_name = 'z'
             COMMIT",
            "C SET
             C SET
             C SET
             S application_name=x
             S TimeZone=Europe/Berlin
             Z I
             C SET
             Z I
             T application_name
             D x
             C SHOW
             Z I
             T TimeZone
             D Europe/Berlin
             C SHOW
             Z I
             C BEGIN
             Z T
             C SET
             S application_name=y
             Z T
             C ROLLBACK
             S application_name=x
             Z I
             C BEGIN
             Z T
             C SET
             S application_name=z
             Z T
             C COMMIT
             S application_name=x
             Z I",
        )
        .await;
}

#[tokio::test]
async fn bad_settings_name_the_setting_and_never_the_value() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .check(
            "SET nope = 1
             SHOW nope
             RESET nope
             SET statement_timeout = 'CANARY-7Q'
             SET client_encoding = 'LATIN1'
             SET standard_conforming_strings = off
             SET server_version = '9'
             SET org = 'x'
             SET LOCAL dry_run = on
             ALTER ROLE admin SET statement_timeout = 'CANARY-7Q'
             ALTER ROLE admin SET nope = 1",
            "ERROR 42704: unrecognized configuration parameter \"nope\" @5
             Z I
             ERROR 42704: unrecognized configuration parameter \"nope\" @6
             Z I
             ERROR 42704: unrecognized configuration parameter \"nope\" @7
             Z I
             ERROR 22023: invalid value for parameter \"statement_timeout\" @5
             Z I
             ERROR 22023: invalid value for parameter \"client_encoding\" @5
             Z I
             ERROR 22023: invalid value for parameter \"standard_conforming_strings\" @5
             Z I
             ERROR 55P02: parameter \"server_version\" cannot be changed @5
             Z I
             ERROR 0A000: changing the org of a session is not supported @5
             Z I
             WARNING 25P01: SET LOCAL can only be used in transaction blocks
             C SET
             Z I
             ERROR 22023: invalid value for parameter \"statement_timeout\" @22
             Z I
             ERROR 42704: unrecognized configuration parameter \"nope\" @22
             Z I",
        )
        .await;
}

#[tokio::test]
async fn startup_parameters() {
    let rig = Rig::new().await;
    let parameters = [
        ("application_name", "app"),
        ("options", "-c statement_timeout=5000 --search-path=pg.sales"),
        ("DateStyle", "ISO"),
    ];
    let mut client = rig.try_login("admin", Some("postgres"), &parameters).await.unwrap();
    assert_eq!(client.rows("SHOW statement_timeout").await, ["5s"]);
    assert_eq!(client.rows("SHOW search_path").await, ["pg.sales"]);
    client.ok("SET statement_timeout = 0\nRESET ALL").await;
    assert_eq!(client.rows("SHOW statement_timeout").await, ["5s"]);
    let refused = rig.try_login("admin", None, &[("nope", "1")]).await.err().unwrap();
    assert_eq!((refused.sqlstate.code(), refused.severity.as_str()), ("42704", "FATAL"));
}

#[tokio::test]
async fn logins_that_are_refused_look_alike() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .ok("CREATE ROLE nologin
             CREATE USER expired VALID UNTIL '2020-01-01'
             CREATE USER one CONNECTION LIMIT 1")
        .await;
    let refusal = async |user: &str, database: Option<&str>| {
        rig.try_login(user, database, &[]).await.err().map(|r| (r.sqlstate.code(), r.message))
    };
    let unknown = refusal("ghost", None).await;
    assert_eq!(unknown, Some(("28000", "role \"ghost\" does not exist".to_owned())));
    assert_eq!(refusal("ghost", Some("no_such_org")).await, unknown);
    assert_eq!(refusal("admin", Some("no_such_org")).await.unwrap().0, "28000");
    assert_eq!(refusal("nologin", None).await.unwrap().0, "28000");
    assert_eq!(refusal("expired", None).await.unwrap().0, "28000");
    let one = rig.login("one").await;
    assert_eq!(refusal("one", None).await.unwrap().0, "53300");
    drop(one);
    assert_eq!(refusal("one", None).await, None);
}

#[tokio::test]
async fn roles_of_a_session() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .check(
            "CREATE USER u
             SHOW is_superuser
             SET ROLE u
             CREATE ROLE x
             SHOW role
             RESET ROLE
             BEGIN
             SET LOCAL ROLE u
             SELECT current_user, session_user
             COMMIT
             SELECT current_user
             SET SESSION AUTHORIZATION u
             SET ROLE admin
             SET SESSION AUTHORIZATION DEFAULT
             SET ROLE nope",
            "C CREATE ROLE
             Z I
             T is_superuser
             D on
             C SHOW
             Z I
             C SET
             S is_superuser=off
             Z I
             ERROR 42501: permission denied to create role
             Z I
             T role
             D u
             C SHOW
             Z I
             C SET
             S is_superuser=on
             Z I
             C BEGIN
             Z T
             C SET
             S is_superuser=off
             Z T
             T current_user|session_user
             D u|admin
             C SELECT 1
             Z T
             C COMMIT
             S is_superuser=on
             Z I
             T current_user
             D admin
             C SELECT 1
             Z I
             C SET
             S is_superuser=off
             S session_authorization=u
             Z I
             ERROR 42704: role \"admin\" does not exist @10
             Z I
             C SET
             S is_superuser=on
             S session_authorization=admin
             Z I
             ERROR 42704: role \"nope\" does not exist @10
             Z I",
        )
        .await;
}

#[tokio::test]
async fn a_dropped_user_is_shown_the_door() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin.ok("CREATE USER u").await;
    let mut user = rig.login("u").await;
    user.check("CREATE ROLE x", "ERROR 42501: permission denied to create role\nZ I").await;
    admin.ok("ALTER ROLE u RENAME TO v").await;
    user.check("SELECT current_user", "T current_user\nD v\nC SELECT 1\nS session_authorization=v\nZ I").await;
    admin.ok("DROP ROLE v\nCREATE USER v").await;
    user.check("SELECT 1", "FATAL 28000: terminating connection because its role was dropped\nZ I").await;
}

#[tokio::test]
async fn discard_all() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin.ok("CREATE USER u\nSET statement_timeout = 1000\nSET ROLE u\nLISTEN dataglot_changes").await;
    admin
        .check(
            "BEGIN
             DISCARD ALL
             ROLLBACK
             DISCARD ALL
             SHOW statement_timeout
             SHOW role
             DISCARD PLANS
             DEALLOCATE nope
             DEALLOCATE ALL",
            "C BEGIN
             Z T
             ERROR 25001: DISCARD ALL cannot run inside a transaction block
             Z E
             C ROLLBACK
             Z I
             C DISCARD ALL
             S is_superuser=on
             Z I
             T statement_timeout
             D 0
             C SHOW
             Z I
             T role
             D none
             C SHOW
             Z I
             C DISCARD PLANS
             Z I
             ERROR 26000: prepared statement \"nope\" does not exist @12
             Z I
             C DEALLOCATE ALL
             Z I",
        )
        .await;
}
