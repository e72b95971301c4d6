//! Who may do and see what.

use dataglot_model::{Actor, ObjectRef, SchemaRef, TableRef};

use super::{World, name};
use crate::{PlanError, current_actor, is_superuser, may_see, may_set_role};

fn actor(world: &World, user: &str, current: &str) -> Actor {
    let id = |n: &str| world.image.role(&name(n)).unwrap().header.id;
    Actor {
        session_user: name(user),
        session_user_id: id(user),
        current_user: name(current),
        current_user_id: id(current),
    }
}

#[test]
fn c045_only_superusers_change_anything() {
    let mut world = World::with("CREATE ROLE plain; CREATE ROLE r; CREATE CATALOG c1 USING mock");
    world.actor = actor(&world, "admin", "plain");
    let script =
        "GRANT r TO plain; GRANT USAGE ON CATALOG c1 TO plain; CREATE ROLE x; DROP CATALOG c1; DROP CATALOG nope;
        CREATE ROLE IF NOT EXISTS r; ALTER ROLE plain CREATEROLE; COMMENT ON CATALOG c1 IS 'x'; DROP OWNED BY plain";
    let answer = world.run(script);
    assert_eq!(answer.matches("ERROR 42501: permission denied to ").count(), 9, "{answer}");
    assert_eq!(answer.matches("DETAIL Only roles with the SUPERUSER attribute may do this.").count(), 9);
    // What is there and what is not answer alike.
    assert!(answer.contains("drop catalog \"c1\"") && answer.contains("drop catalog \"nope\""), "{answer}");
}

#[test]
fn one_may_set_ones_own_password_and_nothing_else() {
    let mut world =
        World::with("CREATE ROLE r PASSWORD 'r'; CREATE USER u PASSWORD 'u' IN ROLE r; CREATE USER other PASSWORD 'o'");
    let other = "ERROR 42501: permission denied to alter role
DETAIL To change another role's password, the current user must have the SUPERUSER attribute.
";
    let more = "ERROR 42501: permission denied to alter role
DETAIL Only roles with the SUPERUSER attribute may do this.
";
    let verifier = |world: &World, role: &str| world.image.role(&name(role)).unwrap().def.verifier.clone();
    world.actor = actor(&world, "u", "u");
    for (number, role) in ["u", "CURRENT_USER", "CURRENT_ROLE", "SESSION_USER"].into_iter().enumerate() {
        assert_eq!(world.run(&format!("ALTER ROLE {role} PASSWORD 'new{number}'")), "ALTER ROLE\n");
        assert_eq!(verifier(&world, "u").as_deref(), Some(format!("verifier of new{number}").as_str()));
    }
    assert_eq!(world.run("ALTER USER u PASSWORD 'new3'"), "ALTER ROLE (unchanged)\n");
    assert_eq!(world.run("ALTER USER IF EXISTS u WITH ENCRYPTED PASSWORD 'x'"), "ALTER ROLE\n");
    assert!(world.run("ALTER USER u IF VERSION 1 PASSWORD 'y'").starts_with("ERROR 40001"));
    for role in ["other", "admin", "r", "nobody", "\"U\""] {
        assert_eq!(world.run(&format!("ALTER USER {role} PASSWORD 'x'")), other, "{role}");
        assert_eq!(world.run(&format!("ALTER USER IF EXISTS {role} PASSWORD NULL")), other, "{role}");
    }
    let clauses = [
        "PASSWORD 'x' SUPERUSER",
        "PASSWORD 'x' CREATEROLE",
        "PASSWORD 'x' LOGIN",
        "PASSWORD 'x' INHERIT",
        "PASSWORD 'x' BYPASSRLS",
        "PASSWORD 'x' CONNECTION LIMIT -1",
        "PASSWORD 'x' VALID UNTIL '2040-01-01'",
        "PASSWORD 'x' CREATEDB",
        "PASSWORD 'x' COMMENT 'c'",
        "VALID UNTIL 'infinity'",
        "RENAME TO v",
        "SET search_path = 'x'",
        "RESET ALL",
    ];
    for clause in clauses {
        assert_eq!(world.run(&format!("ALTER USER u {clause}")), more, "{clause}");
    }
    assert_eq!(world.run("CREATE OR ALTER USER u PASSWORD 'z'").matches("ERROR 42501").count(), 1);
    assert_eq!(world.run("ALTER USER u PASSWORD NULL"), "ALTER ROLE\n");
    assert_eq!(verifier(&world, "u"), None);
    // After SET ROLE it is the role's own password, as in PostgreSQL.
    world.actor = actor(&world, "u", "r");
    assert_eq!(
        world.run("ALTER ROLE r PASSWORD 'x'; ALTER ROLE CURRENT_USER PASSWORD 'y'"),
        "ALTER ROLE\nALTER ROLE\n"
    );
    assert_eq!(world.run("ALTER ROLE u PASSWORD 'x'; ALTER ROLE SESSION_USER PASSWORD 'x'"), format!("{other}{other}"));
    // Whoever is not there any more has no own password.
    world.actor = actor(&world, "admin", "admin");
    let u = actor(&world, "u", "u");
    world.run("DROP ROLE u; CREATE USER u");
    world.actor = u;
    assert_eq!(world.run("ALTER ROLE u PASSWORD 'x'"), "ERROR 28000: role \"u\" was dropped\n");
}

