//! Cases of reported faults on several coordinators over one store, on every backend.
//!
//! In PostgreSQL they share a database, as in earnest. What only one process can open is shared inside
//! this one, with a feed in place of notifications.

#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's own helpers")]

mod audit;
#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use common::{admin, fails, login, names, ok, says_exists};
use dataglot_golden::backend::Backend;
use dataglot_golden::rig::{Rig, eventually};
use dataglot_golden::wire::{self, Client, Message, error_of, rows_of};
use dataglot_model::OrgName;

/// What a coordinator does is seen by the others within this time, by far, unless something is wrong.
const SEEN_WITHIN: Duration = Duration::from_secs(20);

fn on_every_backend(nodes: usize, test: impl Fn(&mut Rig)) {
    for backend in Backend::ALL {
        test(&mut Rig::start_nodes(backend, nodes).unwrap());
    }
}

/// A superuser's session on each coordinator.
fn admins(rig: &Rig, nodes: usize) -> Vec<Client> {
    (0..nodes).map(|node| admin(rig.address_of(node).unwrap())).collect()
}

/// What is shown when the store is asked first.
#[track_caller]
fn shown_strictly(client: &mut Client, show: &str) -> Vec<Vec<Option<String>>> {
    ok(client, "SET read_freshness = strict");
    let rows = rows_of(&ok(client, show));
    ok(client, "RESET read_freshness");
    rows
}

/// The version that the client was told of with these messages.
fn version_in(messages: &[Message]) -> Option<u64> {
    let told = messages.iter().rev().filter_map(|message| {
        let Message::ParameterStatus(name, value) = message else { return None };
        (name == "dataglot.version").then_some(value)
    });
    told.map(|value| value.parse().unwrap()).next()
}

/// Grants made at the same time through three coordinators are all there, without a retry by anybody.
#[test]
fn c041_concurrent_grant() {
    on_every_backend(3, |rig| {
        let mut clients = admins(rig, 3);
        let roles: String = (0..32).map(|i| format!("CREATE ROLE r{i};")).collect();
        ok(&mut clients[0], &format!("CREATE CATALOG c1 USING mock;{roles}"));
        let barrier = Barrier::new(32);
        thread::scope(|scope| {
            for i in 0..32 {
                let (barrier, address) = (&barrier, rig.address_of(i % 3).unwrap());
                scope.spawn(move || {
                    let mut client = admin(address);
                    barrier.wait();
                    ok(&mut client, &format!("GRANT USAGE ON CATALOG c1 TO r{i}"));
                });
            }
        });
        for client in &mut clients {
            let cells: BTreeSet<String> =
                shown_strictly(client, "SHOW GRANTS ON CATALOG c1").into_iter().flatten().flatten().collect();
            for i in 0..32 {
                assert!(cells.contains(&format!("r{i}")), "r{i} is missing in {cells:?}");
            }
        }
    });
}

/// What is taken away through one coordinator is refused by the other: a change at once, since it is
/// decided on the store's state; a read as soon as the change has arrived.
#[test]
fn c051_revoked_in_an_open_session_elsewhere() {
    on_every_backend(2, |rig| {
        let mut one = admin(rig.address_of(0).unwrap());
        ok(&mut one, "CREATE USER boss SUPERUSER; CREATE CATALOG c1 USING mock");
        ok(&mut one, "CREATE ROLE r1; CREATE USER u1; GRANT r1 TO u1; GRANT USAGE ON CATALOG c1 TO r1");
        let address = rig.address_of(1).unwrap();
        let (mut boss, mut prepared, mut reader) =
            (login(address, "boss"), login(address, "boss"), login(address, "u1"));
        ok(&mut boss, "CREATE CATALOG c2 USING mock");
        let parse = wire::parse_message("p", "CREATE CATALOG c3 USING mock", &[]);
        prepared.send(&[parse, wire::sync_message()].concat()).unwrap();
        assert_eq!(error_of(&prepared.read_to_ready().unwrap()), None);
        assert_eq!(names(&mut reader, "SHOW CATALOGS"), ["c1"]);

        ok(&mut one, "ALTER ROLE boss NOSUPERUSER");
        assert_eq!(fails(&mut boss, "CREATE CATALOG c3 USING mock"), "42501");
        let messages = [wire::bind_message("", "p", &[]), wire::execute_message("", 0), wire::sync_message()];
        prepared.send(&messages.concat()).unwrap();
        assert_eq!(error_of(&prepared.read_to_ready().unwrap()).unwrap().sqlstate, "42501");

        ok(&mut one, "REVOKE r1 FROM u1");
        let refused = || names(&mut reader, "SHOW CATALOGS").is_empty();
        assert!(eventually(SEEN_WITHIN, refused), "u1 still sees what it may not");
        assert_eq!(fails(&mut reader, "DESCRIBE CATALOG c1"), "42704");
        // And who asks the store sees it at once.
        ok(&mut one, "GRANT r1 TO u1");
        ok(&mut reader, "SET read_freshness = strict");
        assert_eq!(names(&mut reader, "SHOW CATALOGS"), ["c1"]);
        ok(&mut one, "REVOKE r1 FROM u1");
        assert!(names(&mut reader, "SHOW CATALOGS").is_empty());
    });
}

