//! SHOW, DESCRIBE, EXPLAIN: what they answer, and to whom.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use common::{Client, Rig};

const SETUP: &str = "
    CREATE SECRET pg_dsn AS 'x' COMMENT 'login of the reporting replica'
    CREATE CATALOG pg USING postgres WITH (dsn = SECRET pg_dsn)
    CREATE CATALOG my USING mock
    CREATE ROLE analyst COMMENT 'reads'
    CREATE ROLE auditor
    CREATE USER ana PASSWORD 'x' IN ROLE analyst
    GRANT USAGE ON CATALOG pg TO analyst
    GRANT SELECT ON pg.public.users TO analyst WITH GRANT OPTION
    GRANT ALL ON CATALOG my TO auditor
    CREATE MASK ssn ON pg.public.users (ssn) WITH (type = 'show_last', keep = 4) EXCEPT auditor
    CREATE ROW FILTER region ON pg.public.users USING (region = 'eu') TO analyst ELSE ALL ROWS
    CREATE VIEW v AS SELECT id FROM pg.public.users
    COMMENT ON CATALOG pg IS 'production'
";

async fn setup() -> (Rig, Client) {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin.ok(SETUP).await;
    (rig, admin)
}

/// The first columns of each row.
async fn heads(client: &mut Client, sql: &str, columns: usize) -> Vec<String> {
    client.rows(sql).await.iter().map(|r| r.split('|').take(columns).collect::<Vec<_>>().join("|")).collect()
}

#[tokio::test]
async fn lists() {
    let (_rig, mut admin) = setup().await;
    let admin = &mut admin;
    assert_eq!(heads(admin, "SHOW CATALOGS", 6).await, ["my|mock|t|ok|admin|∅", "pg|postgres|t|ok|admin|production"]);
    let secrets = heads(admin, "SHOW SECRETS", 9).await;
    assert!(secrets[0].starts_with("pg_dsn|store|ok|1|") && secrets[0].ends_with("|1"), "{secrets:?}");
    assert_eq!(heads(admin, "SHOW USERS", 3).await, ["admin|t|t", "ana|t|f"]);
    assert_eq!(heads(admin, "SHOW ROLES LIKE 'a%t%'", 1).await, ["analyst", "auditor"]);
    assert_eq!(
        heads(admin, "SHOW MASKS", 8).await,
        ["ssn|COLUMN pg.public.users.ssn|show_last(4)|∅|PUBLIC|auditor|0|t"]
    );
    assert_eq!(
        heads(admin, "SHOW ROW FILTERS", 7).await,
        ["region|TABLE pg.public.users|(region = 'eu')|analyst|ALL ROWS|∅|t"]
    );
    assert_eq!(heads(admin, "SHOW POLICIES ON pg.public.users", 2).await, ["region|row filter", "ssn|mask"]);
    assert!(heads(admin, "SHOW POLICIES IN CATALOG my", 1).await.is_empty());
    assert_eq!(heads(admin, "SHOW VIEWS", 4).await, ["dataglot|public|v|invoker"]);
    assert!(heads(admin, "SHOW VIEWS IN SCHEMA dataglot.other", 4).await.is_empty());
    assert_eq!(heads(admin, "SHOW ROLE GRANTS", 6).await, ["analyst|ana|admin|f|t|t"]);
    assert_eq!(heads(admin, "SHOW CURRENT ROLES", 1).await, ["admin"]);
}

#[tokio::test]
async fn grants() {
    let (_rig, mut admin) = setup().await;
    let admin = &mut admin;
    assert_eq!(
        admin.rows("SHOW GRANTS ON CATALOG my").await,
        ["CATALOG my|ALL|admin|∅|t|t", "CATALOG my|ALL|auditor|admin|f|f"]
    );
    assert_eq!(
        admin.rows("SHOW GRANTS TO analyst").await,
        ["CATALOG pg|USAGE|analyst|admin|f|f", "TABLE pg.public.users|SELECT|analyst|admin|t|f"]
    );
    assert_eq!(admin.rows("SHOW GRANTS OF analyst").await, ["analyst|ana|admin|f|t|t"]);
    assert_eq!(
        admin.rows("SHOW GRANTS FOR ana").await,
        ["CATALOG pg|USAGE|analyst|f|f", "TABLE pg.public.users|SELECT|analyst|t|f"]
    );
    admin.check("SHOW GRANTS TO nope", "ERROR 42704: role \"nope\" does not exist @16\nZ I").await;
}

#[tokio::test]
async fn one_object() {
    let (_rig, mut admin) = setup().await;
    let admin = &mut admin;
    assert_eq!(
        admin.rows("SHOW CREATE SECRET pg_dsn").await,
        ["CREATE SECRET pg_dsn AS REDACTED COMMENT 'login of the reporting replica'"]
    );
    let properties = admin.rows("DESCRIBE CATALOG pg").await;
    assert!(properties.contains(&"option dsn|SECRET pg_dsn".to_owned()), "{properties:?}");
    assert_eq!(admin.rows("DESCRIBE v").await[0], "kind|view");
    assert_eq!(admin.rows("SHOW DEPENDENCIES OF CATALOG pg").await, ["role|admin", "secret|pg_dsn"]);
    assert!(!admin.rows("SHOW DEPENDENCIES ON CATALOG pg").await.is_empty());
    admin
        .check(
            "SHOW CREATE CATALOG nope
             DESCRIBE nope
             DESCRIBE MASK region
             SHOW DEPENDENCIES OF VIEW nope
             SHOW CATALOGS LIKE 'x\\'",
            "ERROR 42704: catalog \"nope\" does not exist @21
             Z I
             ERROR 42704: object \"nope\" does not exist @10
             Z I
             ERROR 42704: mask \"region\" does not exist @15
             Z I
             ERROR 42P01: view \"dataglot.public.nope\" does not exist @27
             Z I
             ERROR 22025: LIKE pattern must not end with escape character
             Z I",
        )
        .await;
}

