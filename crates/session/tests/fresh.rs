//! Two coordinators on one store: what each sees of the other's changes, and what goes on while the store
//! is out of reach. Nothing tells them of each other but what a test asks for.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Client, KEY, Rig};
use dataglot_model::Name;
use dataglot_session::{EngineConfig, Response};
use dataglot_store::fault::SharedStore;
use dataglot_store::{MetaStore as _, RedbOptions, open_memory, open_redb};
use dataglot_vault::KeyRing;

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

struct Pair {
    one: Rig,
    two: Rig,
    /// The second one's way to the store.
    link: Arc<SharedStore>,
}

impl Pair {
    /// Two coordinators whose images count for an hour.
    async fn new() -> Pair {
        Pair::with(|_| {}).await
    }

    async fn with(configure: impl Fn(&mut EngineConfig)) -> Pair {
        let store = SharedStore::new(open_memory().unwrap());
        let link = store.handle();
        let configure = |config: &mut EngineConfig| {
            config.hub.lease = Duration::from_secs(3600);
            config.version_wait = PATIENCE;
            configure(config);
        };
        let one = Rig::on(store, KeyRing::parse(KEY).unwrap(), configure);
        one.engine.bootstrap(Name::new("admin").unwrap(), None).await.unwrap();
        let two = Rig::on(Arc::clone(&link) as _, KeyRing::parse(KEY).unwrap(), configure);
        Pair { one, two, link }
    }

    async fn admins(&self) -> (Client, Client) {
        let (one, mut two) = (self.one.admin().await, self.two.admin().await);
        // A coordinator looks once more after it has loaded an org: from here on it looks when it is asked.
        two.ok("SET read_freshness = strict\nSHOW ROLES\nRESET read_freshness").await;
        (one, two)
    }
}

/// What a client was last told that its version is.
async fn token(client: &mut Client, sql: &str) -> Option<u64> {
    let mut out: Vec<Response> = Vec::new();
    client.session.simple(sql, &mut out).await;
    out.iter().rev().find_map(|r| {
        let Response::ParameterStatus(name, value) = r else { return None };
        (name == "dataglot.version").then(|| value.parse().unwrap())
    })
}

/// C105: a script whose statements go to one coordinator and the other in turn.
#[tokio::test]
async fn c105_each_write_is_decided_on_all_that_came_before() {
    let pair = Pair::new().await;
    let (mut one, mut two) = pair.admins().await;
    one.ok("CREATE CATALOG c1 USING mock").await;
    two.check("CREATE ROLE r1", "C CREATE ROLE\nZ I").await;
    one.check("CREATE USER u1", "C CREATE ROLE\nZ I").await;
    two.check("GRANT r1 TO u1", "C GRANT ROLE\nZ I").await;
    one.check("BEGIN\nGRANT USAGE ON CATALOG c1 TO r1\nCOMMIT", "C BEGIN\nZ T\nC GRANT\nZ T\nC COMMIT\nZ I").await;
    two.check("CREATE ROLE r2; GRANT r2 TO u1", "C CREATE ROLE\nC GRANT ROLE\nZ I").await;
    assert_eq!(one.extended("GRANT r2 TO r1", &[]).await, "1\n2\nn\nC GRANT ROLE\n");
    two.ok("SET read_freshness = strict").await;
    assert_eq!(
        two.rows("SHOW EFFECTIVE GRANTS FOR u1").await,
        one.rows("SHOW EFFECTIVE GRANTS FOR u1").await,
        "the same on both"
    );
    assert!(!two.rows("SHOW EFFECTIVE GRANTS FOR u1").await.is_empty());
    // What is refused is decided on the store's state too.
    one.ok("CREATE ROLE r3").await;
    two.check("CREATE ROLE r3", "ERROR 42710: role \"r3\" already exists @13\nZ I").await;
    one.ok("DROP ROLE r3").await;
    two.check("BEGIN\nCREATE ROLE r3\nROLLBACK", "C BEGIN\nZ T\nC CREATE ROLE\nZ T\nC ROLLBACK\nZ I").await;
    one.ok("CREATE ROLE IF NOT EXISTS r3").await;
    two.check("CREATE ROLE IF NOT EXISTS r3", "NOTICE 42710: role \"r3\" already exists, skipping\nC CREATE ROLE\nZ I")
        .await;
}

/// A credential is judged before the committer sees it: on a right that was granted elsewhere just now, too.
#[tokio::test]
async fn c105_credentials_are_judged_on_the_newest_state() {
    let pair = Pair::new().await;
    let (mut one, _) = pair.admins().await;
    one.ok("CREATE USER boss; CREATE SECRET s AS 'old'").await;
    let mut boss = pair.two.login("boss").await;
    boss.check("ALTER SECRET s AS 'x'", "ERROR 42501: permission denied to alter secret \"s\"\nZ I").await;
    one.ok("ALTER ROLE boss SUPERUSER\nALTER SECRET s AS 'new'").await;
    boss.check("ALTER SECRET s AS 'newer'", "C ALTER SECRET\nS is_superuser=on\nZ I").await;
    one.ok("SET read_freshness = strict").await;
    assert_eq!(one.rows("SHOW SECRETS").await.len(), 1);
}