/// Losers of a race for IF NOT EXISTS get a notice, on whichever coordinator, be there one or two; without it, 42710.
#[test]
fn c055_if_not_exists_in_a_race() {
    let rounds = 15;
    let race_at = |nodes, rig: &Rig| {
        let barrier = Barrier::new(8);
        let race = |address| {
            let mut client = admin(address);
            let (mut notices, mut losses) = (0, 0);
            for round in 0..rounds {
                barrier.wait();
                for kind in ["ROLE", "USER"] {
                    let sql = format!("CREATE {kind} IF NOT EXISTS {kind}{round}");
                    notices += ok(&mut client, &sql).iter().filter(says_exists).count();
                }
                let messages = client.query(&format!("CREATE ROLE plain{round}")).unwrap();
                if let Some(error) = error_of(&messages) {
                    assert_eq!(error.sqlstate, "42710");
                    losses += 1;
                }
            }
            (notices, losses)
        };
        let all: Vec<(usize, usize)> = thread::scope(|scope| {
            let racers: Vec<_> = (0..8)
                .map(|i| {
                    let (race, address) = (&race, rig.address_of(i % nodes).unwrap());
                    scope.spawn(move || race(address))
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).collect()
        });
        assert_eq!(all.iter().map(|x| x.0).sum::<usize>(), rounds * 7 * 2);
        assert_eq!(all.iter().map(|x| x.1).sum::<usize>(), rounds * 7);
    };
    for nodes in [1, 2] {
        on_every_backend(nodes, |rig| race_at(nodes, rig));
    }
}

/// A script is applied where some of what it makes is there already, made through another coordinator.
#[test]
fn c069_restore_into_a_half_filled_store() {
    let restore = ["CREATE USER IF NOT EXISTS u1", "CREATE ROLE IF NOT EXISTS r1", "GRANT r1 TO u1"];
    for (there, notices) in
        [("", 0), ("CREATE USER u1", 1), ("CREATE ROLE r1", 1), ("CREATE USER u1; CREATE ROLE r1", 2)]
    {
        on_every_backend(2, |rig| {
            let mut clients = admins(rig, 2);
            ok(&mut clients[0], there);
            // One statement here, one there; then all of it at once, which finds nothing to do.
            let said: usize = restore
                .iter()
                .enumerate()
                .map(|(i, sql)| ok(&mut clients[(i + 1) % 2], sql).iter().filter(says_exists).count())
                .sum();
            assert_eq!(said, notices, "{there}");
            let before = rig.state(&OrgName::default_org()).unwrap();
            ok(&mut clients[1], &restore.join(";"));
            assert_eq!(rig.state(&OrgName::default_org()).unwrap(), before);
            for client in &mut clients {
                let grants = shown_strictly(client, "SHOW ROLE GRANTS");
                let is_it = |row: &Vec<Option<String>>| {
                    ["r1", "u1"].iter().all(|name| row.iter().flatten().any(|cell| cell == name))
                };
                assert!(grants.iter().any(is_it), "{there}: {grants:?}");
            }
        });
    }
}

/// Every attribute of every kind looks the same on a coordinator that heard of it by the feed, and on one
/// that was started afterwards; an expired user is refused by all.
#[test]
fn c101_every_attribute_arrives() {
    let file = include_str!("../../../../grammar-tests/cases/c101_every_attribute_survives.test");
    let case = dataglot_golden::case::Case::parse(file).unwrap();
    let (first, last) = (&case.blocks[0].input, &case.blocks[case.blocks.len() - 1].input);
    let shows: Vec<&str> = last.lines().filter(|l| l.starts_with("SHOW") || l.starts_with("DESCRIBE")).collect();
    assert!(shows.len() > 5, "the case shows what it made");
    on_every_backend(2, |rig| {
        let mut clients = admins(rig, 2);
        for sql in first.lines() {
            ok(&mut clients[0], sql);
        }
        let third = rig.add_node().unwrap();
        clients.push(admin(rig.address_of(third).unwrap()));
        for show in &shows {
            let expected = rows_of(&ok(&mut clients[0], show));
            assert!(!expected.is_empty(), "{show}");
            assert_eq!(shown_strictly(&mut clients[1], show), expected, "{show}");
            assert_eq!(rows_of(&ok(&mut clients[2], show)), expected, "{show}");
        }
        for node in 0..3 {
            let refused = Client::connect(rig.address_of(node).unwrap(), "u1", "default").unwrap().err().unwrap();
            assert!(refused.sqlstate.starts_with("28"), "{refused:?}");
        }
    });
}

/// A coordinator that is new, or comes back, knows everything; those that start together on an empty
/// store make one first org.
#[test]
fn c103_a_fresh_coordinator_knows_everything() {
    on_every_backend(2, |rig| {
        let mut clients = admins(rig, 2);
        let first = rows_of(&ok(&mut clients[1], "SHOW CHANGES SINCE 0"));
        assert_eq!(first.len(), 1, "one of them made the first org: {first:?}");
        for i in 0..20 {
            ok(&mut clients[i % 2], &format!("CREATE CATALOG c{i} USING mock"));
        }
        let third = rig.add_node().unwrap();
        let shown = names(&mut admin(rig.address_of(third).unwrap()), "SHOW CATALOGS");
        assert_eq!(shown.len(), 20);
        // Those that made them are gone; it has the store for itself.
        drop(clients);
        rig.stop_node(0);
        rig.stop_node(1);
        let mut client = admin(rig.address_of(third).unwrap());
        ok(&mut client, "DROP CATALOG c0");
        drop(client);
        rig.restart().unwrap();
        for mut client in admins(rig, 3) {
            assert_eq!(names(&mut client, "SHOW CATALOGS").len(), 19);
        }
    });
}

/// A script behind a balancer that sends each statement to the other coordinator, without a pause.
#[test]
fn c105_read_your_own_writes_across_coordinators() {
    on_every_backend(2, |rig| {
        let mut clients = admins(rig, 2);
        ok(&mut clients[0], "CREATE CATALOG c1 USING mock");
        for round in 0..20 {
            let script = [
                format!("CREATE ROLE r{round}"),
                format!("CREATE USER u{round}"),
                format!("GRANT r{round} TO u{round}"),
                format!("GRANT USAGE ON CATALOG c1 TO r{round}"),
                format!("ALTER ROLE r{round} RENAME TO s{round}"),
                format!("COMMENT ON ROLE s{round} IS 'renamed'"),
            ];
            let mut version = None;
            for (i, sql) in script.iter().enumerate() {
                version = version_in(&ok(&mut clients[(round + i) % 2], sql)).or(version);
            }
            let version = version.unwrap();
            let reader = &mut clients[(round + script.len()) % 2];
            let show = format!("SHOW EFFECTIVE GRANTS FOR u{round}");
            let holds = |rows: &[Vec<Option<String>>]| {
                rows.iter().any(|row| row.iter().flatten().any(|cell| *cell == format!("s{round}")))
            };
            // Either the client says what it knows of, or that the store is to be asked.
            let rows = if round % 2 == 0 {
                ok(reader, &format!("SET min_version = {version}"));
                let rows = rows_of(&ok(reader, &show));
                ok(reader, "RESET min_version");
                rows
            } else {
                shown_strictly(reader, &show)
            };
            assert!(holds(&rows), "{rows:?}");
            assert!(version_in(&ok(reader, &format!("COMMENT ON ROLE s{round} IS 'read'"))).unwrap() > version);
        }
        // A user made on one logs in on the other at once.
        for i in 0..20 {
            ok(&mut clients[i % 2], &format!("CREATE USER v{i}"));
            login(rig.address_of((i + 1) % 2).unwrap(), &format!("v{i}"));
        }
    });
}

/// What is changed while a coordinator cannot hear of it has arrived once it can, and the loss is counted.
#[test]
fn c107_notifications_lost_at_reconnect() {
    on_every_backend(2, |rig| {
        let mut clients = admins(rig, 2);
        let is_postgres = rig.database().is_some();
        let connects = |rig: &Rig| metric(rig, 1, "feed_listener_connects_total");
        ok(&mut clients[0], "CREATE ROLE there");
        assert!(eventually(SEEN_WITHIN, || names(&mut clients[1], "SHOW ROLES").contains(&"there".to_owned())));
        let before = connects(rig);

        rig.cut_feed(1).unwrap();
        for i in 0..5 {
            ok(&mut clients[0], &format!("CREATE ROLE away{i}"));
        }
        rig.join_feed(1).unwrap();
        let all = |client: &mut Client, prefix: &str, count: usize| {
            names(client, "SHOW ROLES").iter().filter(|name| name.starts_with(prefix)).count() == count
        };
        assert!(eventually(SEEN_WITHIN, || all(&mut clients[1], "away", 5)), "what was missed has not arrived");
        if is_postgres {
            assert!(connects(rig) > before, "the loss is not counted");
        }

        // Cut again and again while changes go on: some fall between the connect and its LISTEN.
        let mut made = 0;
        for _ in 0..10 {
            rig.cut_feed(1).unwrap();
            rig.join_feed(1).unwrap();
            for _ in 0..5 {
                ok(&mut clients[0], &format!("CREATE ROLE between{made}"));
                made += 1;
            }
        }
        assert!(eventually(SEEN_WITHIN, || all(&mut clients[1], "between", made)), "something was missed");
        // And it hears of what comes now.
        ok(&mut clients[0], "CREATE ROLE after");
        assert!(eventually(SEEN_WITHIN, || names(&mut clients[1], "SHOW ROLES").contains(&"after".to_owned())));
    });
}

/// A counter or gauge of a coordinator's.
fn metric(rig: &Rig, node: usize, name: &str) -> u64 {
    let mut registry = prometheus_client::registry::Registry::default();
    rig.engine(node).unwrap().store_metrics().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or_else(|| panic!("{name} is not in {text}"))
}

/// Big changes are announced by the other coordinator as any: a number each, in order, without a gap.
#[test]
fn c109_big_changes_and_the_feed() {
    on_every_backend(2, |rig| {
        let mut client = admin(rig.address_of(0).unwrap());
        let mut listener = admin(rig.address_of(1).unwrap());
        ok(&mut listener, "LISTEN dataglot_changes");
        ok(&mut client, "CREATE CATALOG c USING mock");
        ok(&mut client, &format!("CREATE VIEW prod.big AS SELECT '{}' AS t", "é".repeat(30_000)));
        let grants: String = (0..5_000).map(|i| format!("GRANT SELECT ON c.s.t{i} TO PUBLIC;")).collect();
        ok(&mut client, &grants);
        let wide = "😀".repeat(20_000);
        let options = ["a", "host", "note"].map(|option| format!("{option} = '{wide}'")).join(", ");
        ok(&mut client, &format!("CREATE CATALOG wide USING mock WITH ({options})"));
        let mut seqs = Vec::new();
        while seqs.len() < 4 {
            if let Message::NotificationResponse { channel, payload, .. } = listener.read().unwrap() {
                assert_eq!(channel, "dataglot_changes");
                assert!(payload.len() < 100, "{payload}");
                let payload: serde_json::Value = serde_json::from_str(&payload).unwrap();
                assert_eq!(payload["org"], "default");
                seqs.push(payload["seq"].as_u64().unwrap());
            }
        }
        assert!(seqs.windows(2).all(|w| w[1] == w[0] + 1), "{seqs:?}");
        // What the listener reads now is at least what it was told of.
        assert!(names(&mut listener, "SHOW CATALOGS").contains(&"wide".to_owned()));
    });
}