#[test]
fn a_role_made_again_is_another_one() {
    let mut world = World::with("CREATE USER u SUPERUSER");
    let u = actor(&world, "u", "u");
    assert!(is_superuser(&world.image, &u));
    world.run("DROP ROLE u; CREATE USER u SUPERUSER");
    assert!(!is_superuser(&world.image, &u));
    assert_eq!(current_actor(&world.image, &u), Err(PlanError::RoleDropped { role: name("u") }));
    world.actor = u;
    assert_eq!(world.run("CREATE ROLE x"), "ERROR 28000: role \"u\" was dropped\n");
}

#[test]
fn set_role_needs_a_membership_with_set() {
    let world = World::with(
        "CREATE ROLE a; CREATE ROLE b; CREATE ROLE c; CREATE ROLE d; CREATE USER u; GRANT a TO u; GRANT b TO a;
         GRANT c TO a WITH SET FALSE",
    );
    let u = actor(&world, "u", "u");
    let may = |role: &str| may_set_role(&world.image, &u, &name(role)).map_err(|e| e.to_string());
    assert_eq!(may("u"), Ok(()));
    assert_eq!(may("a"), Ok(()));
    assert_eq!(may("b"), Ok(()));
    assert_eq!(may("c"), Err("permission denied to set role \"c\"".to_owned()));
    assert_eq!(may("d"), Err("role \"d\" does not exist".to_owned()));
    assert_eq!(may("nope"), Err("role \"nope\" does not exist".to_owned()));
    let admin = actor(&world, "admin", "u");
    assert_eq!(may_set_role(&world.image, &admin, &name("d")), Ok(()));
}

#[test]
fn c121_one_sees_what_one_owns_or_holds_a_grant_on() {
    let world = World::with(
        "CREATE ROLE g; CREATE USER u IN ROLE g; CREATE USER u0; CREATE CATALOG c1 USING mock; CREATE CATALOG c2 USING mock;
         CREATE CATALOG c3 USING mock AUTHORIZATION g; CREATE SECRET s AS 'x'; GRANT USAGE ON CATALOG c1 TO g;
         CREATE VIEW v AS SELECT 1; CREATE VIEW p AS SELECT 1; GRANT SELECT ON VIEW p TO PUBLIC;
         GRANT SELECT ON ALL VIEWS IN SCHEMA dataglot.public TO g; CREATE MASK m ON c1.s.t (x) AS 'k'",
    );
    let view = |v: &str| ObjectRef::View(TableRef::from_parts(["dataglot", "public", v]).unwrap());
    let catalog = |c: &str| ObjectRef::Catalog(name(c));
    let schema = |c: &str| ObjectRef::Schema(SchemaRef::from_parts([c, "s"]).unwrap());
    let role = |r: &str| ObjectRef::Role(name(r));
    let cases: [(ObjectRef, bool, bool); 13] = [
        (catalog("c1"), true, false),
        (catalog("c2"), false, false),
        (catalog("c3"), true, false),
        (catalog("nope"), false, false),
        (schema("c1"), true, false),
        (schema("c2"), false, false),
        (view("v"), true, false),
        (view("p"), true, true),
        (ObjectRef::Secret(name("s")), false, false),
        (ObjectRef::Mask(name("m")), false, false),
        (role("g"), true, false),
        (role("u0"), false, true),
        (role("admin"), false, false),
    ];
    let (u, u0, admin) = (actor(&world, "u", "u"), actor(&world, "u0", "u0"), actor(&world, "admin", "admin"));
    for (object, by_u, by_u0) in cases {
        assert_eq!(may_see(&world.image, &u, &object), by_u, "u {object}");
        assert_eq!(may_see(&world.image, &u0, &object), by_u0, "u0 {object}");
        assert!(may_see(&world.image, &admin, &object));
    }
}
