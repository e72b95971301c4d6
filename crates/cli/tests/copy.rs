//! `dataglot copy` from file to database and back: what arrives, what is refused, what a kill leaves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod support;

use std::path::Path;
use std::process::Child;

use dataglot_golden::wire::rows_of;
use dataglot_pgtest::{Cluster, Database};
use support::{KEY, OTHER_KEY, Server, contents, dataglot, done, refused, serve, serve_on, tempdir, wait_until};

fn database() -> Database {
    Cluster::shared().database()
}

fn store(database: &Database) -> String {
    format!("dsn={}", database.dsn())
}

/// Fills a store in a file: kinds of every sort, secrets, history, a second org.
fn fill(directory: &Path) {
    let server = Server::start(serve(directory, Some(KEY)));
    for sql in [
        "CREATE SECRET s1 AS 'CANARY-7Q'; CREATE CATALOG pg USING postgres WITH (host = 'h', password = SECRET s1)",
        "CREATE ROLE r1; CREATE USER u1 PASSWORD 'CANARY-7Q' IN ROLE r1; GRANT USAGE ON CATALOG pg TO r1",
        "CREATE MASK m1 ON pg.public.t (c) WITH (type = 'redact')",
        "CREATE VIEW v1 AS SELECT a FROM pg.public.t",
        "DROP ROLE r1 CASCADE; CREATE ROLE r2",
        "CREATE ORG other",
    ] {
        for part in sql.split("; ") {
            server.query(part);
        }
    }
    server.stop();
}

/// The line of a copy's report that tells what is in it.
fn digest(said: &str) -> String {
    said.lines().find(|l| l.starts_with("digest ")).unwrap_or_else(|| panic!("{said}")).to_owned()
}

fn history(server: &Server) -> Vec<Vec<Option<String>>> {
    rows_of(&server.query("SHOW CHANGES SINCE 0"))
}

/// There and back, everything is what it was, and the secrets still open.
#[test]
fn a_store_goes_to_a_database_and_back() {
    let (database, directory) = (database(), tempdir());
    fill(directory.path());
    let original = Server::start(serve(directory.path(), Some(KEY)));
    let before = history(&original);
    original.stop();
    let file = contents(directory.path());

    let there = ["copy", "--from", "path=meta.redb", "--to", &store(&database)];
    let said = done(&mut dataglot(directory.path(), &there));
    let there = digest(&said);
    assert!(said.contains("default") && said.contains("other") && said.contains("changes"), "{said}");
    assert!(!said.contains(database.password()), "{said}");
    assert!(contents(directory.path()) == file, "the source was written to");
    let back = ["copy", "--from", &store(&database), "--to", "path=back.redb"];
    assert_eq!(digest(&done(&mut dataglot(directory.path(), &back))), there);
    let second = Cluster::shared().database();
    let across = ["copy", "--from", &store(&database), "--to", &store(&second)];
    assert_eq!(digest(&done(&mut dataglot(directory.path(), &across))), there);
    let same = ["copy", "--from", "path=meta.redb", "--to", "path=back.redb", "--check-only"];
    assert_eq!(digest(&done(&mut dataglot(directory.path(), &same))), there);

    for store in [store(&database), "path=back.redb".to_owned()] {
        refused(&mut serve_on(directory.path(), &store, Some(OTHER_KEY)), 4);
        refused(&mut serve_on(directory.path(), &store, None), 4);
        let server = Server::start(serve_on(directory.path(), &store, Some(KEY)));
        assert_eq!(history(&server), before);
        // It is opened and sealed again by that.
        server.query("ALTER SECRET s1 RENAME TO s2");
        server.query("CREATE ROLE later");
        assert_eq!(history(&server).len(), before.len() + 2);
        server.stop();
    }
    let differs = ["copy", "--from", "path=meta.redb", "--to", "path=back.redb", "--check-only"];
    assert!(refused(&mut dataglot(directory.path(), &differs), 7).contains("the two stores differ"));
}

