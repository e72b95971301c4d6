//! What SHOW CREATE prints, and that it changes nothing when it is run again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::wildcard_enum_match_arm, reason = "what a test does not ask for is beside its point")]

use dataglot_model::command::OnExisting;
use dataglot_model::{Command, ObjectRef, Sealed};

use crate::tests::{World, name};
use crate::{recreate, recreate_grants};

const SCRIPT: &str = "
    CREATE ROLE r NOINHERIT CREATEROLE CONNECTION LIMIT 3 COMMENT 'c'; CREATE USER u PASSWORD 'x' VALID UNTIL '2030-01-01';
    ALTER ROLE u SET search_path = 'a'; GRANT r TO u; CREATE SECRET s AS 'x' COMMENT 'c'; CREATE SECRET e AS ENV 'E';
    CREATE CATALOG pg USING postgres WITH (host = 'h', password = SECRET s, port = 5432) COMMENT 'c' AUTHORIZATION r;
    CREATE CATALOG off USING postgres VALIDATE OFF; ALTER CATALOG pg DISABLE;
    CREATE VIEW base (a) COMMENT 'v' SECURITY DEFINER AS SELECT 1; CREATE VIEW v AS SELECT a FROM base;
    CREATE MASK m ON pg.public.t (ssn) WITH (type = 'show_last', keep = 4) TO r EXCEPT u PRIORITY 3 COMMENT 'c' DISABLE;
    CREATE ROW FILTER f ON pg.public.t USING (a > 1) TO PUBLIC, u ELSE NO ROWS EXCEPT r COMMENT 'c';
    CREATE ROW FILTER g ON CATALOG pg USING (true);
    COMMENT ON SCHEMA pg.public IS 'c'; COMMENT ON TABLE pg.public.t IS 'c'; COMMENT ON COLUMN pg.public.t.a IS 'c';
    GRANT ALL ON v TO r; GRANT SELECT ON v TO u WITH GRANT OPTION; GRANT SELECT (a), APPLY ON v TO u; GRANT SELECT ON v TO PUBLIC;
    GRANT ALL ON base TO r WITH GRANT OPTION;
";

/// The same command for an object that exists.
fn again(command: Command<Sealed>) -> Command<Sealed> {
    let mut command = command;
    match &mut command {
        Command::CreateCatalog(c) => c.on_existing = OnExisting::Replace,
        Command::CreateSecret(c) => c.on_existing = OnExisting::Replace,
        Command::CreateRole(c) => c.on_existing = OnExisting::Alter,
        Command::CreateMask(c) => c.on_existing = OnExisting::Replace,
        Command::CreateRowFilter(c) => c.on_existing = OnExisting::Replace,
        Command::CreateView(c) => c.on_existing = OnExisting::Replace,
        _ => {}
    }
    command
}

fn objects(world: &World) -> Vec<ObjectRef> {
    let headers = world.image.all_rows().into_iter().filter_map(|row| match row {
        dataglot_model::Row::Header(object, _) => Some(object),
        _ => None,
    });
    headers.collect()
}

#[test]
fn every_object_can_be_made_again_and_that_changes_nothing() {
    let mut world = World::with(SCRIPT);
    let all = objects(&world);
    assert!(all.len() > 14);
    for object in all {
        let command = recreate(&world.image, &object).unwrap_or_else(|| panic!("{object}"));
        let answer = world.execute(&again(command), 0);
        assert!(answer.ends_with(" (unchanged)\n"), "{object}: {answer}");
    }
}

#[test]
fn grants_can_be_made_again_and_that_changes_nothing() {
    let mut world = World::with(SCRIPT);
    let mut count = 0;
    for object in objects(&world) {
        for command in recreate_grants(&world.image, &object) {
            count += 1;
            let answer = world.execute(&command, 0);
            assert!(answer.ends_with(" (unchanged)\n"), "{object}: {answer}");
        }
    }
    assert!(count > 5, "{count}");
}

#[test]
fn what_is_printed_of_a_user_and_a_secret_is_no_credential() {
    let world = World::with(SCRIPT);
    let text = |object| dataglot_grammar::print(&recreate(&world.image, &object).unwrap());
    assert_eq!(text(ObjectRef::Role(name("u"))), "CREATE USER u VALID UNTIL '2030-01-01 00:00:00+00'");
    assert_eq!(text(ObjectRef::Secret(name("s"))), "CREATE SECRET s AS REDACTED COMMENT 'c'");
    assert_eq!(recreate(&world.image, &ObjectRef::Role(name("nobody"))), None);
    assert_eq!(recreate(&world.image, &ObjectRef::Catalog(name("dataglot"))), None);
    assert_eq!(recreate(&world.image, &ObjectRef::RowFilter(name("m"))), None);
}
