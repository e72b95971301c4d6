//! CREATE ROLE, ALTER ROLE.

use dataglot_model::RowKey;
use dataglot_model::def::RoleDef;

use super::{World, check, name};

#[test]
fn c003_names_fold() {
    check(
        "",
        "CREATE ROLE IF NOT EXISTS DataOps; CREATE ROLE IF NOT EXISTS DataOps; DROP ROLE \"DataOps\"",
        "CREATE ROLE
         NOTICE 42710: role \"dataops\" already exists, skipping
         CREATE ROLE (unchanged)
         ERROR 42704 @10: role \"DataOps\" does not exist",
    );
}

#[test]
fn c011_reserved_names() {
    let mut world = World::new();
    for reserved in ["public", "\"PUBLIC\"", "\"none\"", "pg_x", "dataglot_x", "\"current_user\"", "\"session_user\""] {
        let answer = world.run(&format!("CREATE ROLE {reserved}"));
        assert!(answer.contains("42939"), "{reserved}: {answer}");
        let answer = world.run(&format!("ALTER ROLE admin RENAME TO {reserved}"));
        assert!(answer.contains("42939"), "{reserved}: {answer}");
    }
    assert_eq!(world.run("CREATE ROLE \"Public\""), "CREATE ROLE\n");
}

#[test]
fn c101_every_attribute_is_kept() {
    let world = check(
        "",
        "CREATE USER u PASSWORD 'p' SUPERUSER CREATEROLE NOINHERIT BYPASSRLS CONNECTION LIMIT 3
           VALID UNTIL '2020-01-01' COMMENT 'k'",
        "CREATE ROLE",
    );
    let role = world.image.role(&name("u")).unwrap();
    let RoleDef {
        superuser,
        createrole,
        login,
        inherit,
        bypassrls,
        connection_limit,
        valid_until,
        verifier,
        settings,
        extra,
    } = &**role.def;
    assert!(*superuser && *createrole && *login && !*inherit && *bypassrls);
    assert_eq!(*connection_limit, 3);
    assert_eq!(valid_until.unwrap().to_string(), "2020-01-01 00:00:00+00");
    assert_eq!(verifier.as_deref(), Some("verifier of p"));
    assert!(settings.is_none() && extra.is_none());
    assert_eq!(role.header.comment.as_deref(), Some("k"));
}

#[test]
fn passwords_are_set_kept_and_cleared() {
    let world = check(
        "CREATE USER u PASSWORD 'p'",
        "ALTER USER u PASSWORD 'p';
         ALTER USER u PASSWORD 'q';
         CREATE OR ALTER USER u;
         CREATE USER IF NOT EXISTS u PASSWORD 'other' CONNECTION LIMIT 2;
         CREATE USER IF NOT EXISTS u PASSWORD 'q';
         ALTER USER u PASSWORD '';
         ALTER USER u PASSWORD NULL",
        "ALTER ROLE (unchanged)
         ALTER ROLE
         CREATE ROLE (unchanged)
         NOTICE 42710: role \"u\" already exists, skipping
         DETAIL It differs from the statement in: CONNECTION LIMIT, PASSWORD.
         CREATE ROLE (unchanged)
         NOTICE 42710: role \"u\" already exists, skipping
         CREATE ROLE (unchanged)
         NOTICE 00000: empty string is not a valid password, clearing password
         ALTER ROLE
         ALTER ROLE (unchanged)",
    );
    assert_eq!(world.image.role(&name("u")).unwrap().def.verifier, None);
}

#[test]
fn or_alter_resets_what_is_not_named_and_keeps_the_password_and_memberships() {
    let world = check(
        "CREATE ROLE g; CREATE USER u PASSWORD 'p' CONNECTION LIMIT 4 NOINHERIT IN ROLE g;
         ALTER ROLE u SET search_path = 'x'",
        "CREATE OR ALTER USER u; CREATE OR ALTER ROLE u",
        "CREATE ROLE
         CREATE ROLE",
    );
    let def = world.image.role(&name("u")).unwrap().def.clone();
    assert!(def.inherit && !def.login && def.connection_limit == -1);
    assert_eq!(def.verifier.as_deref(), Some("verifier of p"));
    assert!(def.settings.is_some());
    assert_eq!(world.image.roles_of(&name("u")).count(), 1);
}

#[test]
fn login_decides_the_table() {
    let world = check("CREATE ROLE r", "ALTER ROLE r LOGIN", "ALTER ROLE");
    assert!(world.image.has(&RowKey::Role { name: name("r"), login: true }));
    assert!(!world.image.has(&RowKey::Role { name: name("r"), login: false }));
}

#[test]
fn the_last_superuser_stays() {
    let last = "DETAIL An org keeps at least one role that is SUPERUSER, may log in and has not expired.\n\
                HINT Make another role SUPERUSER LOGIN first.\n";
    let mut world = World::with("CREATE ROLE s SUPERUSER; CREATE USER old SUPERUSER VALID UNTIL '2020-01-01'");
    for change in ["NOSUPERUSER", "NOLOGIN", "VALID UNTIL '2020-01-01'"] {
        assert_eq!(
            world.run(&format!("ALTER ROLE admin {change}")),
            format!("ERROR 55000 @11: role \"admin\" is the last superuser that can log in\n{last}")
        );
    }
    assert_eq!(world.run("ALTER ROLE s LOGIN; ALTER ROLE admin NOSUPERUSER"), "ALTER ROLE\nALTER ROLE\n");
    // From here on the session has no rights: they are asked for with each statement.
    assert_eq!(
        world.run("CREATE ROLE x"),
        "ERROR 42501: permission denied to create role\nDETAIL Only roles with the SUPERUSER attribute may do this.\n"
    );
}

#[test]
fn connection_limit_has_a_lower_bound() {
    let mut world = World::new();
    let answer = world.run("CREATE ROLE r CONNECTION LIMIT -2");
    assert!(answer.contains("22023"), "{answer}");
    assert_eq!(world.run("CREATE ROLE r CONNECTION LIMIT -1"), "CREATE ROLE\n");
}

#[test]
fn settings() {
    let world = check(
        "CREATE ROLE r",
        "ALTER ROLE r SET search_path TO 'a'; ALTER ROLE r SET search_path TO 'a'; ALTER ROLE r RESET timezone;
         ALTER ROLE r RESET ALL; ALTER ROLE ALL SET search_path TO 'a'",
        "ALTER ROLE
         ALTER ROLE (unchanged)
         ALTER ROLE (unchanged)
         ALTER ROLE
         ERROR 0A000: ALTER ROLE ALL is not supported
         HINT Set it for each role: ALTER ROLE name SET ...",
    );
    assert!(world.image.role(&name("r")).unwrap().def.settings.is_none());
}

#[test]
fn missing_roles() {
    check(
        "",
        "ALTER ROLE nope LOGIN; ALTER ROLE IF EXISTS nope LOGIN; CREATE ROLE r IN ROLE nope; ALTER ROLE admin RENAME TO admin",
        "ERROR 42704 @11: role \"nope\" does not exist
         NOTICE 00000: role \"nope\" does not exist, skipping
         ALTER ROLE (unchanged)
         ERROR 42704 @22: role \"nope\" does not exist
         ERROR 42710 @27: role \"admin\" already exists",
    );
}