#[tokio::test]
async fn a_session_reads_what_it_has_seen_and_strict_ones_all_there_is() {
    let pair = Pair::new().await;
    let (mut one, mut two) = pair.admins().await;
    one.ok("CREATE ROLE r1").await;
    assert!(two.rows("SHOW ROLES LIKE 'r1'").await.is_empty(), "nobody has told it yet");
    two.ok("BEGIN").await;
    assert_eq!(two.rows("SHOW ROLES LIKE 'r1'").await.len(), 1, "a block begins with what the store has");
    two.ok("COMMIT").await;
    one.ok("CREATE ROLE r2").await;
    two.ok("SET read_freshness = 'local'\nBEGIN READ ONLY").await;
    assert!(two.rows("SHOW ROLES LIKE 'r2'").await.is_empty());
    two.ok("COMMIT\nRESET read_freshness").await;
    assert_eq!(two.rows("SHOW ROLES; SHOW ROLES LIKE 'r2'").await.len(), 4, "so does a string of several statements");
    one.ok("CREATE ROLE r3").await;
    two.ok("SET dataglot.read_freshness = STRICT").await;
    assert_eq!(two.rows("SHOW ROLES LIKE 'r3'").await.len(), 1);
    // A snapshot stays one.
    two.ok("BEGIN\nSHOW ROLES").await;
    one.ok("CREATE ROLE r4").await;
    assert!(two.rows("SHOW ROLES LIKE 'r4'").await.is_empty());
    two.ok("CREATE ROLE r5\nCOMMIT").await;
    assert_eq!(two.rows("SHOW ROLES LIKE 'r_'").await.len(), 5);
    // Of the messages up to a Sync, the first may read: a change is decided anew.
    one.ok("CREATE ROLE r6").await;
    two.ok("RESET ALL").await;
    let mut out: Vec<Response> = Vec::new();
    for sql in ["SHOW ROLES LIKE 'r6'", "CREATE ROLE IF NOT EXISTS r6"] {
        two.session.parse("", sql, &[], &mut out).await;
        two.session.bind("", "", &[], Vec::new(), &[], &mut out).await;
        two.session.execute("", 0, &mut out).await;
    }
    two.session.sync(&mut out).await;
    let out = common::render(&out);
    assert!(out.contains("role \"r6\" already exists, skipping"), "{out}");
}

/// M6
#[tokio::test]
async fn m6_a_version_known_from_elsewhere_is_waited_for() {
    let pair = Pair::new().await;
    let (mut one, mut two) = pair.admins().await;
    let started = one.session.parameters();
    assert!(started.contains(&("dataglot.version", "1".to_owned())), "{started:?}");
    let version = token(&mut one, "CREATE ROLE r1").await.unwrap();
    assert_eq!(version, 2);
    assert_eq!(token(&mut one, "CREATE ROLE IF NOT EXISTS r1").await, None, "nothing has changed");
    assert_eq!(one.rows("SHOW dataglot.version").await, ["2"]);
    assert!(two.rows("SHOW ROLES LIKE 'r1'").await.is_empty());
    two.ok(&format!("SET min_version = {version}")).await;
    assert_eq!(two.rows("SHOW ROLES LIKE 'r1'").await.len(), 1);
    assert_eq!(two.rows("SHOW dataglot.version").await, ["2"]);
    assert_eq!(token(&mut one, "CREATE ROLE r2").await, Some(3));
    two.ok("SET read_freshness = local\nSET dataglot.min_version = 3").await;
    assert_eq!(token(&mut two, "SHOW ROLES").await, Some(3), "a read that sees more says so");
    // A transaction that has begun cannot wait any more.
    two.ok("BEGIN\nSHOW ROLES\nSET LOCAL min_version = 5").await;
    let refused = "ERROR 55000: the transaction began with an older version than min_version\nZ E";
    two.check("SHOW ROLES", refused).await;
    two.ok("ROLLBACK\nSHOW ROLES").await;
}

/// M6
#[tokio::test]
async fn m6_a_version_that_is_nowhere_is_not_waited_for_long() {
    let pair = Pair::with(|config| config.version_wait = Duration::from_millis(20)).await;
    let mut two = pair.two.admin().await;
    two.ok("SET min_version = 99").await;
    let refused = "ERROR 55000: version 99 has not come within 20 ms\nZ I";
    two.check("SHOW ROLES", refused).await;
    two.check("CREATE ROLE r4", refused).await;
    two.check("SHOW min_version", "T min_version\nD 99\nC SHOW\nZ I").await;
    two.ok("RESET min_version\nCREATE ROLE r4").await;
}

