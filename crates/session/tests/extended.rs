//! The extended protocol, as PostgreSQL answers it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use common::{Client, Rig, render};
use dataglot_session::Response;

#[tokio::test]
async fn c079_ddl_through_parse_bind_describe() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let mut out: Vec<Response> = Vec::new();
    let s = &mut admin.session;
    s.parse("", "CREATE ROLE a", &[], &mut out).await;
    s.describe_statement("", &mut out).await;
    s.bind("", "", &[], vec![], &[], &mut out).await;
    s.describe_portal("", &mut out).await;
    s.execute("", 0, &mut out).await;
    s.sync(&mut out).await;
    assert_eq!(render(&out), "1\nt []\nn\n2\nn\nC CREATE ROLE\n");
    assert_eq!(admin.rows("SHOW ROLES LIKE 'a'").await.len(), 1);
}

#[tokio::test]
async fn c081_parameters_are_values() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let mut out: Vec<Response> = Vec::new();
    admin.session.parse("p", "CREATE USER u1 PASSWORD $1 VALID UNTIL $2", &[], &mut out).await;
    admin.session.describe_statement("p", &mut out).await;
    let values = vec![Some(b"p$1;--".to_vec()), Some(b"2031-01-01".to_vec())];
    admin.session.bind("", "p", &[], values, &[], &mut out).await;
    admin.session.execute("", 0, &mut out).await;
    admin.session.sync(&mut out).await;
    assert_eq!(render(&out), "1\nt [25, 25]\nn\n2\nC CREATE ROLE\n");
    let got = admin.extended("CREATE ROLE $1", &[Some("x")]).await;
    assert!(got.contains("ERROR 42601"), "{got}");
}

#[tokio::test]
async fn faults() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let mut out: Vec<Response> = Vec::new();
    let s = &mut admin.session;
    s.parse("", "CREATE ROLE a; CREATE ROLE b", &[], &mut out).await;
    s.parse("x", "SHOW ROLES", &[], &mut out).await;
    s.parse("x", "SHOW ROLES", &[], &mut out).await;
    s.bind("", "x", &[], vec![None], &[], &mut out).await;
    s.bind("", "nope", &[], vec![], &[], &mut out).await;
    s.bind("", "x", &[], vec![], &[7], &mut out).await;
    s.execute("nope", 0, &mut out).await;
    s.describe_portal("nope", &mut out).await;
    s.describe_statement("nope", &mut out).await;
    s.close_statement("nope", &mut out).await;
    s.close_portal("nope", &mut out).await;
    s.parse("e", "", &[], &mut out).await;
    s.bind("", "e", &[], vec![], &[], &mut out).await;
    s.execute("", 0, &mut out).await;
    s.sync(&mut out).await;
    assert_eq!(
        render(&out),
        "ERROR 42601: cannot insert multiple commands into a prepared statement\n\
         1\n\
         ERROR 42P05: prepared statement \"x\" already exists\n\
         ERROR 08P01: bind message supplies 1 parameters, but prepared statement \"x\" requires 0\n\
         ERROR 26000: prepared statement \"nope\" does not exist\n\
         ERROR 22023: unsupported format code: 7\n\
         ERROR 34000: portal \"nope\" does not exist\n\
         ERROR 34000: portal \"nope\" does not exist\n\
         ERROR 26000: prepared statement \"nope\" does not exist\n\
         3\n3\n1\n2\nI\n"
    );
}

#[tokio::test]
async fn a_pipeline_is_one_transaction() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let mut out: Vec<Response> = Vec::new();
    for sql in ["CREATE ROLE a", "CREATE ROLE a"] {
        admin.session.parse("", sql, &[], &mut out).await;
        admin.session.bind("", "", &[], vec![], &[], &mut out).await;
        admin.session.execute("", 0, &mut out).await;
    }
    admin.session.sync(&mut out).await;
    assert_eq!(render(&out), "1\n2\nC CREATE ROLE\n1\n2\nERROR 42710: role \"a\" already exists @13\n");
    assert!(admin.rows("SHOW ROLES LIKE 'a'").await.is_empty());
}