#[tokio::test]
async fn explain_writes_nothing() {
    let (_rig, mut admin) = setup().await;
    let admin = &mut admin;
    let before = admin.rows("SHOW CHANGES SINCE 0").await;
    let rows = admin.rows("EXPLAIN CREATE ROLE r").await;
    assert!(rows.iter().any(|r| r.contains("|put|roles|")), "{rows:?}");
    let json = admin.rows("EXPLAIN (FORMAT JSON) DROP ROLE auditor CASCADE").await;
    assert!(json[0].starts_with('['), "{json:?}");
    assert_eq!(admin.rows("SHOW CHANGES SINCE 0").await, before);
    admin.check("EXPLAIN DROP ROLE nope", "ERROR 42704: role \"nope\" does not exist @19\nZ I").await;
}

#[tokio::test]
async fn changes() {
    let (_rig, mut admin) = setup().await;
    let admin = &mut admin;
    let rows = admin.rows("SHOW CHANGES SINCE 1 LIMIT 2").await;
    assert_eq!(rows.len(), 2);
    assert!(rows[0].starts_with("2|2031-02-03 04:05:06+00|admin|pid 7|"), "{rows:?}");
    assert!(rows[0].contains("CREATE SECRET pg_dsn AS REDACTED"), "{rows:?}");
    let id = rows[0].split('|').nth(4).unwrap().to_owned();
    let status = admin.rows(&format!("SHOW TRANSACTION STATUS '{id}'")).await;
    assert_eq!(status, [format!("{id}|committed|2")]);
    let other = "0".repeat(32);
    assert_eq!(admin.rows(&format!("SHOW TRANSACTION STATUS '{other}'")).await, [format!("{other}|not committed|∅")]);
    admin.ok("BEGIN\nCREATE ROLE t1\nCREATE ROLE t2\nCOMMIT").await;
    let seq = |row: &String| row.split('|').next().unwrap().to_owned();
    let rows = admin.rows("SHOW CHANGES SINCE 0").await;
    let [.., one, two] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!(seq(one), seq(two));
}

#[tokio::test]
async fn others_see_what_concerns_them() {
    let (rig, _admin) = setup().await;
    let mut ana = rig.login("ana").await;
    let ana = &mut ana;
    assert_eq!(heads(ana, "SHOW CATALOGS", 1).await, ["pg"]);
    assert!(heads(ana, "SHOW SECRETS", 1).await.is_empty());
    assert_eq!(heads(ana, "SHOW ROLES", 1).await, ["ana", "analyst"]);
    assert!(heads(ana, "SHOW MASKS", 1).await.is_empty());
    ana.check(
        "SHOW CHANGES SINCE 0
         SHOW CREATE SECRET pg_dsn
         DESCRIBE CATALOG my
         SHOW GRANTS TO auditor
         EXPLAIN CREATE ROLE x",
        "ERROR 42501: permission denied to show changes
         Z I
         ERROR 42704: secret \"pg_dsn\" does not exist @20
         Z I
         ERROR 42704: catalog \"my\" does not exist @18
         Z I
         ERROR 42704: role \"auditor\" does not exist @16
         Z I
         ERROR 42501: permission denied to create role
         Z I",
    )
    .await;
}

/// E-32: what one may see tells nothing of what one may not.
#[tokio::test]
async fn e32_dependents_and_members_are_those_that_the_caller_may_see() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .ok("CREATE SECRET s AS 'x'; CREATE ROLE team; CREATE USER dev IN ROLE team; CREATE USER ops IN ROLE team
             CREATE CATALOG seen USING postgres WITH (dsn = SECRET s)
             CREATE CATALOG unseen USING postgres WITH (dsn = SECRET s)
             GRANT USAGE ON SECRET s TO dev, ops; GRANT USAGE ON CATALOG seen TO team; GRANT USAGE ON CATALOG unseen TO ops
             CREATE ROLE other; GRANT other TO dev; GRANT other TO team")
        .await;
    let all = admin.rows("SHOW DEPENDENCIES ON SECRET s").await;
    assert_eq!(all.len(), 4, "{all:?}");
    let mut dev = rig.login("dev").await;
    assert_eq!(
        dev.rows("SHOW DEPENDENCIES ON SECRET s").await,
        ["catalog \"seen\"|uses", "privileges of role \"dev\" on secret \"s\"|privilege"]
    );
    assert_eq!(
        dev.rows("SHOW DEPENDENCIES ON ROLE team").await,
        ["privileges of role \"team\" on catalog \"seen\"|grantee", "role \"dev\"|member"]
    );
    let members = |rows: Vec<String>| rows.into_iter().filter(|row| row.starts_with("member")).collect::<Vec<_>>();
    assert_eq!(members(admin.rows("DESCRIBE ROLE team").await), ["member of|other", "member|dev", "member|ops"]);
    assert_eq!(members(dev.rows("DESCRIBE ROLE team").await), ["member of|other", "member|dev"]);
    // After SET ROLE one still sees who one is, and not what else that is a member of.
    admin.ok("CREATE ROLE hidden; GRANT hidden TO dev").await;
    dev.ok("SET ROLE team").await;
    assert_eq!(members(dev.rows("DESCRIBE ROLE dev").await), ["member of|other", "member of|team"]);
    let shown = dev.rows("SHOW USERS").await;
    assert!(shown[0].contains("{other,team}"), "{shown:?}");
}
