//! Cases of reported faults, by number, where a golden file is not enough: several sessions,
//! restarts, sizes, messages.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test's own helpers")]

mod common;

use std::sync::{Arc, Barrier};
use std::thread;

use common::{admin, fails, login, names, ok, says_exists};
use dataglot_golden::backend::Backend;
use dataglot_golden::rig::Rig;
use dataglot_golden::wire::{self, Client, Message, error_of, rows_of, tags_of};
use dataglot_model::OrgName;

fn on_every_backend(test: impl Fn(&mut Rig)) {
    for backend in Backend::ALL {
        test(&mut Rig::start(backend).unwrap());
    }
}

/// Existence is checked on the folded name, before and after a restart.
#[test]
fn c003_case_folding() {
    on_every_backend(|rig| {
        ok(&mut admin(rig.address().unwrap()), "CREATE ROLE IF NOT EXISTS DataOps");
        rig.restart().unwrap();
        let mut client = admin(rig.address().unwrap());
        let again = ok(&mut client, "CREATE ROLE IF NOT EXISTS DataOps");
        assert!(again.iter().any(|m| says_exists(&m)));
        assert_eq!(fails(&mut client, r#"DROP ROLE "DataOps""#), "42704");
        assert!(names(&mut client, "SHOW ROLES").contains(&"dataops".to_owned()));
    });
}

/// One rule for normal forms everywhere, the login included.
#[test]
fn c005_unicode_normal_forms() {
    on_every_backend(|rig| {
        let address = rig.address().unwrap();
        let mut client = admin(address);
        ok(&mut client, "CREATE USER \"caf\u{e8}\"");
        assert_eq!(fails(&mut client, "CREATE USER \"cafe\u{300}\""), "42602");
        assert_eq!(fails(&mut client, "DROP USER \"cafe\u{300}\""), "42602");
        assert!(Client::connect(address, "caf\u{e8}", "default").unwrap().is_ok());
        let refused = Client::connect(address, "cafe\u{300}", "default").unwrap().err().unwrap();
        assert!(refused.sqlstate.starts_with("28"), "{refused:?}");
    });
}

/// Line ends inside a body keep their bytes; those between the words of a statement mean nothing.
#[test]
fn c019_crlf_in_a_body() {
    on_every_backend(|rig| {
        let mut client = admin(rig.address().unwrap());
        let org = OrgName::default_org();
        ok(&mut client, "CREATE VIEW prod.v1 AS\r\n  SELECT 'two\r\nlines' AS t");
        let shown = rows_of(&ok(&mut client, "SHOW CREATE VIEW prod.v1"));
        assert!(shown[0][0].as_ref().unwrap().ends_with("SELECT 'two\r\nlines' AS t"), "{shown:?}");
        ok(&mut client, "CREATE CATALOG c1\n  USING mock\n  WITH (a = 'x')");
        let before = rig.state(&org).unwrap();
        ok(&mut client, "CREATE OR REPLACE CATALOG c1\r\n  USING mock\r\n  WITH (a = 'x')");
        assert_eq!(rig.state(&org).unwrap(), before);
        assert_eq!(names(&mut client, "SHOW CHANGES SINCE 1").len(), 2);
    });
}

/// Hostile nesting ends in an error; another session notices nothing.
#[test]
fn c023_hostile_nesting() {
    let rig = Rig::start(Backend::Memory).unwrap();
    let mut client = admin(rig.address().unwrap());
    let mut other = admin(rig.address().unwrap());
    let filter = |body: String| format!("CREATE ROW FILTER f ON c.s.t USING ({body})");
    let nasty = [
        filter("(".repeat(5_000)),
        filter("INTERVAL ".repeat(600)),
        filter("NOT ".repeat(5_000)),
        filter(format!("1{}", "+1".repeat(100_000))),
        filter(format!("1{}", "::int".repeat(50_000))),
        filter("- ".repeat(50_000)),
        filter("CASE WHEN ".repeat(5_000)),
        "/*".repeat(20_000),
        format!("CREATE VIEW v AS SELECT 1{}", " UNION SELECT 1".repeat(50_000)),
        format!("CREATE VIEW v AS {}", "SELECT * FROM (".repeat(20_000)),
        format!("CREATE CATALOG c USING mock WITH (tables = {}", "[".repeat(500_000)),
        format!("SELECT {}", "(".repeat(500_000)),
        "EXPLAIN ".repeat(50_000),
        "x".repeat(1 << 20),
        "'".repeat((1 << 20) - 1),
        "GRANT a TO ".to_owned() + &"b,".repeat(400_000),
        format!("COMMENT ON ROLE r IS '{}'", "y".repeat(1 << 20)),
    ];
    for sql in &nasty {
        let code = fails(&mut client, sql);
        assert!(matches!(code.as_str(), "54001" | "54000" | "42601" | "42622"), "{code}: {:.60}", sql);
        assert_eq!(tags_of(&ok(&mut other, "SHOW CATALOGS")), ["SHOW"]);
    }
}

/// Grants made at the same time by many sessions are all there.
#[test]
fn c041_concurrent_grant() {
    on_every_backend(|rig| {
        let address = rig.address().unwrap();
        let mut client = admin(address);
        ok(&mut client, "CREATE CATALOG c1 USING mock");
        for i in 0..32 {
            ok(&mut client, &format!("CREATE ROLE r{i}"));
        }
        let barrier = Arc::new(Barrier::new(32));
        let threads: Vec<_> = (0..32)
            .map(|i| {
                let barrier = Arc::clone(&barrier);
                thread::spawn(move || {
                    let mut client = admin(address);
                    barrier.wait();
                    ok(&mut client, &format!("GRANT USAGE ON CATALOG c1 TO r{i}"));
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        let shown = ok(&mut client, "SHOW GRANTS ON CATALOG c1");
        let rows = rows_of(&shown);
        for i in 0..32 {
            let role = format!("r{i}");
            assert!(rows.iter().any(|row| row.iter().flatten().any(|cell| *cell == role)), "{role}");
        }
    });
}

/// Replacing a mask leaves nothing behind.
#[test]
fn c067_orphan_records_after_replace() {
    on_every_backend(|rig| {
        let mut client = admin(rig.address().unwrap());
        let org = OrgName::default_org();
        ok(&mut client, "CREATE CATALOG c USING mock");
        let before = rig.state(&org).unwrap();
        for i in 0..100 {
            ok(&mut client, &format!("CREATE OR REPLACE MASK m1 ON c.s.t (a) AS 'x{i}'"));
        }
        ok(&mut client, "DROP MASK m1");
        assert_eq!(rig.state(&org).unwrap(), before);
        ok(&mut client, "CREATE MASK m1 ON c.s.t (a) AS 'x'");
    });
}

/// An error in the middle of a query string undoes what came before it and stops what comes after.
#[test]
fn c077_error_in_the_middle() {
    on_every_backend(|rig| {
        let mut client = admin(rig.address().unwrap());
        let messages = client.query("CREATE ROLE a; CREATE ROLE a; CREATE ROLE b;").unwrap();
        assert!(
            matches!(messages.as_slice(), [
            Message::CommandComplete(tag),
            Message::ErrorResponse(error),
            Message::ReadyForQuery('I'),
        ] if tag == "CREATE ROLE" && error.sqlstate == "42710"),
            "{messages:?}"
        );
        assert_eq!(names(&mut client, "SHOW ROLES"), ["admin"]);
    });
}

/// Parameters carry a password and a date; a name is not a value.
#[test]
fn c081_bind_parameter_in_ddl() {
    on_every_backend(|rig| {
        let mut client = admin(rig.address().unwrap());
        let messages = client
            .extended("CREATE USER u1 PASSWORD $1 VALID UNTIL $2", &[Some("p$1;--"), Some("2031-01-01")])
            .unwrap();
        assert_eq!(error_of(&messages), None);
        client.send(&[wire::parse_message("", "CREATE ROLE $1", &[]), wire::sync_message()].concat()).unwrap();
        assert_eq!(error_of(&client.read_to_ready().unwrap()).unwrap().sqlstate, "42601");
    });
}

/// An Execute is run at the next message. What fails by then ends everything up to Sync, a query string among it.
#[test]
fn an_execute_without_sync_keeps_its_place() {
    on_every_backend(|rig| {
        let mut client = admin(rig.address().unwrap());
        let execute = |sql: &str| {
            let messages = [wire::parse_message("", sql, &[]), wire::bind_message("", "", &[])].concat();
            [messages, wire::execute_message("", 0)].concat()
        };
        let flush = wire::frame(b'H', b"");
        client.send(&[execute("CREATE ROLE a"), flush.clone()].concat()).unwrap();
        for _ in 0..2 {
            client.read().unwrap();
        }
        assert!(matches!(client.read().unwrap(), Message::CommandComplete(tag) if tag == "CREATE ROLE"));
        client.send(&wire::sync_message()).unwrap();
        assert_eq!(error_of(&client.read_to_ready().unwrap()), None);
        for next in [wire::query_message("CREATE ROLE b"), flush, wire::parse_message("", "SELEKT", &[])] {
            client.send(&[execute("CREATE ROLE a"), next, wire::sync_message()].concat()).unwrap();
            let messages = client.read_to_ready().unwrap();
            let errors = messages.iter().filter(|m| matches!(m, Message::ErrorResponse(_))).count();
            assert_eq!((error_of(&messages).unwrap().sqlstate.as_str(), errors), ("42710", 1), "{messages:?}");
        }
        assert_eq!(names(&mut client, "SHOW ROLES"), ["a", "admin"]);
    });
}

/// What is big is no trouble for the feed: it carries a number.
#[test]
fn c109_big_changes_and_the_feed() {
    on_every_backend(|rig| {
        let address = rig.address().unwrap();
        let mut client = admin(address);
        let mut listener = admin(address);
        ok(&mut listener, "LISTEN dataglot_changes");
        ok(&mut client, "CREATE CATALOG c USING mock");
        ok(&mut client, &format!("CREATE VIEW prod.big AS SELECT '{}' AS t", "é".repeat(30_000)));
        let grants: String = (0..5_000).map(|i| format!("GRANT SELECT ON c.s.t{i} TO PUBLIC;")).collect();
        ok(&mut client, &grants);
        let mut seqs = Vec::new();
        while seqs.len() < 3 {
            if let Message::NotificationResponse { channel, payload, .. } = listener.read().unwrap() {
                assert_eq!(channel, "dataglot_changes");
                assert!(payload.len() < 100, "{payload}");
                let payload: serde_json::Value = serde_json::from_str(&payload).unwrap();
                assert_eq!(payload["org"], "default");
                seqs.push(payload["seq"].as_u64().unwrap());
            }
        }
        assert!(seqs.windows(2).all(|w| w[1] == w[0] + 1), "{seqs:?}");
    });
}

/// The open session of a revoked or dropped user is told at its next statement.
#[test]
fn a14_a_new_user_of_the_same_name_inherits_no_session() {
    on_every_backend(|rig| {
        let address = rig.address().unwrap();
        let mut client = admin(address);
        ok(&mut client, "CREATE USER boss SUPERUSER");
        let mut boss = login(address, "boss");
        ok(&mut boss, "CREATE ROLE x");
        ok(&mut client, "ALTER ROLE boss NOSUPERUSER");
        assert_eq!(fails(&mut boss, "CREATE ROLE y"), "42501");
        ok(&mut client, "DROP USER boss; CREATE USER boss SUPERUSER");
        let answer = boss.query("CREATE ROLE z");
        let refused = answer.as_ref().map_or(true, |m| error_of(m).is_some());
        assert!(refused, "the session of a dropped user went on");
        assert_eq!(fails(&mut client, "DROP ROLE z"), "42704");
    });
}

/// A long script, which is parsed ahead of its execution: a setting in it holds for what follows, and an
/// error at its end undoes all of it.
#[test]
fn a_long_script_is_one_transaction() {
    on_every_backend(|rig| {
        let mut client = admin(rig.address().unwrap());
        let roles = |prefix: &str| (0..1_500).map(|i| format!("CREATE ROLE {prefix}{i};")).collect::<String>();
        assert_eq!(fails(&mut client, &format!("{}SELEKT 1;", roles("a"))), "42601");
        assert_eq!(fails(&mut client, &format!("{}CREATE ROLE b0;", roles("b"))), "42710");
        assert_eq!(names(&mut client, "SHOW ROLES"), ["admin"]);
        let script = format!("{}SET search_path = prod;{}CREATE VIEW v AS SELECT 1", roles("c"), roles("d"));
        assert_eq!(tags_of(&ok(&mut client, &script)).len(), 3_002);
        assert_eq!(names(&mut client, "SHOW ROLES").len(), 3_001);
        let shown = ok(&mut client, "SHOW CREATE VIEW dataglot.prod.v");
        assert_eq!(rows_of(&shown).len(), 1);
    });
}
