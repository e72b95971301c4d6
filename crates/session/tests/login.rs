//! The right to log in is looked at again by every statement of an open session, and before anything is committed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use common::{Client, Rig, render};

/// What ends the right of the user `u`, who came in by a password, and how its session is told.
const ENDS: [(&str, &str); 6] = [
    ("ALTER USER u NOLOGIN", "28000: terminating connection because its role is no longer permitted to log in"),
    ("ALTER USER u VALID UNTIL '2001-01-01'", "28000: terminating connection because its role has expired"),
    ("ALTER USER u PASSWORD 'another'", "28000: terminating connection because its role has another password now"),
    ("ALTER USER u PASSWORD NULL", "28000: terminating connection because its role has another password now"),
    (
        "ALTER USER u NOSUPERUSER CONNECTION LIMIT 0",
        "53300: terminating connection because its role has too many connections",
    ),
    ("DROP USER u", "28000: terminating connection because its role was dropped"),
];

async fn user(admin: &mut Client, rig: &Rig) -> Client {
    admin.ok("DROP USER IF EXISTS u\nCREATE USER u PASSWORD 'one' SUPERUSER").await;
    rig.login_by_password("u").await
}

#[tokio::test]
async fn a_11_commit_asks_for_the_right_to_log_in() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    for (ends, told) in ENDS {
        for begun in ["BEGIN\nCREATE ROLE x", "BEGIN\nSAVEPOINT a\nCREATE ROLE x\nRELEASE a", "BEGIN"] {
            let mut session = user(&mut admin, &rig).await;
            session.ok(begun).await;
            admin.ok(ends).await;
            let said = session.run("COMMIT").await;
            assert_eq!(said, format!("FATAL {told}\nZ I\n"), "{ends}");
            assert!(session.session.terminate_reason().is_some());
            assert!(admin.rows("SHOW ROLES LIKE 'x'").await.is_empty(), "{ends}");
        }
    }
}

#[tokio::test]
async fn a_11_sync_asks_for_the_right_to_log_in() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    for (ends, told) in ENDS {
        let mut session = user(&mut admin, &rig).await;
        let mut out = Vec::new();
        // Two statements, so that neither is decided by itself.
        for sql in ["CREATE ROLE x", "CREATE ROLE y"] {
            session.session.parse("", sql, &[], &mut out).await;
            session.session.bind("", "", &[], Vec::new(), &[], &mut out).await;
            session.session.execute("", 0, &mut out).await;
        }
        assert_eq!(render(&out), "1\n2\nC CREATE ROLE\n1\n2\nC CREATE ROLE\n");
        admin.ok(ends).await;
        out.clear();
        session.session.sync(&mut out).await;
        assert_eq!(render(&out), format!("FATAL {told}\n"), "{ends}");
        assert!(admin.rows("SHOW ROLES LIKE '_'").await.iter().all(|row| !row.starts_with(['x', 'y'])), "{ends}");
    }
}

#[tokio::test]
async fn a_11_every_statement_asks_for_the_right_to_log_in() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let outside = [
        "BEGIN",
        "SET application_name = 'a'",
        "RESET ALL",
        "SHOW application_name",
        "LISTEN dataglot_changes",
        "UNLISTEN *",
        "DISCARD PLANS",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    ];
    for sql in outside {
        let mut session = user(&mut admin, &rig).await;
        admin.ok("ALTER USER u NOLOGIN").await;
        assert!(session.run(sql).await.starts_with("FATAL 28000"), "{sql}");
    }
    for sql in ["SAVEPOINT b", "RELEASE a", "SET TRANSACTION READ ONLY", "SET LOCAL statement_timeout = 1", "COMMIT"] {
        let mut session = user(&mut admin, &rig).await;
        session.ok("BEGIN\nSAVEPOINT a").await;
        admin.ok("ALTER USER u NOLOGIN").await;
        assert!(session.run(sql).await.starts_with("FATAL 28000"), "{sql}");
    }
    // To give up is nobody denied, and neither is to be told that one has failed.
    let mut session = user(&mut admin, &rig).await;
    session.ok("BEGIN\nSAVEPOINT a\nCREATE ROLE x").await;
    admin.ok("ALTER USER u NOLOGIN").await;
    session.ok("ROLLBACK TO a\nROLLBACK").await;
    assert!(session.session.terminate_reason().is_none());
    assert!(session.run("BEGIN").await.starts_with("FATAL 28000"));
}