/// Parse, Bind and Execute, and no Sync yet.
async fn execute(client: &mut Client, sql: &str, out: &mut Vec<Response>) {
    client.session.parse("", sql, &[], out).await;
    client.session.bind("", "", &[], vec![], &[], out).await;
    client.session.execute("", 0, out).await;
}

#[tokio::test]
async fn a_lone_statement_is_told_what_is_the_matter_now() {
    let rig = Rig::new().await;
    let (mut one, mut other) = (rig.admin().await, rig.admin().await);
    let mut out: Vec<Response> = Vec::new();
    execute(&mut one, "CREATE ROLE a", &mut out).await;
    other.ok("CREATE ROLE a").await;
    one.session.sync(&mut out).await;
    assert_eq!(render(&out), "1\n2\nERROR 42710: role \"a\" already exists @13\n");
    // Also where the answer is another one, and no error; and a password is sealed against what is there by then.
    out.clear();
    execute(&mut one, "CREATE ROLE IF NOT EXISTS b PASSWORD 'x'", &mut out).await;
    other.ok("CREATE ROLE b PASSWORD 'y'").await;
    one.session.sync(&mut out).await;
    let text = render(&out);
    assert!(text.contains("role \"b\" already exists, skipping") && text.ends_with("C CREATE ROLE\n"), "{text}");
    // Once an answer was given it has to stay true.
    for sql in ["CREATE ROLE c", "CREATE ROLE d"] {
        out.clear();
        execute(&mut one, sql, &mut out).await;
        if sql.ends_with('c') {
            // Flush
            assert!(one.session.settle(&mut out).await);
        } else {
            one.session.describe_statement("", &mut out).await;
        }
        assert!(render(&out).contains("C CREATE ROLE\n"));
        other.ok(sql).await;
        out.clear();
        one.session.sync(&mut out).await;
        assert!(render(&out).starts_with("ERROR 40001"), "{}", render(&out));
    }
    assert!(one.session.settle(&mut out).await);
}

#[tokio::test]
async fn what_waits_for_the_next_message_keeps_its_place() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let mut out: Vec<Response> = Vec::new();
    // It fails before the next message is looked at.
    execute(&mut admin, "DROP ROLE nobody", &mut out).await;
    admin.session.parse("next", "SHOW ROLES", &[], &mut out).await;
    admin.session.sync(&mut out).await;
    assert_eq!(render(&out), "1\n2\nERROR 42704: role \"nobody\" does not exist @11\n");
    // Something has run before it: one transaction.
    out.clear();
    execute(&mut admin, "SET search_path = a.b", &mut out).await;
    execute(&mut admin, "DROP ROLE nobody", &mut out).await;
    admin.session.sync(&mut out).await;
    assert!(render(&out).ends_with("ERROR 42704: role \"nobody\" does not exist @11\n"));
    assert_eq!(admin.rows("SHOW search_path").await, ["public"]);
    // A dry run is none of it, and neither is a query string in between.
    admin.ok("SET dry_run = on").await;
    assert!(admin.extended("CREATE ROLE a", &[]).await.contains("C CREATE ROLE"));
    admin.ok("SET dry_run = off").await;
    assert!(admin.rows("SHOW ROLES LIKE 'a'").await.is_empty());
    out.clear();
    execute(&mut admin, "CREATE ROLE a", &mut out).await;
    assert_eq!(admin.rows("SHOW ROLES LIKE 'a'").await.len(), 1);
    admin.session.sync(&mut out).await;
    // Whoever goes before Sync has done nothing.
    let mut gone = rig.admin().await;
    execute(&mut gone, "CREATE ROLE z", &mut out).await;
    drop(gone);
    assert!(admin.rows("SHOW ROLES LIKE 'z'").await.is_empty());
}