#[tokio::test]
async fn waiting_for_a_version_ends_with_the_statements_time() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin.ok("SET min_version = 99\nSET statement_timeout = 20").await;
    admin.check("SHOW ROLES", "ERROR 57014: canceling statement due to statement timeout\nZ I").await;
    admin.ok("SET statement_timeout = 0").await;
    let cancel = admin.session.cancel_handle();
    let waiting = tokio::spawn(async move { admin.run("CREATE ROLE r").await });
    while !waiting.is_finished() {
        cancel.cancel();
        tokio::task::yield_now().await;
    }
    assert_eq!(waiting.await.unwrap(), "ERROR 57014: canceling statement due to user request\nZ I\n");
}

#[tokio::test]
async fn a_user_made_on_one_logs_in_on_the_other() {
    let pair = Pair::new().await;
    let (mut one, _) = pair.admins().await;
    one.ok("CREATE USER u1").await;
    pair.two.login("u1").await;
    one.ok("ALTER USER u1 NOLOGIN").await;
    let refused = pair.two.try_login("u1", None, &[]).await.err().unwrap();
    assert_eq!(refused.message, "role \"u1\" is not permitted to log in");
    // What decides who one is sees the newest state as well.
    one.ok("CREATE ROLE r1\nCREATE USER u2\nGRANT r1 TO u2").await;
    let mut u2 = pair.two.login("u2").await;
    one.ok("CREATE ROLE r2\nGRANT r2 TO u2").await;
    u2.check("SET ROLE r2", "C SET\nZ I").await;
    one.ok("REVOKE r1 FROM u2").await;
    // It does not see the role any more.
    u2.check("SET ROLE r1", "ERROR 42704: role \"r1\" does not exist @10\nZ I").await;
}

#[tokio::test]
async fn while_the_store_is_out_of_reach_reads_go_on_and_say_so() {
    let pair = Pair::new().await;
    let (mut one, mut two) = pair.admins().await;
    one.ok("CREATE ROLE r1").await;
    two.ok("SET read_freshness = strict\nSHOW ROLES\nRESET read_freshness").await;
    pair.link.set_down(true);
    let unreachable = "ERROR 57P03: the meta store cannot be reached";
    // Nobody has noticed yet: a lone read asks nobody.
    assert_eq!(two.rows("SHOW ROLES LIKE 'r1'").await.len(), 1);
    two.check("CREATE ROLE r2", &format!("{unreachable}\nZ I")).await;
    let missed =
        "WARNING 01000: the meta store could not be reached when the transaction began: this is the state of version 2";
    two.check("BEGIN\nSHOW dataglot.version", &format!("C BEGIN\nZ T\n{missed}\nT dataglot.version\nD 2\nC SHOW\nZ T"))
        .await;
    two.check(
        "DESCRIBE ROLE nope",
        "ERROR 42704: role \"nope\" does not exist @15
         Z E",
    )
    .await;
    two.ok("ROLLBACK\nBEGIN").await;
    assert!(two.run("SHOW ROLES LIKE 'x'").await.starts_with(missed));
    two.check("CREATE ROLE r2", &format!("{unreachable}\nZ E")).await;
    two.ok("ROLLBACK").await;
    two.check("CREATE ROLE r2; SHOW ROLES", &format!("{unreachable}\nZ I")).await;
    two.check("SET read_freshness = strict\nSHOW ROLES", &format!("C SET\nZ I\n{unreachable}\nZ I")).await;
    two.ok("RESET ALL").await;
    // Now it is known.
    pair.link.look();
    let warning = "this is the state of version 2";
    for sql in ["SHOW ROLES", "SELECT rolname FROM pg_roles", "DESCRIBE ROLE r1", "SHOW dataglot.version"] {
        let seen = two.run(sql).await;
        assert!(seen.starts_with("WARNING 01000: ") && seen.contains(warning), "{sql}: {seen}");
    }
    two.check("SELECT 1", "T ?column?\nD 1\nC SELECT 1\nZ I").await;
    two.ok("SET client_min_messages = error").await;
    assert!(!two.run("SHOW ROLES").await.contains("WARNING"));
    two.ok("RESET ALL\nBEGIN\nSHOW ROLES\nSHOW GRANTS\nSET ROLE r1\nCOMMIT\nRESET ROLE").await;
    two.check("CREATE ROLE r2", &format!("{unreachable}\nZ I")).await;
    two.check("BEGIN\nCREATE ROLE r2\nROLLBACK", &format!("C BEGIN\nZ T\n{unreachable}\nZ E\nC ROLLBACK\nZ I")).await;
    // Whom the image knows is let in, until the lease is over.
    pair.two.login("admin").await;
    let unknown = pair.two.try_login("admin", Some("other"), &[]).await.err().unwrap();
    assert_eq!(unknown.sqlstate.code(), "57P03", "whether there is such an org cannot be known");
    // It is back, and nobody has noticed: a write needs nobody to notice.
    pair.link.set_down(false);
    two.ok("CREATE ROLE r2\nBEGIN\nCREATE ROLE r3\nCOMMIT").await;
    pair.link.look();
    let back = Instant::now();
    while two.run("SHOW ROLES").await.contains("WARNING") {
        assert!(back.elapsed() < PATIENCE, "still stale");
        tokio::task::yield_now().await;
    }
    assert_eq!(two.rows("SHOW ROLES LIKE 'r_'").await.len(), 3);
}

