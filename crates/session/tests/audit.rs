//! The audit stream: who did, or was not allowed to do, what.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};

use common::{Client, Rig};
use dataglot_model::Name;
use dataglot_session::{Login, Session};
use dataglot_store::fault::{Fault, FaultStore};
use dataglot_store::open_memory;
use dataglot_vault::KeyRing;

/// What was logged, a line an event.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Catches what this thread logs, and so what its sessions do.
    fn catch(level: tracing::Level) -> (Log, tracing::subscriber::DefaultGuard) {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .without_time()
            .with_level(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The events of the audit stream since the last call, without the transactions' ids.
    fn take(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        let events = text.lines().filter_map(|line| line.strip_prefix("dataglot::audit: "));
        events
            .map(|event| {
                let kept = event.split(' ').filter(|word| !word.starts_with("transaction="));
                kept.collect::<Vec<_>>().join(" ")
            })
            .collect()
    }
}

async fn login(rig: &Rig, user: &str) -> Client {
    let login = Login { user: user.to_owned(), client: "192.0.2.7:5000".to_owned(), pid: 7, ..Login::default() };
    Client { session: Session::start(Arc::clone(&rig.engine), login).await.unwrap() }
}

const WHO: &str = "org=\"default\" actor=\"admin\" session_user=\"admin\" client=\"192.0.2.7:5000\" pid=7";

/// C119
#[tokio::test]
async fn c119_each_grant_leaves_its_record_whatever_became_of_it() {
    let rig = Rig::new().await;
    let mut admin = login(&rig, "admin").await;
    admin.ok("CREATE ROLE r1; CREATE ROLE r2; CREATE USER u1; CREATE USER u2").await;
    let (log, _guard) = Log::catch(tracing::Level::DEBUG);
    admin.ok("GRANT r1, r2 TO u1 WITH ADMIN OPTION").await;
    admin.ok("REVOKE r1 FROM u1").await;
    admin.check("GRANT r_missing TO u1", "ERROR 42704: role \"r_missing\" does not exist @7\nZ I").await;
    admin.ok("BEGIN\nGRANT r2 TO u2\nROLLBACK").await;
    assert_eq!(
        log.take(),
        [
            format!("statement outcome=\"done\" {WHO} seq=3 sql=\"GRANT r1, r2 TO u1 WITH ADMIN TRUE\""),
            format!("statement outcome=\"done\" {WHO} seq=4 sql=\"REVOKE r1 FROM u1\""),
            format!("statement outcome=\"refused\" sqlstate=\"42704\" {WHO} sql=\"GRANT r_missing TO u1\""),
            format!("statement outcome=\"rolled back\" {WHO} sql=\"GRANT r2 TO u2\""),
        ]
    );
}

#[tokio::test]
async fn what_a_transaction_did_goes_with_its_outcome() {
    let rig = Rig::new().await;
    let mut admin = login(&rig, "admin").await;
    let (log, _guard) = Log::catch(tracing::Level::DEBUG);
    let of =
        |outcome: &str, rest: &str, sql: &str| format!("statement outcome=\"{outcome}\" {WHO}{rest} sql=\"{sql}\"");
    let failed = |outcome: &str, code: &str, sql: &str| {
        format!("statement outcome=\"{outcome}\" sqlstate=\"{code}\" {WHO} sql=\"{sql}\"")
    };
    // A savepoint.
    admin.ok("BEGIN\nCREATE ROLE r1\nSAVEPOINT a\nCREATE ROLE r2\nROLLBACK TO a").await;
    assert_eq!(log.take(), [of("rolled back", "", "CREATE ROLE r2")]);
    admin.ok("COMMIT").await;
    assert_eq!(log.take(), [of("done", " seq=2", "CREATE ROLE r1")]);
    // An error, in a block and in a string of statements.
    admin.run("BEGIN").await;
    admin.run("CREATE ROLE r3").await;
    admin.run("CREATE ROLE r1").await;
    let undone = [failed("refused", "42710", "CREATE ROLE r1"), failed("rolled back", "42710", "CREATE ROLE r3")];
    assert_eq!(log.take(), undone);
    admin.run("CREATE ROLE r4").await;
    admin.run("COMMIT").await;
    assert_eq!(log.take(), [""; 0], "not even tried");
    admin.run("CREATE ROLE r3; CREATE ROLE r1").await;
    assert_eq!(log.take(), undone);
    // Nothing that changes nothing, and nothing that only would.
    admin.ok("CREATE ROLE IF NOT EXISTS r1\nEXPLAIN CREATE ROLE r5\nSHOW ROLES").await;
    assert_eq!(log.take(), [""; 0]);
    admin.ok("SET dry_run = on\nCREATE ROLE r5\nSET dry_run = off").await;
    assert_eq!(log.take(), [of("rolled back", "", "CREATE ROLE r5")]);
    // Another was faster.
    let mut other = login(&rig, "admin").await;
    admin.ok("BEGIN\nCREATE ROLE r6").await;
    other.ok("CREATE ROLE r6").await;
    log.take();
    admin.run("COMMIT").await;
    assert_eq!(log.take(), [failed("rolled back", "40001", "CREATE ROLE r6")]);
    // The client goes in the middle of a block.
    admin.ok("BEGIN\nCREATE ROLE r7").await;
    drop(admin);
    assert_eq!(log.take(), [of("rolled back", "", "CREATE ROLE r7")]);
    // Orgs, and refusals of every kind.
    other.ok("CREATE ORG o").await;
    assert_eq!(log.take(), [of("done", " seq=4", "CREATE ORG o")]);
    other.run("CREATE ORG o").await;
    assert_eq!(log.take(), [failed("refused", "42P04", "CREATE ORG o")]);
    other.ok("SET default_transaction_read_only = on").await;
    other.run("DROP ROLE r1").await;
    assert_eq!(log.take(), [failed("refused", "25006", "DROP ROLE r1")]);
    other.ok("RESET default_transaction_read_only\nCREATE USER plain\nSET SESSION AUTHORIZATION plain").await;
    log.take();
    other.run("DROP ROLE r1").await;
    let plain =
        WHO.replace("actor=\"admin\" session_user=\"admin\"", "actor=\"plain\" session_user=\"plain\" login=\"admin\"");
    let refused = log.take();
    assert_eq!(refused, [format!("statement outcome=\"refused\" sqlstate=\"42501\" {plain} sql=\"DROP ROLE r1\"")]);
}

#[tokio::test]
async fn what_nobody_knows_is_not_said_to_be_rolled_back() {
    let store = FaultStore::new(open_memory().unwrap());
    let rig = Rig::on(Arc::clone(&store) as _, KeyRing::none(), |_| {});
    rig.engine.bootstrap(Name::new("admin").unwrap(), None).await.unwrap();
    let mut admin = login(&rig, "admin").await;
    let (log, _guard) = Log::catch(tracing::Level::DEBUG);
    store.next([Fault::LostReply]);
    store.fail_lookups(1_000);
    admin.run("BEGIN; CREATE ROLE r1; COMMIT").await;
    let events = log.take();
    assert_eq!(events, [format!("statement outcome=\"unknown\" sqlstate=\"08007\" {WHO} sql=\"CREATE ROLE r1\"")]);
}

#[tokio::test]
async fn no_literal_is_in_it() {
    let rig = Rig::new().await;
    let mut admin = login(&rig, "admin").await;
    let (log, _guard) = Log::catch(tracing::Level::TRACE);
    for sql in [
        "CREATE CATALOG c USING mock WITH (a = 'canary-1', n = 4711)",
        "CREATE CATALOG c USING mock WITH (pasword = 'canary-1')",
        "CREATE SECRET s AS 'canary-1'",
        "CREATE SECRET s AS 'canary-1'",
        "CREATE USER u PASSWORD 'canary-1' CONNECTION LIMIT 4711 VALID UNTIL '2035-04-05'",
        "CREATE VIEW v AS SELECT $$canary-1$$, 4711",
        "COMMENT ON CATALOG nope IS 'canary-1'",
        "CREATE ORG o ADMIN a PASSWORD 'canary-1'",
        "BEGIN; CREATE ROLE r COMMENT 'canary-1'; ROLLBACK",
    ] {
        admin.run(sql).await;
    }
    let events = log.take();
    assert!(events.len() >= 8, "{events:#?}");
    let all = events.join("\n");
    assert!(!all.contains("canary") && !all.contains("4711") && !all.contains("2035"), "{all}");
    assert!(all.contains("sql=\"CREATE CATALOG c USING mock WITH (a = '…', n = '…')\""), "{all}");
}

/// I-08
#[tokio::test]
async fn i08_a_flood_of_refusals_is_bounded_and_counted() {
    let rig = Rig::new().await;
    let mut admin = login(&rig, "admin").await;
    let (log, _guard) = Log::catch(tracing::Level::INFO);
    for _ in 0..1_000 {
        admin.run("DROP ROLE nope").await;
    }
    drop(admin);
    let events = log.take();
    let (last, refused) = events.split_last().unwrap();
    assert!((100..1_000).contains(&refused.len()), "{}", refused.len());
    let counted = |event: &String| {
        event.split_once("left_out=").map_or(0, |(_, rest)| rest.split(' ').next().unwrap().parse::<usize>().unwrap())
    };
    assert!(last.contains("outcome=\"left out\""), "{last}");
    assert_eq!(refused.len() + events.iter().map(counted).sum::<usize>(), 1_000);
}

/// Whoever acts as another one is named besides: in the history, and in the log.
#[tokio::test]
async fn i08_set_session_authorization_hides_nobody() {
    let rig = Rig::new().await;
    let mut admin = login(&rig, "admin").await;
    admin.ok("CREATE USER boss SUPERUSER; CREATE USER \"other one\" SUPERUSER").await;
    let mut boss = login(&rig, "boss").await;
    let (log, _guard) = Log::catch(tracing::Level::DEBUG);
    boss.ok("SET SESSION AUTHORIZATION \"other one\"\nCREATE ROLE x").await;
    boss.run("CREATE ROLE x").await;
    let who =
        "org=\"default\" actor=\"other one\" session_user=\"other one\" login=\"boss\" client=\"192.0.2.7:5000\" pid=7";
    assert_eq!(
        log.take(),
        [
            format!("statement outcome=\"done\" {who} seq=3 sql=\"CREATE ROLE x\""),
            format!("statement outcome=\"refused\" sqlstate=\"42710\" {who} sql=\"CREATE ROLE x\""),
        ]
    );
    boss.ok("RESET SESSION AUTHORIZATION\nCREATE ROLE y").await;
    admin.ok("ALTER USER boss RENAME TO chief").await;
    boss.ok("SET SESSION AUTHORIZATION \"other one\"\nCREATE ROLE z").await;
    let rows = admin.rows("SHOW CHANGES SINCE 2").await;
    let sessions: Vec<&str> = rows.iter().filter_map(|row| row.split('|').nth(3)).collect();
    assert_eq!(
        sessions,
        [
            "pid 7, login boss, from 192.0.2.7:5000",
            "pid 7, from 192.0.2.7:5000",
            "pid 7, from 192.0.2.7:5000",
            "pid 7, login chief, from 192.0.2.7:5000",
        ]
    );
}

/// What is refused for want of a right is in the log, even if it would have changed nothing.
#[tokio::test]
async fn i08_what_is_denied_leaves_an_event_whatever_it_is() {
    let rig = Rig::new().await;
    let mut admin = login(&rig, "admin").await;
    admin.ok("CREATE USER u; CREATE ROLE r; GRANT r TO u WITH SET FALSE; CREATE USER v").await;
    let mut user = login(&rig, "u").await;
    let (log, _guard) = Log::catch(tracing::Level::INFO);
    for (sql, written) in [
        ("SET ROLE r", "SET ROLE r"),
        ("SET SESSION ROLE r", "SET ROLE r"),
        ("SET role = 'r'", "SET ROLE r"),
        ("SET SESSION AUTHORIZATION v", "SET SESSION AUTHORIZATION v"),
        ("SHOW CHANGES SINCE 0", "SHOW CHANGES SINCE '…'"),
        ("SHOW ORGS", "SHOW ORGS"),
        ("SHOW SECRET KEYS", "SHOW SECRET KEYS"),
        ("EXPLAIN CREATE USER w PASSWORD 'canary-1'", "EXPLAIN CREATE USER w PASSWORD REDACTED"),
        ("REWRAP SECRETS", "REWRAP SECRETS"),
        ("CREATE ORG o", "CREATE ORG o"),
    ] {
        let said = user.run(sql).await;
        assert!(said.contains("ERROR 42501"), "{sql}: {said}");
        let events = log.take();
        assert_eq!(events.len(), 1, "{sql}: {events:?}");
        let wanted = ["outcome=\"refused\" sqlstate=\"42501\"".to_owned(), format!("sql={written:?}")];
        assert!(wanted.iter().all(|part| events[0].contains(part)), "{sql}: {events:?}");
    }
    user.run("SHOW ROLES; SET application_name = 'a'; EXPLAIN SELECT 1").await;
    assert!(log.take().is_empty());
}