#[tokio::test]
async fn c089_transaction_words() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    assert_eq!(admin.extended("BEGIN", &[]).await, "1\n2\nn\nC BEGIN\n");
    assert_eq!(admin.extended("CREATE ROLE a", &[]).await, "1\n2\nn\nC CREATE ROLE\n");
    assert_eq!(admin.extended("COMMIT", &[]).await, "1\n2\nn\nC COMMIT\n");
    assert_eq!(admin.rows("SHOW ROLES LIKE 'a'").await.len(), 1);
    let got = admin.extended("DEALLOCATE ALL", &[]).await;
    assert!(got.ends_with("C DEALLOCATE ALL\n"), "{got}");
}

#[tokio::test]
async fn execute_in_pieces_and_in_binary() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin.ok("CREATE ROLE a\nCREATE ROLE b").await;
    let mut out: Vec<Response> = Vec::new();
    let s = &mut admin.session;
    s.parse("", "SELECT rolname, rolsuper FROM pg_roles ORDER BY 1", &[], &mut out).await;
    s.bind("", "", &[], vec![], &[1], &mut out).await;
    s.describe_portal("", &mut out).await;
    s.execute("", 2, &mut out).await;
    s.execute("", 2, &mut out).await;
    s.sync(&mut out).await;
    let formats = out.iter().find_map(|r| if let Response::RowDescription(_, f) = r { Some(f.clone()) } else { None });
    assert_eq!(formats.unwrap(), [1, 1]);
    let rows: Vec<_> =
        out.iter().filter_map(|r| if let Response::Row(v) = r { Some(v.clone()) } else { None }).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[1], [Some(b"admin".to_vec()), Some(vec![1])]);
    let text = render(&out);
    assert!(text.contains("\ns\n") && text.ends_with("C SELECT 1\n"), "{text}");
}

#[tokio::test]
async fn limits_of_prepared_statements() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let mut out: Vec<Response> = Vec::new();
    for i in 0..1_000 {
        admin.session.parse(&format!("s{i}"), "SHOW ROLES", &[], &mut out).await;
    }
    assert!(out.iter().all(|r| *r == Response::ParseComplete));
    out.clear();
    admin.session.parse("more", "SHOW ROLES", &[], &mut out).await;
    assert!(render(&out).starts_with("ERROR 53400"), "{}", render(&out));
    out.clear();
    admin.session.sync(&mut out).await;
    admin.session.parse("v", "CREATE SECRET s AS $1", &[], &mut out).await;
    admin.ok("DEALLOCATE ALL").await;
    out.clear();
    admin.session.parse("", "CREATE SECRET s AS $1", &[], &mut out).await;
    admin.session.bind("big", "", &[], vec![Some(vec![b'x'; 17 << 20])], &[], &mut out).await;
    assert!(render(&out).ends_with("ERROR 53400: too many portals\n"), "{}", render(&out));
}

/// A portal without rows is run once. Rows that are all there are no error.
#[tokio::test]
async fn a_portal_that_has_run_is_not_run_again() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    for (sql, again) in [
        ("CREATE ROLE r", "ERROR 55000: portal \"p\" cannot be run\n"),
        ("SET application_name = 'a'", "ERROR 55000: portal \"p\" cannot be run\n"),
        ("SELECT 1", "C SELECT 0\n"),
    ] {
        let mut out = Vec::new();
        let s = &mut admin.session;
        s.parse("", sql, &[], &mut out).await;
        s.bind("p", "", &[], Vec::new(), &[], &mut out).await;
        s.execute("p", 0, &mut out).await;
        s.settle(&mut out).await;
        out.clear();
        s.execute("p", 0, &mut out).await;
        assert_eq!(render(&out), again, "{sql}");
        s.sync(&mut out).await;
    }
    assert!(admin.rows("SHOW ROLES LIKE 'r'").await.is_empty());
}