/// A block that began while the store was out of reach does not decide anything on what it saw then.
#[tokio::test]
async fn a_block_that_saw_less_than_the_store_has_cannot_write() {
    let pair = Pair::new().await;
    let (mut one, mut two) = pair.admins().await;
    pair.link.set_down(true);
    two.ok("BEGIN\nSHOW ROLES").await;
    pair.link.set_down(false);
    two.ok("CREATE ROLE r0\nCOMMIT").await;
    pair.link.set_down(true);
    two.ok("BEGIN\nSHOW ROLES").await;
    pair.link.set_down(false);
    one.ok("CREATE ROLE r1").await;
    two.check(
        "CREATE ROLE r1",
        "ERROR 40001: could not serialize access due to concurrent update
         Z E",
    )
    .await;
    two.ok("ROLLBACK").await;
    two.check("BEGIN\nCREATE ROLE r1", "C BEGIN\nZ T\nERROR 42710: role \"r1\" already exists @13\nZ E").await;
}

/// H-07, M7
#[tokio::test]
async fn h07_when_the_lease_is_over_nobody_is_let_in_and_no_right_is_confirmed() {
    let pair = Pair::with(|config| config.hub.lease = Duration::from_millis(300)).await;
    pair.link.look();
    let mut one_tries = Instant::now();
    let mut two = loop {
        match pair.two.try_login("admin", None, &[]).await {
            Ok(client) => break client,
            Err(refused) => assert_eq!(refused.sqlstate.code(), "57P03"),
        }
        assert!(one_tries.elapsed() < PATIENCE, "never let in");
        pair.link.look();
    };
    one_tries = Instant::now();
    while !two.run("SHOW CURRENT ROLES").await.contains("ERROR 57P03") {
        assert!(one_tries.elapsed() < PATIENCE, "the lease does not end");
        tokio::task::yield_now().await;
    }
    for sql in [
        "SHOW EFFECTIVE GRANTS FOR admin",
        "SET ROLE admin",
        "SET role = admin",
        "SET SESSION AUTHORIZATION admin",
        "EXPLAIN CREATE ROLE r",
        "BEGIN; SHOW GRANTS FOR admin",
    ] {
        let refused = two.run(sql).await;
        assert!(refused.contains("ERROR 57P03: the meta store has not been reached for "), "{sql}: {refused}");
        two.run("ROLLBACK").await;
    }
    for sql in ["SHOW ROLES", "SHOW GRANTS", "DESCRIBE ROLE admin", "SELECT rolname FROM pg_roles"] {
        assert!(two.run(sql).await.contains("this is the state of version 1"), "{sql}");
    }
    two.ok("RESET ROLE\nSET ROLE NONE\nSHOW is_superuser\nDISCARD ALL").await;
    let refused = pair.two.try_login("admin", None, &[]).await.err().unwrap();
    assert_eq!((refused.severity.as_str(), refused.sqlstate.code()), ("FATAL", "57P03"));
}

/// H-06: the store has another history now.
#[tokio::test]
async fn h06_reads_of_a_history_that_is_gone_say_so() {
    let pair = Pair::new().await;
    let (mut one, mut two) = pair.admins().await;
    let directory = tempfile::tempdir().unwrap();
    let older = directory.path().join("older.redb");
    pair.link.backup(&older).unwrap();
    one.ok("CREATE ROLE r1\nCREATE ROLE r2").await;
    two.ok("SET read_freshness = strict\nSHOW ROLES\nRESET read_freshness").await;
    pair.link.replace(open_redb(&older, RedbOptions::default()).unwrap());
    let refused = two.run("CREATE ROLE r3").await;
    assert!(refused.contains("ERROR XX001: the history of database \"default\""), "{refused}");
    let seen = two.run("SHOW ROLES LIKE 'r_'").await;
    assert!(seen.starts_with("WARNING 01000: the history of database \"default\""), "{seen}");
    assert!(seen.contains("this is the state of version 3") && seen.contains("\nD r2|"), "{seen}");
}