/// What is in use is left alone, on either side.
#[test]
fn what_is_not_empty_is_refused_and_left_as_it_is() {
    let (database, directory) = (database(), tempdir());
    fill(directory.path());
    let other = tempdir();
    let running = Server::start(serve_on(other.path(), &store(&database), Some(KEY)));
    running.query("CREATE ROLE mine");
    let heads = "SELECT string_agg(h::text, ',') FROM dataglot.heads h";
    let before = database.query_one(heads);

    let said =
        refused(&mut dataglot(directory.path(), &["copy", "--from", "path=meta.redb", "--to", &store(&database)]), 7);
    assert!(said.contains("error: "), "{said}");
    assert_eq!(database.query_one(heads), before);
    assert!(running.roles().contains(&"mine".to_owned()));
    running.stop();
    // Once more as a copy of itself: the same identity, and not empty.
    let itself = ["copy", "--from", &store(&database), "--to", &store(&database)];
    assert!(refused(&mut dataglot(directory.path(), &itself), 7).contains("is not empty"));

    let file = contents(directory.path());
    let onto = ["copy", "--from", &store(&database), "--to", "path=meta.redb"];
    assert!(refused(&mut dataglot(directory.path(), &onto), 7).contains("exists"));
    let holder = Server::start(serve(directory.path(), Some(KEY)));
    let said = refused(&mut dataglot(directory.path(), &["copy", "--from", "path=meta.redb", "--to", "path=x"]), 3);
    assert!(said.contains(&format!("in use by process {}", holder.child.id())), "{said}");
    holder.stop();
    assert!(!directory.path().join("x").exists());
    assert_eq!(contents(directory.path()).keys().collect::<Vec<_>>(), file.keys().collect::<Vec<_>>());
    let missing = ["copy", "--from", "path=none", "--to", "path=x"];
    assert!(refused(&mut dataglot(directory.path(), &missing), 3).contains("does not exist"));
    let empty = Cluster::shared().database();
    let missing = ["copy", "--from", &store(&empty), "--to", "path=x"];
    assert!(refused(&mut dataglot(directory.path(), &missing), 6).contains("pending"));
    assert!(!directory.path().join("x").exists());
}

/// Waits until the copy sleeps in PostgreSQL, where the test has told it to, and kills it there.
fn kill_asleep(database: &Database, mut copy: Child) {
    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    wait_until("the copy to be half-way", || {
        assert!(copy.try_wait().unwrap().is_none(), "it ended before");
        database.query_one(asleep) != "0"
    });
    copy.kill().unwrap();
    copy.wait().unwrap();
    database.terminate_connections();
    wait_until("its connections to be gone", || database.connections() == 0);
}

/// Killed half-way, no half of a store is there, and the next try makes a whole one.
#[test]
fn a_kill_half_way_leaves_no_half_store() {
    let (database, directory) = (database(), tempdir());
    fill(directory.path());
    let mut migrate = dataglot(directory.path(), &["migrate", "up"]);
    done(migrate.env("DATAGLOT_STORE", store(&database)));
    let there = ["copy", "--from", "path=meta.redb", "--to", &store(&database)];

    database.execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END';
         CREATE TRIGGER slow AFTER INSERT ON dataglot.changes FOR EACH STATEMENT EXECUTE FUNCTION slow()",
    );
    let copy = dataglot(directory.path(), &there).spawn().unwrap();
    kill_asleep(&database, copy);
    let rows = "SELECT (SELECT count(*) FROM dataglot.heads) + (SELECT count(*) FROM dataglot.objects)
                     + (SELECT count(*) FROM dataglot.changes)";
    assert_eq!(database.query_one(rows), "0");
    database.execute("DROP TRIGGER slow ON dataglot.changes");
    done(&mut dataglot(directory.path(), &there));

    let back = ["copy", "--from", &store(&database), "--to", "path=back.redb"];
    database.execute(
        "ALTER TABLE dataglot.changes ENABLE ROW LEVEL SECURITY; ALTER TABLE dataglot.changes FORCE ROW LEVEL SECURITY;
         CREATE POLICY slow ON dataglot.changes USING (pg_sleep(600) IS NOT NULL)",
    );
    let copy = dataglot(directory.path(), &back).spawn().unwrap();
    kill_asleep(&database, copy);
    assert!(!directory.path().join("back.redb").exists());
    database.execute("DROP POLICY slow ON dataglot.changes; ALTER TABLE dataglot.changes DISABLE ROW LEVEL SECURITY");
    done(&mut dataglot(directory.path(), &back));
    let server = Server::start(serve_on(directory.path(), "path=back.redb", Some(KEY)));
    assert!(server.roles().contains(&"r2".to_owned()));
    server.stop();
}