/// Only the password that a session has set itself, and that is there, is one that it has proved.
#[tokio::test]
async fn a_11_a_password_of_another_s_ends_the_session_whatever_it_did_to_its_own() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let tries = [
        ("BEGIN\nALTER USER u PASSWORD 'two'\nROLLBACK\nBEGIN\nCREATE ROLE x", "ALTER USER u PASSWORD 'another'"),
        (
            "BEGIN\nSAVEPOINT a\nALTER USER u PASSWORD 'two'\nROLLBACK TO a\nCREATE ROLE x",
            "ALTER USER u PASSWORD 'two'",
        ),
        ("BEGIN\nSAVEPOINT a\nALTER USER u PASSWORD NULL\nROLLBACK TO a\nCREATE ROLE x", "ALTER USER u PASSWORD NULL"),
        ("BEGIN\nALTER USER u PASSWORD NULL\nROLLBACK\nBEGIN\nCREATE ROLE x", "ALTER USER u PASSWORD NULL"),
    ];
    for (begun, others) in tries {
        let mut session = user(&mut admin, &rig).await;
        session.ok(begun).await;
        admin.ok(others).await;
        let said = session.run("COMMIT").await;
        assert!(said.contains("has another password now"), "{begun}\n{said}");
        assert!(admin.rows("SHOW ROLES LIKE 'x'").await.is_empty());
    }
    // Refused, and so of no effect on what comes later.
    let mut session = user(&mut admin, &rig).await;
    session
        .check(
            "ALTER USER u IF VERSION 9 PASSWORD 'two'",
            "ERROR 40001: role \"u\" is at version 1, which is not the expected one @25\nZ I",
        )
        .await;
    admin.ok("ALTER USER u PASSWORD 'two'").await;
    assert!(session.run("SHOW ROLES").await.contains("has another password now"));
}

#[tokio::test]
async fn a_11_who_sets_its_own_password_stays() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let mut session = user(&mut admin, &rig).await;

    let mut name = "u";
    for sql in [
        "ALTER USER u PASSWORD 'two'",
        "BEGIN; ALTER USER u PASSWORD 'three'; ALTER USER u PASSWORD 'three'; COMMIT",
        "BEGIN; ALTER USER u PASSWORD 'four'; SAVEPOINT a; ALTER USER u PASSWORD 'five'; ROLLBACK TO a; COMMIT",
        // Sealed again for another name.
        "BEGIN; ALTER USER u PASSWORD 'six'; ALTER USER u RENAME TO v; COMMIT",
        "ALTER USER v PASSWORD ''",
        "ALTER USER v PASSWORD 'seven'",
        "BEGIN; ALTER USER v PASSWORD NULL; COMMIT",
    ] {
        if sql.contains("TO v") {
            name = "v";
        }
        // What others do to the role besides is no reason to go.
        session.ok(sql).await;
        admin.ok(&format!("COMMENT ON ROLE {name} IS '{}'", sql.len())).await;
        session.ok("SHOW ROLES").await;
    }
    admin.ok("ALTER USER v PASSWORD 'another'").await;
    assert!(session.run("SHOW ROLES").await.contains("has another password now"));
}

/// A superuser is not kept out by a limit, as in PostgreSQL: nobody else could lift it.
#[tokio::test]
async fn a_connection_limit_is_none_for_superusers() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin.ok("ALTER ROLE admin CONNECTION LIMIT 0\nSHOW ROLES").await;
    let mut again = rig.admin().await;
    // For who is no superuser any more it is one again.
    again.ok("CREATE USER u SUPERUSER CONNECTION LIMIT 0").await;
    let mut user = rig.login("u").await;
    user.ok("SHOW ROLES").await;
    again.ok("ALTER ROLE u NOSUPERUSER").await;
    user.check("SHOW ROLES", "FATAL 53300: terminating connection because its role has too many connections\nZ I")
        .await;
    let refused = rig.try_login("u", None, &[]).await.err().unwrap();
    assert_eq!(refused.message, "too many connections for role \"u\"");
}
